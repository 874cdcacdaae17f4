/* driver.h -- the internal interface to the driver, for all other components.
 *
 * The order of calls in a function that reaches the driver:
 *
 *     const struct tarn__calls *cu;
 *     tarn__driver(&cu) -> tarn__scope_enter(device) -> calls -> tarn__scope_leave()
 */
#ifndef TARN_DRIVER_DRIVER_H
#define TARN_DRIVER_DRIVER_H

#include <tarn/driver.h>
#include "driver/calls.h"
#include <stdatomic.h>

enum { TARN__DEVICES_MAX = 128 }; /* devices that Tarn can use */

/* --- driver.c: the open driver, and the results of its calls --- */

/* Return the table of calls; opens the driver in the default order if none is open. */
tarn_status tarn__driver(const struct tarn__calls **out);

/* Return the number of devices of the open driver; 0 before it is open. */
int tarn__driver_device_count(void);

/* Exit has begun, or this is a forked child. Then no driver call may be started: a free
 * releases nothing and returns TARN_OK. */
extern atomic_bool tarn__driver_is_gone __attribute__((visibility("hidden")));

static inline bool tarn__driver_gone(void)
{
    return atomic_load_explicit(&tarn__driver_is_gone, memory_order_relaxed);
}

/* Return TARN_DRIVER_FAILURE if the driver is gone. */
tarn_status tarn__driver_check(void);

/* What a result of the driver means for the caller. */
enum tarn__failure_kind {
    TARN__FAILURE_OTHER, /* also CUDA_SUCCESS */
    TARN__FAILURE_OUT_OF_MEMORY,
    TARN__FAILURE_NOT_SUPPORTED,
    TARN__FAILURE_DRIVER_ENDED,  /* the driver has shut down */
    TARN__FAILURE_CONTEXT_RESET, /* the context was reset; it can be retained again */
    TARN__FAILURE_CONTEXT_LOST,  /* a kernel or the machine failed. Every later call
                                  * fails so until the context is reset. */
};
enum tarn__failure_kind tarn__driver_classify(int result);

/* Record the failure of a driver call and return its status. The message names
 * `component` and the driver's `call`; the numbers follow. Out of memory becomes
 * TARN_OUT_OF_MEMORY, not supported becomes TARN_NOT_SUPPORTED, and all others become
 * TARN_DRIVER_FAILURE. */
tarn_status tarn__driver_failed(const char *component, const char *call, CUresult_ result,
                                const char *format, ...) TARN_PRINTF(4, 5);

/* --- device.c: checks of a device, without a context --- */

/* Check that `device` is one of the driver's, else TARN_INVALID_ARGUMENT with a message
 * that names `component`. */
tarn_status tarn__device_check(const char *component, int device);

/* Query whether attribute `attribute` of `device` is set. The message of a failure names
 * `component`. */
tarn_status tarn__device_has(const char *component, int device, int attribute, bool *out);

/* Fail, since the driver of `device` can no longer be called. */
tarn_status tarn__device_gone(const char *component, int device);

/* --- device_info.c --- */

/* Write the UUID of a device, without a context. Returns false if the driver does not tell
 * it, or is not open. */
bool tarn__device_info_uuid(int device, char out[48]);

/* --- context.c: primary contexts and their generations --- */

/* Return the primary context of a device, which is retained once and never released. */
tarn_status tarn__context_primary(int device, CUcontext_ *out);

/* Find the device of which `context` is the primary context, where Tarn has retained
 * it. */
bool tarn__context_device(CUcontext_ context, int *out);

/* Return the current generation of a device's primary context; 0 where it has none.
 * Creates no context. */
uint64_t tarn__context_generation(int device);

/* Query the generation of `context`, the primary context of `device`. Retains the context
 * anew if it was reset. */
tarn_status tarn__context_read_generation(const struct tarn__calls *calls, int device,
                                          CUcontext_ context, uint64_t *out);

/* Return true if the primary context of `device` still has the generation of a scope. (0
 * is unknown and counts as current.) If not, the reset freed all its memory, and the
 * addresses may be another owner's by now. Costs 8 ns, and creates no context. */
bool tarn__context_generation_is_current(int device, uint64_t context_generation);

/* --- scope.c: calls with a device's primary context --- */

/* A scope: a device's primary context is current between enter and leave. Leave restores
 * the previous context. If the context was reset since, enter retains it anew. */
struct tarn__scope {
    const struct tarn__calls *calls;
    /* the context's id: another one after each reset */
    uint64_t context_generation;
    bool pushed;  /* another context was current, so leave has to pop */
    bool relaxed; /* the capture mode was exchanged, so leave has to restore it */
    CUstreamCaptureMode_ mode; /* the previous mode */
};
tarn_status tarn__scope_enter(int device, struct tarn__scope *out);
void tarn__scope_leave(struct tarn__scope *scope);

/* Enter a scope whose calls invalidate no capture, of this thread or another, in any
 * mode. Otherwise cuMemAlloc, cuMemFree, cuMemHostAlloc, cuEventQuery and similar calls
 * would. cuCtxSynchronize, cuCtxRecordEvent and calls on a capturing stream still do. */
tarn_status tarn__scope_enter_relaxed(int device, struct tarn__scope *out);

/* --- relaxed.c --- */

/* Do the same for calls that need no context. Leave takes the mode from enter; pairs may
 * nest. */
tarn_status tarn__relaxed_enter(const struct tarn__calls *calls,
                                CUstreamCaptureMode_ *mode_out);
void tarn__relaxed_leave(const struct tarn__calls *calls, CUstreamCaptureMode_ mode);

#endif
