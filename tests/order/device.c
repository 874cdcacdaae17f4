/* device.c -- driver calls of the order tests. */
#define _GNU_SOURCE
#include "device.h"
#include "order.h"
#include "kernels.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/sim.h>
#include <time.h>

enum { PORTABLE_AND_MAPPED = 3, THREADS = 256, GRID_MAX = 1024 };

struct device_calls driver;
bool device_is_sim, device_is_seeded;

static void *library, *context, *fill, *verify, *spin;

void device_must(int result, const char *call)
{
    if (result != 0)
        order_fail("%s gives %d", call, result);
}

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);

    if (!symbol)
        order_fail("the driver has no %s", name);
    return symbol;
}

static void find_calls(void)
{
#define FIND(name) *(void **)(void *)&driver.name = find(#name)
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuMemHostAlloc);
    FIND(cuMemFreeHost);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemsetD32Async);
    FIND(cuMemcpyDtoHAsync_v2);
    FIND(cuEventCreate);
    FIND(cuEventDestroy_v2);
    FIND(cuEventRecord);
    FIND(cuEventSynchronize);
    FIND(cuStreamWaitEvent);
    FIND(cuStreamSynchronize);
    FIND(cuLaunchHostFunc);
    FIND(cuStreamBeginCapture_v2);
    FIND(cuStreamEndCapture);
    FIND(cuGraphInstantiateWithFlags);
    FIND(cuGraphLaunch);
    FIND(cuGraphExecDestroy);
    FIND(cuGraphDestroy);
    FIND(cuThreadExchangeStreamCaptureMode);
    FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction);
    FIND(cuLaunchKernel);
#undef FIND
}

static void load_kernels(void)
{
    void *module;

    CU(cuModuleLoadData(&module, order_kernels));
    CU(cuModuleGetFunction(&fill, module, "order_fill"));
    CU(cuModuleGetFunction(&verify, module, "order_verify"));
    CU(cuModuleGetFunction(&spin, module, "order_spin"));
}

void device_open(void)
{
    tarn_driver_info info;

    if (tarn_driver_get_info(&info) != TARN_OK)
        order_fail("%s", tarn_error_last()->message);
    library = dlopen(info.path, RTLD_NOW);
    if (!library)
        order_fail("%s", dlerror());
    device_is_sim = info.is_simulator;
    find_calls();
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    device_enter();
    if (!device_is_sim)
        load_kernels();
}

void device_enter(void)
{
    CU(cuCtxSetCurrent(context));
}

void device_configure(const char *options)
{
    if (!device_is_sim)
        return;
    tarn_sim_configure_fn *configure =
        (tarn_sim_configure_fn *)find("tarn_sim_configure");
    if (configure(options) != 0)
        order_fail("the simulator rejects %s: %s", options,
                   ((tarn_sim_error_fn *)find("tarn_sim_error"))());
    device_is_seeded = options && strstr(options, "mode=seeded");
}

unsigned long long device_races(const char **message_out)
{
    if (!device_is_sim)
        return 0;
    *message_out = ((tarn_sim_race_fn *)find("tarn_sim_race"))();
    return ((tarn_sim_races_fn *)find("tarn_sim_races"))();
}

static void launch(void *function, unsigned blocks, void *stream, void **arguments)
{
    CU(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL));
}

static unsigned blocks_for(unsigned long long words)
{
    unsigned long long blocks = (words + THREADS - 1) / THREADS;

    return blocks < GRID_MAX ? (unsigned)blocks : GRID_MAX;
}

static void sleep_on_host(void *microseconds)
{
    long ns = (long)(uintptr_t)microseconds * 1000;
    struct timespec time = {.tv_nsec = ns};

    nanosleep(&time, NULL);
}

void device_delay(void *stream, unsigned microseconds)
{
    unsigned long long ns = microseconds * 100ull; /* a GPU is faster by this factor */
    void *arguments[] = {&ns};

    if (device_is_seeded)
        return;
    if (device_is_sim)
        CU(cuLaunchHostFunc(stream, sleep_on_host, (void *)(uintptr_t)microseconds));
    else
        CU(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

void device_fill(tarn_device_ptr block, size_t bytes, unsigned tag, void *stream)
{
    unsigned long long words = bytes / sizeof tag;
    void *arguments[] = {&block, &words, &tag};

    if (words == 0)
        return;
    if (device_is_sim)
        CU(cuMemsetD32Async(block, tag, words, stream));
    else
        launch(fill, blocks_for(words), stream, arguments);
}

bool device_verify(tarn_device_ptr block, size_t bytes, unsigned tag, void *stream,
                   unsigned *report)
{
    unsigned long long words = bytes / sizeof tag;
    void *arguments[] = {&block, &words, &tag, &report};

    if (device_is_sim)
        return false;
    if (words > 0)
        launch(verify, blocks_for(words), stream, arguments);
    return true;
}

/* --- in the relaxed mode of the thread ------------------------------------------------- */

static int relax(void)
{
    int mode = CAPTURE_RELAXED;

    CU(cuThreadExchangeStreamCaptureMode(&mode));
    return mode;
}

static void restore_mode(int mode)
{
    CU(cuThreadExchangeStreamCaptureMode(&mode));
}

void *device_pinned(size_t bytes)
{
    int mode = relax();
    void *memory;

    CU(cuMemHostAlloc(&memory, bytes, PORTABLE_AND_MAPPED));
    restore_mode(mode);
    return memory;
}

void device_pinned_free(void *memory)
{
    int mode = relax();

    CU(cuMemFreeHost(memory));
    restore_mode(mode);
}

void device_event_wait(event done)
{
    int mode = relax();

    CU(cuEventSynchronize(done));
    restore_mode(mode);
}

void device_stream_wait(void *stream)
{
    int mode = relax();

    CU(cuStreamSynchronize(stream));
    restore_mode(mode);
}

graph_exec device_instantiate(graph captured)
{
    int mode = relax();
    graph_exec exec;

    CU(cuGraphInstantiateWithFlags(&exec, captured, 0));
    CU(cuGraphDestroy(captured));
    restore_mode(mode);
    return exec;
}

void device_exec_destroy(graph_exec exec)
{
    int mode = relax();

    CU(cuGraphExecDestroy(exec));
    restore_mode(mode);
}
