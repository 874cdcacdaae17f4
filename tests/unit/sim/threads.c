/* Test many threads at once on one device: no write is lost, and none is mixed up. */
#include "driver.h"
#include "base/random.h"
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 300, BYTES = 3000 };

struct worker {
    pthread_t thread;
    uint64_t random;
    unsigned wrong; /* bytes that this thread had not written */
    CUresult result;
};

/* Allocate, fill, read back and free, with or without the pool, on a stream of its own.
 */
static CUresult one_round(struct worker *worker, CUstream stream, CUevent event)
{
    unsigned char value = (unsigned char)tarn__random_next(&worker->random), bytes[BYTES];
    bool pooled = tarn__random_below(&worker->random, 2);
    CUdeviceptr address = 0;
    CUresult result = pooled ? driver.cuMemAllocAsync(&address, BYTES, stream)
                             : driver.cuMemAlloc_v2(&address, BYTES);

    if (result == CUDA_SUCCESS)
        result = driver.cuMemsetD8Async(address, value, BYTES, stream);
    if (result == CUDA_SUCCESS)
        result = driver.cuEventRecord(event, stream);
    if (result == CUDA_SUCCESS && tarn__random_below(&worker->random, 4) == 0)
        result = driver.cuStreamWaitEvent(NULL, event, 0);
    if (result == CUDA_SUCCESS)
        result = driver.cuMemcpyDtoHAsync_v2(bytes, address, BYTES, stream);
    for (size_t i = 0; i < BYTES && result == CUDA_SUCCESS; i++)
        worker->wrong += bytes[i] != value;
    if (result == CUDA_SUCCESS)
        result = pooled ? driver.cuMemFreeAsync(address, stream)
                        : driver.cuMemFree_v2(address);
    return result;
}

static void *work(void *data)
{
    struct worker *worker = data;
    CUcontext context;
    CUevent event;

    if ((worker->result = driver.cuDevicePrimaryCtxRetain(&context, 0)) ||
        (worker->result = driver.cuCtxSetCurrent(context)) ||
        (worker->result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)))
        return NULL;
    for (int i = 0; i < ROUNDS && worker->result == CUDA_SUCCESS; i++) {
        CUstream stream = CU_STREAM_PER_THREAD;
        if (i % 4)
            worker->result = driver.cuStreamCreate(&stream, i % 2);
        if (worker->result == CUDA_SUCCESS)
            worker->result = one_round(worker, stream, event);
        if (i % 4 && worker->result == CUDA_SUCCESS)
            worker->result = driver.cuStreamDestroy_v2(stream);
    }
    driver.cuEventDestroy_v2(event);
    driver.cuDevicePrimaryCtxRelease_v2(0);
    return NULL;
}

TEST(threads_do_not_see_each_others_bytes)
{
    static struct worker workers[THREADS];
    unsigned long long live = driver.live_bytes();

    use_device(0);
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = (uint64_t)i;
        CHECK_EQUAL(0, pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        CHECK_EQUAL(CUDA_SUCCESS, workers[i].result);
        CHECK_EQUAL(0, workers[i].wrong);
    }
    CU(cuCtxSynchronize());
    CHECK(driver.live_bytes() == live);
}

static void *reset(void *unused)
{
    CUcontext context;

    for (int i = 0; i < 50; i++) {
        CU(cuDevicePrimaryCtxRetain(&context, 1));
        CU(cuDevicePrimaryCtxReset_v2(1));
        CU(cuDevicePrimaryCtxRelease_v2(1));
    }
    return unused;
}

static void *use(void *unused)
{
    CUdeviceptr address;

    use_device(1);
    for (int i = 0; i < 2000; i++) {
        CUresult result = driver.cuMemAlloc_v2(&address, 100);
        if (result == CUDA_SUCCESS &&
            driver.cuMemsetD8_v2(address, 1, 100) == CUDA_SUCCESS)
            driver.cuMemFree_v2(address);
        if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
            use_device(1);
            driver.cuDevicePrimaryCtxRelease_v2(1);
        }
    }
    driver.cuDevicePrimaryCtxRelease_v2(1);
    return unused;
}

/* Calls may fail there, but nothing breaks. */
TEST(threads_may_reset_a_context_that_others_use)
{
    pthread_t resetter, user;

    use_device(0);
    CHECK_EQUAL(0, pthread_create(&user, NULL, use, NULL));
    CHECK_EQUAL(0, pthread_create(&resetter, NULL, reset, NULL));
    pthread_join(user, NULL);
    pthread_join(resetter, NULL);
}
