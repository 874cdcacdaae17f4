/* device.h -- driver calls of the order tests themselves: patterns, events, graphs.
 *
 * They use the library that Tarn has open, but not Tarn, so that the tested code does not
 * check itself. On a GPU kernels write and verify the patterns. The simulator runs no
 * kernels: memsets write them, and copies to pinned memory let the host check.
 */
#ifndef ORDER_DEVICE_H
#define ORDER_DEVICE_H

#include <tarn/tarn.h>

typedef struct event *event; /* CUevent and so on: only passed on */
typedef struct graph *graph;
typedef struct graph_exec *graph_exec;

enum capture_mode {
    CAPTURE_GLOBAL,
    CAPTURE_THREAD_LOCAL,
    CAPTURE_RELAXED,
    CAPTURE_MODES
};

struct device_calls {
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemHostAlloc)(void **, size_t, unsigned);
    int (*cuMemFreeHost)(void *);
    int (*cuMemAlloc_v2)(tarn_device_ptr *, size_t);
    int (*cuMemFree_v2)(tarn_device_ptr);
    int (*cuMemsetD32Async)(tarn_device_ptr, unsigned, size_t, void *);
    int (*cuMemcpyDtoHAsync_v2)(void *, tarn_device_ptr, size_t, void *);
    int (*cuEventCreate)(event *, unsigned);
    int (*cuEventDestroy_v2)(event);
    int (*cuEventRecord)(event, void *);
    int (*cuEventSynchronize)(event);
    int (*cuStreamWaitEvent)(void *, event, unsigned);
    int (*cuStreamSynchronize)(void *);
    int (*cuLaunchHostFunc)(void *, void (*)(void *), void *);
    int (*cuStreamBeginCapture_v2)(void *, int);
    int (*cuStreamEndCapture)(void *, graph *);
    int (*cuGraphInstantiateWithFlags)(graph_exec *, graph, unsigned long long);
    int (*cuGraphLaunch)(graph_exec, void *);
    int (*cuGraphExecDestroy)(graph_exec);
    int (*cuGraphDestroy)(graph);
    int (*cuThreadExchangeStreamCaptureMode)(int *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, void *, void **, void **);
};
extern struct device_calls driver;

/* Check that a call succeeds; else the test fails with its text and result. */
#define CU(call) device_must(driver.call, #call)
void device_must(int result, const char *call);

/* Open the driver and compile the kernels; the context of device 0 is current. */
void device_open(void);
/* Make the context current in a new thread. */
void device_enter(void);
extern bool device_is_sim;

/* Set options of the simulator; nothing on a GPU. */
void device_configure(const char *options);
/* The number of races that the simulator found, and the message of the last one; 0 on a
 * GPU. */
unsigned long long device_races(const char **message_out);

/* Delay a stream. The simulator's seeded mode runs work late anyway; else `device_delay`
 * queues some microseconds of idle time on a stream. */
extern bool device_is_seeded;
void device_delay(void *stream, unsigned microseconds);

/* Queue a write of `tag` to each word of a block. */
void device_fill(tarn_device_ptr block, size_t bytes, unsigned tag, void *stream);
/* Queue a check by the device itself. Its result is in pinned memory: report[0] (wrong
 * words), [1] (the tag) and [2] (the first wrong word). False: the device cannot. */
bool device_verify(tarn_device_ptr block, size_t bytes, unsigned tag, void *stream,
                   unsigned *report);

/* Calls that are allowed during a capture only in the relaxed mode of the thread:
 * page-locked memory, waiting for an event or a stream, instantiating graphs. */
void *device_pinned(size_t bytes);
void device_pinned_free(void *memory);
void device_event_wait(event done);
void device_stream_wait(void *stream);
graph_exec device_instantiate(graph captured); /* and destroy the graph */
void device_exec_destroy(graph_exec exec);

#endif
