/* Test streams: order, the default stream's barriers, handles and ids, destroyed streams.
 */
#include "driver.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* A gate at which work waits until the test opens it. */
struct gate {
    atomic_bool is_open;
    atomic_bool is_reached;
};

static void wait_at(void *data)
{
    struct gate *gate = data;

    atomic_store(&gate->is_reached, true);
    while (!atomic_load(&gate->is_open))
        sched_yield();
}

static void note(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

static void close_stream(CUstream stream, struct gate *gate)
{
    atomic_store(&gate->is_open, false);
    atomic_store(&gate->is_reached, false);
    CU(cuLaunchHostFunc(stream, wait_at, gate));
}

TEST(stream_work_runs_later_and_in_order)
{
    struct gate gate;
    CUdeviceptr address;
    unsigned word = 0;
    CUstream stream;
    void *pinned;

    use_device(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&address, 4096));
    CU(cuMemHostAlloc(&pinned, 4096, 0));
    *(unsigned *)pinned = 0;
    close_stream(stream, &gate);
    CU(cuMemsetD32Async(address, 1, 1024, stream));
    CU(cuMemsetD32Async(address, 2, 1024, stream));
    CU(cuMemcpyDtoHAsync_v2(pinned, address, 4096, stream));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    CHECK_EQUAL(0, *(unsigned *)pinned);
    atomic_store(&gate.is_open, true);
    CU(cuStreamSynchronize(stream));
    CU(cuStreamQuery(stream));
    CHECK_EQUAL(2, *(unsigned *)pinned);
    CU(cuMemcpyDtoH_v2(&word, address + 4092, 4));
    CHECK_EQUAL(2, word);
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(address));
    CU(cuStreamDestroy_v2(stream));
}

TEST(stream_pageable_source_may_be_changed_after_the_call)
{
    struct gate gate;
    CUdeviceptr address;
    CUstream stream;
    unsigned word = 5, got = 0;

    use_device(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&address, 4));
    close_stream(stream, &gate);
    CU(cuMemcpyHtoDAsync_v2(address, &word, 4, stream));
    word = 6;
    atomic_store(&gate.is_open, true);
    CU(cuMemcpyDtoHAsync_v2(&got, address, 4, stream));
    CHECK_EQUAL(5, got);
    CU(cuMemFree_v2(address));
    CU(cuStreamDestroy_v2(stream));
}

TEST(stream_blocking_waits_for_the_default_stream_and_non_blocking_does_not)
{
    CUstream blocking, free_running;
    atomic_int was_called = 0;
    CUdeviceptr block;
    struct gate gate;

    use_device(0);
    CU(cuStreamCreate(&blocking, 0));
    CU(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&block, 100));
    close_stream(NULL, &gate);
    CU(cuLaunchHostFunc(blocking, note, &was_called));
    CU(cuMemsetD8Async(block, 1, 100, free_running));
    CU(cuStreamSynchronize(free_running));
    CHECK_EQUAL(0, atomic_load(&was_called));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
    atomic_store(&gate.is_open, true);
    CU(cuStreamSynchronize(blocking));
    CHECK_EQUAL(1, atomic_load(&was_called));
    CU(cuMemFree_v2(block));
    CU(cuStreamDestroy_v2(blocking));
    CU(cuStreamDestroy_v2(free_running));
}

TEST(stream_default_waits_for_blocking_streams)
{
    CUstream blocking;
    atomic_int ran = 0;
    struct gate gate;

    use_device(0);
    CU(cuStreamCreate(&blocking, 0));
    close_stream(blocking, &gate);
    CU(cuLaunchHostFunc(CU_STREAM_LEGACY, note, &ran));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    CHECK_EQUAL(0, atomic_load(&ran));
    atomic_store(&gate.is_open, true);
    CU(cuStreamSynchronize(NULL));
    CHECK_EQUAL(1, atomic_load(&ran));
    CU(cuStreamDestroy_v2(blocking));
}

