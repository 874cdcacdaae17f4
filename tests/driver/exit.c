/* exit.c -- facts about the end: calls after the driver shut down, and in a forked child.
 */
#include "facts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr left_pointer;
static void *left_host;
static CUstream left_stream;
static CUevent left_event;
static const char *when = "none";
static bool in_destructor;

static void leave_things(void)
{
    left_pointer = block(4096);
    left_host = pinned(4096);
    left_stream = new_stream(CU_STREAM_NON_BLOCKING);
    left_event = new_event();
    cuEventRecord(left_event, left_stream);
}

static void all_calls(void)
{
    CUdeviceptr pointer = 0;
    CUcontext current = NULL;
    size_t bytes = 0;
    int number = 0;
    const char *text = NULL;

    fact_result(named("%s.cuMemFree", when), cuMemFree(left_pointer));
    fact_result(named("%s.cuMemFreeHost", when), cuMemFreeHost(left_host));
    fact_result(named("%s.cuMemAlloc", when), cuMemAlloc(&pointer, 4096));
    fact_result(named("%s.cuMemGetInfo", when), cuMemGetInfo(&bytes, &bytes));
    fact_result(named("%s.cuEventQuery", when), cuEventQuery(left_event));
    fact_result(named("%s.cuEventDestroy", when), cuEventDestroy(left_event));
    fact_result(named("%s.cuStreamQuery", when), cuStreamQuery(left_stream));
    fact_result(named("%s.cuStreamGetId", when),
                cuStreamGetId(left_stream, &(unsigned long long){0}));
    fact_result(named("%s.cuStreamIsCapturing", when),
                cuStreamIsCapturing(left_stream, &number));
    fact_result(named("%s.cuStreamSynchronize", when), cuStreamSynchronize(left_stream));
    fact_result(named("%s.cuStreamDestroy", when), cuStreamDestroy(left_stream));
    fact_result(named("%s.cuCtxSynchronize", when), cuCtxSynchronize());
    fact_result(named("%s.cuCtxGetCurrent", when), cuCtxGetCurrent(&current));
    fact_result(named("%s.cuCtxSetCurrent", when), cuCtxSetCurrent(context));
    fact_result(named("%s.cuDevicePrimaryCtxRelease", when),
                cuDevicePrimaryCtxRelease(0));
    fact_result(named("%s.cuDeviceGetCount", when), cuDeviceGetCount(&number));
    fact_result(named("%s.cuDriverGetVersion", when), cuDriverGetVersion(&number));
    fact_result(named("%s.cuGetErrorName", when), cuGetErrorName(1, &text));
    fact_result(named("%s.cuInit", when), cuInit(0));
}

static void after_exit(void)
{
    all_calls();
    fflush(stdout);
}

__attribute__((destructor)) static void at_destructor(void)
{
    if (in_destructor)
        after_exit();
}

static void registered_before_open(void)
{
    when = "atexit_before_open";
    atexit(after_exit);
    ready();
    leave_things();
    exit(0);
}

static void registered_before_init(void)
{
    when = "atexit_before_init";
    atexit(after_exit);
    ready();
    leave_things();
    exit(0);
}

static void registered_after_init(void)
{
    when = "atexit_after_init";
    leave_things();
    atexit(after_exit);
    exit(0);
}

static void destructor(void)
{
    when = "destructor";
    in_destructor = true;
    leave_things();
    exit(0);
}

/* --- a forked child --- */

static void in_fork(const char *name)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        alarm(10);
        when = name;
        all_calls();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        fact(named("%s.child", name), "%s", WIFSIGNALED(status) ? "dies" : "stops");
}

static void forked(void)
{
    leave_things();
    in_fork("forked");
    fact_result("forked.parent_goes_on", cuMemFree(left_pointer));
    fact_result("forked.parent_synchronizes", cuCtxSynchronize());
}

/* Opened, without cuInit before the fork: the child may initialize the driver. */
static void forked_uninitialized(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        alarm(10);
        fact_result("forked_uninitialized.cuInit", cuInit(0));
        fact_result("forked_uninitialized.retain", cuDevicePrimaryCtxRetain(&context, 0));
        cuCtxSetCurrent(context);
        fact_result("forked_uninitialized.alloc", cuMemAlloc(&left_pointer, 4096));
        _exit(0);
    }
    waitpid(child, &status, 0);
    fact_bool("forked_uninitialized.child_ends_well", status == 0);
    fact_result("forked_uninitialized.parent_inits", cuInit(0));
}

/* --- exit while threads call --- */

static bool with_allocations;

static void *hammer(void *data)
{
    CUstream stream;
    CUevent event;

    (void)data;
    cuCtxSetCurrent(context);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    event = new_event();
    for (;;) {
        CUdeviceptr pointer = 0;
        cuStreamIsCapturing(stream, &(int){0});
        cuStreamGetId(stream, &(unsigned long long){0});
        cuEventRecord(event, stream);
        cuEventQuery(event);
        cuStreamWaitEvent(stream, event, 0);
        if (with_allocations) {
            cuMemAllocAsync(&pointer, 4096, stream);
            cuMemFreeAsync(pointer, stream);
        }
    }
    return NULL;
}

static void under_load(const char *name)
{
    enum { TIMES = 2, THREADS = 8 };
    int well = 0;

    for (int i = 0; i < TIMES; i++) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            pthread_t threads[THREADS];
            ready();
            alarm(10);
            for (int k = 0; k < THREADS; k++)
                pthread_create(&threads[k], NULL, hammer, NULL);
            usleep(30000);
            exit(0);
        }
        waitpid(child, &status, 0);
        well += status == 0;
    }
    fact(name, "%s", well == TIMES ? "all end well" : "some do not end well");
}

static void loaded(void)
{
    under_load("under_load");
}

static void loaded_with_allocations(void)
{
    with_allocations = true;
    under_load("under_load_with_allocations");
}

/* A process that ends with a stream held and memory left. */
static void held(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        ready();
        alarm(10);
        leave_things();
        cuMemsetD8Async(left_pointer, 1, 4096, left_stream);
        exit(0);
    }
    waitpid(child, &status, 0);
    fact_bool("with_work_left_ends_well", status == 0);
}

static const struct part parts[] = {
    {"atexit_before_open", registered_before_open, CLOSED},
    {"atexit_before_init", registered_before_init, BARE},
    {"atexit_after_init", registered_after_init, ALONE},
    {"destructor", destructor, ALONE},
    {"forked", forked, ALONE},
    {"forked_uninitialized", forked_uninitialized, BARE},
    {"under_load", loaded, CLOSED},
    {"under_load_with_allocations", loaded_with_allocations, CLOSED},
    {"with_work_left", held, CLOSED},
    END_OF_PARTS,
};
const struct theme theme_exit = {"exit", parts, false};
