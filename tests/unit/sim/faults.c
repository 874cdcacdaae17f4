/* Test faults: calls by name, one in k, a lost device, slow calls, no host memory,
 * destroyed streams. */
#include "driver.h"

static void configure(const char *options)
{
    CHECK_EQUAL(0, driver.configure(options));
}

TEST(faults_all_calls_of_a_name_fail_and_no_others)
{
    CUdeviceptr address = 77;
    CUstream stream;

    use_device(0);
    configure("fail=call:cuMemAlloc");
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, 100));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, 100));
    CHECK(address == 0); /* as the real driver leaves it after any failure */
    CU(cuStreamCreate(&stream, 0));
    CU(cuMemAllocAsync(&address, 100, stream));
    CU(cuMemFreeAsync(address, stream));
    CU(cuStreamDestroy_v2(stream));
    CHECK(driver.faults() == 2);
    configure(NULL);
}

TEST(faults_one_call_of_a_name_fails)
{
    CUdeviceptr address;

    use_device(0);
    configure("fail=call:cuMemFree_v2:2,fail=nth:1");
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, 100));
    for (int i = 1; i <= 3; i++) {
        CU(cuMemAlloc_v2(&address, 100));
        CU_IS(i == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, cuMemFree_v2(address));
        if (i == 2)
            CU(cuMemFree_v2(address));
    }
    CHECK(driver.faults() == 2);
    configure(NULL);
}

/* Return which of 1,000 calls fail. */
static unsigned failures(const char *options, unsigned long long *pattern)
{
    size_t free_bytes, total;
    unsigned count = 0;

    *pattern = 0;
    configure(options);
    for (int i = 0; i < 1000; i++)
        if (driver.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS) {
            count++;
            *pattern = *pattern * 31 + (unsigned)i;
        }
    configure(NULL);
    return count;
}

TEST(faults_one_call_in_k_fails_the_same_for_the_same_seed)
{
    unsigned long long first, again, other;

    use_device(0);
    unsigned count = failures("fail=one-in:10,seed=5", &first);
    CHECK(count > 50 && count < 200);
    CHECK_EQUAL(count, failures("fail=one-in:10,seed=5", &again));
    CHECK(first == again);
    failures("fail=one-in:10,seed=6", &other);
    CHECK(first != other);
}

TEST(faults_a_lost_device_stays_lost_until_the_options_change)
{
    size_t free_bytes, total;

    use_device(0);
    configure("lost=3");
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    for (int i = 0; i < 5; i++)
        CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemGetInfo_v2(&free_bytes, &total));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    configure("lost=1,lost-code=719");
    CU_IS(719, cuCtxSynchronize());
    configure(NULL);
    CU(cuCtxSynchronize());
}

TEST(faults_slow_calls_take_simulated_time)
{
    CUevent before, after;
    float milliseconds;
    size_t free_bytes, total;

    use_device(0);
    configure("mode=seeded,slow=cuMemGetInfo:5000000,latency=10-10");
    CU(cuEventCreate(&before, 0));
    CU(cuEventCreate(&after, 0));
    CU(cuEventRecord(before, NULL));
    CU(cuMemGetInfo_v2(&free_bytes, &total)); /* the record is due directly after it */
    CU(cuCtxSynchronize());
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CU(cuEventRecord(after, NULL));
    CU(cuCtxSynchronize());
    CU(cuEventElapsedTime(&milliseconds, before, after));
    CHECK(milliseconds >= 5 && milliseconds < 10);
    CU(cuEventDestroy_v2(before));
    CU(cuEventDestroy_v2(after));
    configure(NULL);
}

/* --- no host memory --- */

static void nothing(void *data)
{
    (void)data;
}

/* Make every call that may need host memory; a failure is reported, and the second try
 * succeeds. */
#define RETRY_AFTER_FAILURE(call)                           \
    do {                                                    \
        CUresult result_ = driver.call;                     \
        if (result_ != CUDA_SUCCESS) {                      \
            CHECK_EQUAL(CUDA_ERROR_OUT_OF_MEMORY, result_); \
            CHECK_EQUAL(CUDA_SUCCESS, driver.call);         \
        }                                                   \
    } while (0)

static void use_everything(void)
{
    CUdeviceptr small, large, pooled, managed;
    CUstream stream, other;
    CUcontext context;
    CUevent event;
    void *pinned;

    CU(cuCtxGetCurrent(&context));
    RETRY_AFTER_FAILURE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    RETRY_AFTER_FAILURE(cuStreamCreate(&other, 0));
    RETRY_AFTER_FAILURE(cuEventCreate(&event, 0));
    RETRY_AFTER_FAILURE(cuMemAlloc_v2(&small, 1000));
    RETRY_AFTER_FAILURE(cuMemAlloc_v2(&large, 3 << 20));
    RETRY_AFTER_FAILURE(cuMemHostAlloc(&pinned, 1000, 0));
    RETRY_AFTER_FAILURE(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
    RETRY_AFTER_FAILURE(cuMemAllocAsync(&pooled, 1000, stream));
    RETRY_AFTER_FAILURE(cuMemsetD8Async(pooled, 1, 1000, stream));
    RETRY_AFTER_FAILURE(cuLaunchHostFunc(stream, nothing, NULL));
    RETRY_AFTER_FAILURE(cuEventRecord(event, stream));
    RETRY_AFTER_FAILURE(cuStreamWaitEvent(other, event, 0));
    RETRY_AFTER_FAILURE(cuMemcpyDtoDAsync_v2(small, pooled, 1000, other));
    RETRY_AFTER_FAILURE(cuMemcpyDtoHAsync_v2(pinned, small, 1000, NULL));
    RETRY_AFTER_FAILURE(cuCtxRecordEvent(context, event));
    RETRY_AFTER_FAILURE(cuMemFreeAsync(pooled, other));
    RETRY_AFTER_FAILURE(cuStreamSynchronize(NULL));
    CHECK_EQUAL(1, *(char *)pinned);
    CU(cuMemFree_v2(managed));
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(large));
    CU(cuMemFree_v2(small));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(other));
    CU(cuStreamDestroy_v2(stream));
}

static unsigned try_without_memory(const char *mode)
{
    unsigned long long live = driver.live_bytes();
    unsigned nth = 0;

    do {
        char options[64];
        snprintf(options, sizeof options, "%s,host-memory=fail:%u", mode, ++nth);
        configure(options);
        use_everything();
        CHECK(driver.live_bytes() == live);
    } while (driver.faults() > 0);
    configure(NULL);
    return nth;
}

TEST(faults_no_host_memory_is_an_error_and_loses_nothing)
{
    use_device(0);
    CHECK(try_without_memory("mode=eager") > 20);
    CHECK(try_without_memory("mode=seeded") > 20);
    CHECK(try_without_memory("mode=seeded,seed=4,races=on") > 20);
}

/* --- destroyed streams --- */

TEST(faults_dead_streams_are_errors_by_option_and_counted)
{
    CUdeviceptr address = 77;
    CUevent event;
    CUstream stream;
    unsigned long long id = 77;

    use_device(0);
    configure("dead=error");
    CU(cuStreamCreate(&stream, 0));
    CU(cuEventCreate(&event, 0));
    CU(cuStreamDestroy_v2(stream));
    CHECK(driver.misuses() == 0);
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuStreamGetId(stream, &id));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuMemAllocAsync(&address, 100, stream));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)(void *)&address));
    CHECK(driver.misuses() == 5);
    CHECK(id == 77 && address == 0);
    CU(cuEventDestroy_v2(event));
    configure(NULL);
    CHECK(driver.misuses() == 0);
}