TEST(stream_default_does_not_wait_for_others)
{
    CUstream free_running;
    CUdeviceptr block;
    struct gate gate;

    use_device(0);
    CU(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&block, 100));
    close_stream(free_running, &gate);
    CU(cuMemsetD8Async(block, 1, 100, CU_STREAM_LEGACY));
    CU(cuStreamSynchronize(NULL));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(free_running));
    atomic_store(&gate.is_open, true);
    CU(cuCtxSynchronize());
    CU(cuStreamQuery(free_running));
    CU(cuMemFree_v2(block));
    CU(cuStreamDestroy_v2(free_running));
}

/* One thread runs them all, so one that blocks delays those of other streams. */
TEST(stream_host_functions_run_one_at_a_time)
{
    CUstream first, second;
    atomic_int ran = 0;
    struct gate gate;

    use_device(0);
    CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    close_stream(first, &gate);
    while (!atomic_load(&gate.is_reached))
        sched_yield();
    CU(cuLaunchHostFunc(second, note, &ran));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    CHECK_EQUAL(0, atomic_load(&ran));
    atomic_store(&gate.is_open, true);
    CU(cuStreamSynchronize(second));
    CHECK_EQUAL(1, atomic_load(&ran));
    CU(cuCtxSynchronize());
    CU(cuStreamDestroy_v2(first));
    CU(cuStreamDestroy_v2(second));
}

TEST(stream_wait_for_an_event_orders_two_streams)
{
    CUstream first, second;
    atomic_int ran = 0;
    struct gate gate;
    CUevent event;

    use_device(0);
    CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, 0));
    CU(cuEventQuery(event)); /* never recorded: done */
    CU(cuStreamWaitEvent(NULL, event, 0));
    close_stream(first, &gate);
    CU(cuEventRecord(event, first));
    CU(cuStreamWaitEvent(second, event, 0));
    CU(cuLaunchHostFunc(second, note, &ran));
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    CU(cuStreamDestroy_v2(first)); /* the event stays valid */
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CHECK_EQUAL(0, atomic_load(&ran));
    atomic_store(&gate.is_open, true);
    CU(cuEventSynchronize(event));
    CU(cuStreamSynchronize(second));
    CHECK_EQUAL(1, atomic_load(&ran));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(second));
}

TEST(stream_context_event_covers_destroyed_streams)
{
    CUstream stream;
    CUcontext context = use_device(0);
    struct gate gate;
    CUevent event;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    close_stream(stream, &gate);
    CU(cuStreamDestroy_v2(stream));
    CU(cuCtxRecordEvent(context, event));
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    atomic_store(&gate.is_open, true);
    CU(cuEventSynchronize(event));
    CU(cuEventDestroy_v2(event));
}

TEST(stream_handles_are_reused_at_once_and_ids_never)
{
    unsigned long long old_id, id, default_id, legacy_id;
    CUstream old, stream;

    use_device(0);
    CU(cuStreamGetId(NULL, &default_id));
    CU(cuStreamGetId(CU_STREAM_LEGACY, &legacy_id));
    CHECK(default_id == legacy_id);
    CU(cuStreamCreate(&old, 0));
    for (int i = 0; i < 100; i++) {
        CU(cuStreamGetId(old, &old_id));
        CU(cuStreamDestroy_v2(old));
        CU(cuStreamCreate(&stream, 0));
        CU(cuStreamGetId(stream, &id));
        CHECK(stream == old);
        CHECK(id > old_id);
    }
    CU(cuStreamDestroy_v2(stream));
}

static void *own_id(void *out)
{
    use_device(0);
    CU(cuStreamGetId(CU_STREAM_PER_THREAD, out));
    return NULL;
}

TEST(stream_per_thread_is_another_in_each_thread)
{
    unsigned long long here, again, there;
    pthread_t thread;

    own_id(&here);
    CU(cuStreamGetId_ptsz(NULL, &again));
    CHECK(here == again);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, own_id, &there));
    pthread_join(thread, NULL);
    CHECK(here != there);
}

TEST(stream_per_thread_calls_use_the_threads_stream)
{
    atomic_int ran = 0;
    struct gate gate;

    use_device(0);
    close_stream(CU_STREAM_PER_THREAD, &gate);
    CU(cuLaunchHostFunc_ptsz(NULL, note, &ran));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(NULL));
    atomic_store(&gate.is_open, true);
    CU(cuStreamSynchronize_ptsz(NULL));
    CHECK_EQUAL(1, atomic_load(&ran));
}

