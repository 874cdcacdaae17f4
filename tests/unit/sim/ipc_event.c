/* Test events of other processes: a wait for one holds until it is done there. */
#define _GNU_SOURCE
#include "processes.h"
#include <sched.h>
#include <stdatomic.h>

enum { SHARED = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, BYTES = 4096 };

static void wait_at(void *data)
{
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

static bool begin(void)
{
    CUcontext context;

    return !driver.cuInit(0) && !driver.cuDevicePrimaryCtxRetain(&context, 0) &&
           !driver.cuCtxSetCurrent(context);
}

/* An event that is recorded behind a closed gate; its handle goes to the other process. */
static bool send_pending(int peer, CUevent *event, CUstream *stream, atomic_bool *open)
{
    CUipcEventHandle handle;

    return !driver.cuEventCreate(event, SHARED) && !driver.cuStreamCreate(stream, 1) &&
           !driver.cuLaunchHostFunc(*stream, wait_at, open) &&
           !driver.cuEventRecord(*event, *stream) &&
           !driver.cuIpcGetEventHandle(&handle, *event) &&
           write(peer, &handle, sizeof handle) == sizeof handle;
}

/* Open the gate on command; without a command, its end leaves the record pending. */
static int owner(int peer)
{
    static atomic_bool open;
    CUstream stream;
    CUevent event;

    if (!begin() || !send_pending(peer, &event, &stream, &open))
        return 100;
    if (!wait_for_peer(peer))
        return 101;
    atomic_store(&open, true);
    if (driver.cuStreamSynchronize(stream) || driver.cuEventDestroy_v2(event) ||
        !notify_peer(peer))
        return 102;
    wait_for_peer(peer);
    return 0;
}

/* Open each received handle, and send the findings. */
static int looker(int peer)
{
    CUipcEventHandle handle;
    CUevent event;

    if (!begin() || read(peer, &handle, sizeof handle) != sizeof handle)
        return 100;
    return (int)driver.cuIpcOpenEventHandle(&event, handle);
}

/* Record each received event behind a gate of its own, until commanded otherwise. */
static int recorder(int peer)
{
    static atomic_bool open;
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;

    if (!begin() || read(peer, &handle, sizeof handle) != sizeof handle ||
        driver.cuIpcOpenEventHandle(&event, handle) ||
        driver.cuStreamCreate(&stream, 1) ||
        driver.cuLaunchHostFunc(stream, wait_at, &open) ||
        driver.cuEventRecord(event, stream) || !notify_peer(peer) || !wait_for_peer(peer))
        return 100;
    atomic_store(&open, true);
    return driver.cuEventSynchronize(event) || driver.cuEventDestroy_v2(event) ? 101 : 0;
}

ROLES({"owner", owner}, {"looker", looker}, {"recorder", recorder})

static CUevent receive_event(struct process other)
{
    CUipcEventHandle handle;
    CUevent event = NULL;

    CHECK_EQUAL(sizeof handle, read(other.peer, &handle, sizeof handle));
    CU(cuIpcOpenEventHandle(&event, handle));
    return event;
}

/* A block that is filled behind `event`. */
static CUdeviceptr fill_behind(CUevent event, CUstream stream)
{
    CUdeviceptr block;

    CU(cuMemAlloc_v2(&block, BYTES));
    CU(cuMemsetD8_v2(block, 0, BYTES));
    CU(cuCtxSynchronize());
    CU(cuStreamWaitEvent(stream, event, 0));
    CU(cuMemsetD8Async(block, 5, BYTES, stream));
    return block;
}

static int peek(CUdeviceptr block)
{
    unsigned char byte = 77;
    CUstream stream;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemcpyDtoHAsync_v2(&byte, block, 1, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy_v2(stream));
    return byte;
}

static void wait_for_another_process(void)
{
    CUstream stream;

    use_device(0);
    struct process other = start("owner");
    CUevent event = receive_event(other);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CUdeviceptr block = fill_behind(event, stream);
    CHECK_EQUAL(0, peek(block));
    CHECK(notify_peer(other.peer));
    CU(cuEventSynchronize(event));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(block));
    CHECK(wait_for_peer(other.peer)); /* the other has destroyed it */
    CU(cuEventQuery(event));
    CU(cuEventRecord(event, stream)); /* and here it goes on */
    CU(cuEventSynchronize(event));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(block));
    CHECK_EQUAL(0, end(other));
}

TEST(ipc_event_of_another_process_blocks_a_stream_until_it_is_done)
{
    wait_for_another_process();
}

TEST(ipc_event_of_another_process_blocks_a_stream_in_the_seeded_mode)
{
    use_device(0);
    for (int seed = 0; seed < 3; seed++) {
        char options[64];
        snprintf(options, sizeof options, "mode=seeded,seed=%d,patience=20", seed);
        CHECK_EQUAL(0, driver.configure(options));
        wait_for_another_process();
        CHECK_EQUAL(0, driver.configure(NULL));
    }
}

TEST(ipc_event_that_another_process_records_is_pending_here)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;

    use_device(0);
    struct process other = start("recorder");
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, SHARED));
    CU(cuEventRecord(event, stream));
    CU(cuEventSynchronize(event));
    CU(cuIpcGetEventHandle(&handle, event));
    CHECK_EQUAL(sizeof handle, write(other.peer, &handle, sizeof handle));
    CHECK(wait_for_peer(other.peer));
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CUdeviceptr block = fill_behind(event, stream);
    CHECK_EQUAL(0, peek(block));
    CHECK(notify_peer(other.peer));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(block));
    CHECK_EQUAL(0, end(other));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(block));
}

/* Otherwise a waiting thread would wait forever. */
TEST(ipc_event_that_a_killed_process_has_recorded_is_done)
{
    CUstream stream;

    use_device(0);
    struct process other = start("owner");
    CUevent event = receive_event(other);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr block = fill_behind(event, stream);
    end_killed(other);
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(block));
    CU(cuEventQuery(event));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(block));
}

static int open_in_child(const CUipcEventHandle *handle)
{
    struct process other = start("looker");

    CHECK_EQUAL(sizeof *handle, write(other.peer, handle, sizeof *handle));
    return end(other);
}

TEST(ipc_event_invalid_handles_are_rejected)
{
    CUipcEventHandle handle, forged;
    CUevent event, plain, out = (CUevent)(uintptr_t)77;

    use_device(0);
    CU(cuEventCreate(&event, SHARED));
    CU(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
    CU(cuIpcGetEventHandle(&handle, event));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&out, handle));
    CHECK(out == (CUevent)(uintptr_t)77);
    CHECK_EQUAL(0, open_in_child(&handle));
    for (size_t byte = 0; byte < 32; byte++) {
        forged = handle;
        ((unsigned char *)&forged)[byte] ^= 0x41;
        int seen = open_in_child(&forged);
        /* The number that a byte makes of this process may be that of the reader. */
        CHECK(seen == CUDA_ERROR_MAP_FAILED || seen == CUDA_ERROR_INVALID_CONTEXT);
    }
    CU(cuEventDestroy_v2(event));
    CHECK(open_in_child(&handle) == CUDA_ERROR_MAP_FAILED);
    CU(cuEventDestroy_v2(plain));
}
