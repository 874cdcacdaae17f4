/* help.c -- helpers of many themes: streams, blocks, bytes read back, gates, waits. */
#include "facts.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

CUstream new_stream(unsigned int flags)
{
    CUstream stream = NULL;

    cuStreamCreate(&stream, flags);
    return stream;
}

CUevent new_event(void)
{
    CUevent event = NULL;

    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    return event;
}

CUdeviceptr block(size_t bytes)
{
    CUdeviceptr pointer = 0;

    cuMemAlloc(&pointer, bytes);
    return pointer;
}

CUdeviceptr block_of(size_t bytes, unsigned char value)
{
    CUdeviceptr pointer = block(bytes);

    cuMemsetD8(pointer, value, bytes);
    cuStreamSynchronize(NULL);
    return pointer;
}

void *pinned(size_t bytes)
{
    void *pointer = NULL;

    cuMemHostAlloc(&pointer, bytes, 0);
    if (pointer)
        memset(pointer, 0, bytes);
    return pointer;
}

/* Created once, before any gate is closed: their creation might wait for the device. */
static CUstream peek_stream;
static unsigned char *peek_buffer;
enum { PEEK_BYTES = 65536 };

static const unsigned char *read_back(CUdeviceptr pointer, size_t bytes)
{
    static unsigned char nothing[1] = {0xee};

    if (!peek_stream) {
        peek_stream = new_stream(CU_STREAM_NON_BLOCKING);
        peek_buffer = pinned(PEEK_BYTES);
    }
    if (!peek_buffer ||
        cuMemcpyDtoHAsync(peek_buffer, pointer, bytes, peek_stream) != CUDA_SUCCESS ||
        cuStreamSynchronize(peek_stream) != CUDA_SUCCESS)
        return nothing;
    return peek_buffer;
}

unsigned char peek(CUdeviceptr pointer)
{
    return *read_back(pointer, 1);
}

bool all_are(CUdeviceptr pointer, size_t bytes, unsigned char value)
{
    while (bytes > 0) {
        size_t part = bytes < PEEK_BYTES ? bytes : PEEK_BYTES;
        const unsigned char *back = read_back(pointer, part);
        for (size_t i = 0; i < part; i++)
            if (back[i] != value)
                return false;
        pointer += part;
        bytes -= part;
    }
    return true;
}

struct attempt {
    CUresult (*call)(void *);
    void *data;
    CUresult result;
    atomic_bool done;
};

static void *attempt_run(void *data)
{
    struct attempt *attempt = data;

    cuCtxSetCurrent(context);
    attempt->result = attempt->call(attempt->data);
    atomic_store(&attempt->done, true);
    return NULL;
}

int in_thread(CUresult (*call)(void *), void *data)
{
    struct attempt attempt = {call, data, 0, false};
    pthread_t thread;

    pthread_create(&thread, NULL, attempt_run, &attempt);
    pthread_join(thread, NULL);
    return attempt.result;
}

static void sleep_briefly(void)
{
    nanosleep(&(struct timespec){0, 500000}, NULL);
}

static void gate_wait(void *data)
{
    struct gate *gate = data;

    atomic_store(&gate->reached, true);
    while (!atomic_load(&gate->open))
        sleep_briefly();
}

void gate_close(struct gate *gate, CUstream stream)
{
    atomic_store(&gate->open, false);
    atomic_store(&gate->reached, false);
    cuLaunchHostFunc(stream, gate_wait, gate);
}

void gate_open(struct gate *gate)
{
    atomic_store(&gate->open, true);
    cuCtxSynchronize();
}

int patience_ms = 250;

bool waits(CUresult (*call)(void *), void *data, struct gate *gate, CUresult *result)
{
    struct attempt attempt = {call, data, 0, false};
    pthread_t thread;
    bool waited;

    pthread_create(&thread, NULL, attempt_run, &attempt);
    for (int i = 0; i < 2 * patience_ms && !atomic_load(&attempt.done); i++)
        sleep_briefly();
    waited = !atomic_load(&attempt.done);
    if (waited)
        atomic_store(&gate->open, true);
    pthread_join(thread, NULL);
    *result = attempt.result;
    return waited;
}

void fact_waits(const char *name, CUresult (*call)(void *), void *data, struct gate *gate)
{
    CUresult result;
    bool waited = waits(call, data, gate, &result);

    gate_open(gate);
    if (result == NOT_FOUND_HERE)
        fact_result(name, result);
    else
        fact(name, "%s, %s", waited ? "waits" : "does not wait", result_name(result));
}

CUmemAllocationProp vmm_prop(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

CUmemAccessDesc vmm_access(int flags)
{
    return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

struct range vmm_range(size_t bytes)
{
    struct range range = {0, bytes, 0};
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    cuMemAddressReserve(&range.pointer, bytes, 0, 0, 0);
    cuMemCreate(&range.handle, bytes, &prop, 0);
    cuMemMap(range.pointer, bytes, 0, range.handle, 0);
    cuMemSetAccess(range.pointer, bytes, &access, 1);
    return range;
}

void vmm_end(struct range *range)
{
    cuMemUnmap(range->pointer, range->bytes);
    cuMemRelease(range->handle);
    cuMemAddressFree(range->pointer, range->bytes);
}