static CUresult in_host_function;

static void allocate_inside(void *data)
{
    CUdeviceptr address;

    (void)data;
    in_host_function = driver.cuMemAlloc_v2(&address, 100);
}

TEST(stream_driver_calls_in_a_host_function_are_rejected)
{
    use_device(0);
    CU(cuLaunchHostFunc(NULL, allocate_inside, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQUAL(CUDA_ERROR_NOT_PERMITTED, in_host_function);
}

/* Run this program again as `role`; store its stderr in `message`. Return its wait
 * status. */
static int run_as(const char *role, char *message, size_t message_bytes)
{
    int ends[2], status;
    size_t used = 0;
    ssize_t got;

    CHECK_EQUAL(0, pipe(ends));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        execl("/proc/self/exe", role, NULL);
        _exit(1);
    }
    close(ends[1]);
    while ((got = read(ends[0], message + used, message_bytes - 1 - used)) > 0)
        used += (size_t)got;
    message[used] = '\0';
    close(ends[0]);
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    return status;
}

/* The process that misuses a stream dies, and its message names the call. */
TEST(stream_that_is_destroyed_aborts_with_the_name_of_the_call)
{
    char message[4096];
    int status = run_as("misuse", message, sizeof message);

    CHECK(WIFSIGNALED(status));
    CHECK_EQUAL(SIGABRT, WTERMSIG(status));
    CHECK(strstr(message, "cuStreamQuery"));
    CHECK(strstr(message, "destroyed"));
}

/* The other side of the test above: this program again, with an argument. */
__attribute__((constructor(65535))) static void misuse(int argc, char **argv)
{
    CUstream stream;
    CUcontext context;

    if (argc != 1 || strcmp(argv[0], "misuse") != 0)
        return;
    if (driver.cuInit(0) || driver.cuDevicePrimaryCtxRetain(&context, 0) ||
        driver.cuCtxSetCurrent(context) || driver.cuStreamCreate(&stream, 0) ||
        driver.cuStreamDestroy_v2(stream))
        _exit(2);
    driver.cuStreamQuery(stream);
    _exit(3);
}

TEST(stream_many_streams_and_events_all_come_to_their_end)
{
    enum { STREAMS = 200, ROUNDS = 20 };
    static CUstream streams[STREAMS];
    atomic_int ran = 0;
    CUevent event;

    use_device(0);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0));
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < STREAMS; i++) {
            CU(cuLaunchHostFunc(streams[i], note, &ran));
            CU(cuEventRecord(event, streams[i]));
            CU(cuStreamWaitEvent(streams[(i * 7 + 1) % STREAMS], event, 0));
            if (i % 50 == 0)
                CU(cuLaunchHostFunc(NULL, note, &ran));
        }
    CU(cuCtxSynchronize());
    CHECK_EQUAL(ROUNDS * (STREAMS + 4), atomic_load(&ran));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    CU(cuEventDestroy_v2(event));
}

TEST(stream_unfinished_work_at_exit_does_not_block_the_process)
{
    char message[4096];
    int status = run_as("leave", message, sizeof message);

    CHECK(WIFEXITED(status));
    CHECK_EQUAL(0, WEXITSTATUS(status));
}

static void sleep_long(void *data)
{
    (void)data;
    sleep(1000);
}

static void after_the_driver(void)
{
    int count;

    if (driver.cuDeviceGetCount(&count) != CUDA_ERROR_DEINITIALIZED)
        _exit(5);
}

__attribute__((constructor(65535))) static void leave(int argc, char **argv)
{
    CUcontext context;

    if (argc != 1 || strcmp(argv[0], "leave") != 0)
        return;
    atexit(
        after_the_driver); /* registered before cuInit, so it runs after the driver's */
    if (driver.cuInit(0) || driver.cuDevicePrimaryCtxRetain(&context, 0) ||
        driver.cuCtxSetCurrent(context))
        _exit(2);
    for (int i = 0; i < 10; i++)
        if (driver.cuLaunchHostFunc(i % 2 ? NULL : CU_STREAM_PER_THREAD, sleep_long,
                                    NULL))
            _exit(3);
    exit(0);
}
