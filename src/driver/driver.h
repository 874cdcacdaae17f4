/* driver.h -- the one way to the driver, for the rooms above.
 *
 * Order of use in a call that reaches the driver:
 *     const struct tarn__calls *cu; tarn__driver(&cu) -> tarn__scope_enter(device) ->
 * calls
 *     -> tarn__scope_leave().
 */
#ifndef TARN_DRIVER_INTERNAL_H
#define TARN_DRIVER_INTERNAL_H

#include <tarn/driver.h>
#include "driver/calls.h"
#include <stdatomic.h>

/* The table of calls; opens the driver in the default order if none is open. */
tarn_status tarn__driver(const struct tarn__calls **out);

/* How many devices the open driver has; 0 before it is open. */
int tarn__driver_device_count(void);

/* Has exit begun, or is this a forked child? Then no driver call may be started: what is
 * given back is forgotten, and that is TARN_OK. */
extern atomic_bool tarn__driver_is_gone __attribute__((visibility("hidden")));

static inline bool tarn__driver_gone(void)
{
    return atomic_load_explicit(&tarn__driver_is_gone, memory_order_relaxed);
}

/* TARN_DRIVER_FAILURE if the driver is gone. */
tarn_status tarn__driver_check(void);

/* The failure of a driver call: `who` refuses, `call` is the driver's name for it, the
 * rest the numbers. CUDA_ERROR_OUT_OF_MEMORY is TARN_OUT_OF_MEMORY, NOT_SUPPORTED and
 * INVALID_VALUE... are what they say; all others TARN_DRIVER_FAILURE. */
tarn_status tarn__driver_failed(const char *who, const char *call, CUresult_ result,
                                const char *format, ...) TARN_PRINTF(4, 5);

/* `device` is one of the driver's, else TARN_INVALID_ARGUMENT in the words of `who`. */
tarn_status tarn__device_check(const char *who, int device);

/* The primary context of a device, retained once and for good. */
tarn_status tarn__primary_context(int device, CUcontext_ *out);

/* The device of which `context` is the primary context, where Tarn has retained it. */
bool tarn__device_of_context(CUcontext_ context, int *out);

/* A device's primary context is current between enter and leave; what was is put back. Where
 * somebody has reset the context since, it is retained anew. */
struct tarn__scope {
    const struct tarn__calls *calls;
    uint64_t life; /* the context's id: another one after each reset */
    bool pushed;   /* another context was current, so leave has to pop */
    bool relaxed;  /* the capture mode was exchanged, so leave has to put back */
    CUstreamCaptureMode_ mode; /* that it was then */
};
tarn_status tarn__scope_enter(int device, struct tarn__scope *out);
void tarn__scope_leave(struct tarn__scope *scope);

/* A scope whose calls end no capture, of this thread or another, in any mode: cuMemAlloc,
 * cuMemFree, cuMemHostAlloc, cuEventQuery and their like would (reference/driver.md,
 * section 2). cuCtxSynchronize, cuCtxRecordEvent and what touches a capturing stream still
 * do. */
tarn_status tarn__scope_enter_relaxed(int device, struct tarn__scope *out);

/* The same for calls that need no context. Leave gets what enter gave; a pair within a
 * pair is fine. */
tarn_status tarn__relaxed_enter(const struct tarn__calls *calls,
                                CUstreamCaptureMode_ *mode_out);
void tarn__relaxed_leave(const struct tarn__calls *calls, CUstreamCaptureMode_ mode);

/* The present life of a device's primary context; 0 where it has none. Makes no context. */
uint64_t tarn__context_life(int device);

/* Is the primary context of `device` still in the life that a scope had? (0, not known: it
 * is taken to be.) If not, all its
 * memory went with it, and the addresses may be somebody else's by now. Costs 8 ns, and
 * makes no context. */
bool tarn__context_lives(int device, uint64_t life);

/* A stream that is usable with `device`: the default streams, or one of its primary
 * context, raw or opened on that device. Inside a scope of that device. TARN_STREAM_NONE
 * is usable. After it tarn_stream_handle() has an answer, as long as nobody closes it. */
tarn_status tarn__stream_check(const char *who, const struct tarn__scope *scope,
                               tarn_stream stream, int device);

/* The CUstream as a number, for logs: all bits set for TARN_STREAM_NONE; the value itself
 * where it is not open. */
uint64_t tarn__stream_number(tarn_stream stream);

#endif
