/* context.c -- activates contexts, makes them current, and destroys them with their
 * content. */
#include "sim/core/context.h"
#include "sim/core/api.h"
#include "sim/graph/capture.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/memory.h"
#include "sim/memory/pool.h"
#include "sim/work/stream.h"
#include "sim/core/thread.h"
#include "sim/work/work.h"
#include <stdlib.h>
#include <string.h>

struct sim_context *sim_contexts;
static struct sim_context *primaries[SIM_DEVICES_MAX];

static const size_t default_limits[SIM_LIMITS] = {1024, 7602176, 8388608, 2, 2048, 64};

struct sim_context *sim_context_current(void)
{
    return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}

static CUcontext handle_of(struct sim_context *context)
{
    return (CUcontext)(void *)context;
}

struct sim_context *sim_context_find(CUcontext handle)
{
    struct sim_context *context = sim_contexts;

    while (context && handle_of(context) != handle)
        context = context->next;
    return context;
}

/* Find a context. A handle that never was one crashes the real driver. */
static struct sim_context *find_known(CUcontext handle)
{
    struct sim_context *context = sim_context_find(handle);

    if (!context)
        sim_abort_locked(sim_thread.call,
                         "%p is not a context; a real driver crashes here",
                         (void *)handle);
    return context;
}

CUresult sim_context_alive(CUcontext handle, struct sim_context **out)
{
    struct sim_context *context = handle ? find_known(handle) : sim_context_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&context->is_alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult sim_context_check_current(void)
{
    struct sim_context *context = sim_context_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return atomic_load(&context->is_alive) ? sim_context_error(context)
                                           : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_context_error(const struct sim_context *context)
{
    return (CUresult)atomic_load(&context->error);
}

bool sim_context_lose(struct sim_context *context, CUresult error)
{
    int none = CUDA_SUCCESS;

    return atomic_compare_exchange_strong(&context->error, &none, (int)error);
}

struct sim_context *sim_context_primary(CUdevice device)
{
    return primaries[device];
}

/* --- activation and destruction --- */

static CUresult activate(struct sim_context *context)
{
    struct sim_stream *legacy, *record_stream;

    context->id = sim_next_id();
    legacy = sim_stream_new(context, 0);
    record_stream = sim_stream_new(context, CU_STREAM_NON_BLOCKING);
    if (!legacy || !record_stream) {
        free(legacy);
        free(record_stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    record_stream->is_internal = true;
    context->legacy = legacy;
    context->record_stream = record_stream;
    context->peers = 0;
    atomic_store(&context->error, CUDA_SUCCESS);
    context->cache_config = context->shared_config = 0;
    memcpy(context->limits, default_limits, sizeof default_limits);
    atomic_store(&context->is_alive, true);
    return CUDA_SUCCESS;
}

/* Destroy the content of a context: first wait for all work, then free its memory, its
 * streams and its events. Their handles stay known as destroyed. The lock is released
 * meanwhile, and another thread may activate the context again. Only what existed before
 * is destroyed then. */
static void deactivate(struct sim_context *context)
{
    sim_work_wait_device(context->device); /* all of it, as the real driver does */
    if (!atomic_load(&context->is_alive))
        return; /* another thread did it first */
    atomic_store(&context->is_alive, false);
    sim_capture_forget_context(context);
    sim_stream_release(context->legacy);
    sim_stream_release(context->record_stream);
    context->legacy = context->record_stream = NULL;
    sim_memory_free_context(context, context->id);
}

static CUresult create(CUdevice device, unsigned flags, bool is_primary,
                       struct sim_context **out)
{
    struct sim_context *context = calloc(1, sizeof *context);
    CUresult result;

    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->flags = flags;
    context->is_primary = is_primary;
    result = is_primary ? CUDA_SUCCESS : activate(context);
    if (result != CUDA_SUCCESS) {
        free(context);
        return result;
    }
    context->next = sim_contexts;
    sim_contexts = context;
    *out = context;
    return CUDA_SUCCESS;
}

static bool are_flags(unsigned flags)
{
    unsigned schedule = flags & CU_CTX_SCHED_MASK;

    return (flags & ~(unsigned)CU_CTX_FLAGS_MASK) == 0 && schedule <= 4 && schedule != 3;
}

/* --- primary contexts --- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    if (!primaries[device])
        result = create(device, 0, true, &primaries[device]);
    if (result == CUDA_SUCCESS && !atomic_load(&primaries[device]->is_alive))
        result = activate(primaries[device]);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    primaries[device]->retains++;
    *out = handle_of(primaries[device]);
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_context *context = primaries[device];
    if (!context || context->retains == 0)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retains == 0)
        deactivate(context);
    return sim_leave(CUDA_SUCCESS);
}

/* Its retains stay, but it is destroyed until the next retain. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_context *context = primaries[device];
    if (context && atomic_load(&context->is_alive))
        deactivate(context);
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!primaries[device])
        result = create(device, 0, true, &primaries[device]);
    if (result == CUDA_SUCCESS)
        primaries[device]->flags = flags;
    return sim_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    ENTER(CALL_PLAIN);
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_context *context = primaries[device];
    *flags = context ? context->flags : 0;
    *active = context && atomic_load(&context->is_alive);
    return sim_leave(CUDA_SUCCESS);
}

/* --- contexts of cuCtxCreate --- */

static CUresult create_and_push(CUcontext *out, unsigned flags, CUdevice device)
{
    struct sim_context *context;

    if (!out || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (sim_thread.depth == SIM_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    CUresult result = create(device, flags, false, &context);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_thread.stack[sim_thread.depth++] = context;
    *out = handle_of(context);
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    ENTER(CALL_ALLOCATES);
    return create_and_push(out, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext *out, void *affinity, int count, unsigned int flags,
                        CUdevice device)
{
    ENTER(CALL_ALLOCATES);
    if (affinity || count)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create_and_push(out, flags, device);
}

/* The parameters of cuCtxCreate_v4 are execution affinity and graphics: neither is
 * supported. */
CUresult cuCtxCreate_v4(CUcontext *out, void *parameters, unsigned int flags,
                        CUdevice device)
{
    ENTER(CALL_ALLOCATES);
    if (parameters)
        return CUDA_ERROR_NOT_SUPPORTED;
    return create_and_push(out, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    ENTER(CALL_PLAIN);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context;
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS && context->is_primary)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    deactivate(context);
    if (sim_context_current() == context)
        sim_thread.depth--;
    return sim_leave(CUDA_SUCCESS);
}

/* --- the stack --- */

CUresult cuCtxGetCurrent(CUcontext *out)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of(sim_context_current());
    return CUDA_SUCCESS;
}

/* A destroyed context can become current if it was a context once. */
static struct sim_context *find_for_stack(CUcontext handle)
{
    sim_lock();
    struct sim_context *context = find_known(handle);
    sim_unlock();
    return context;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    ENTER(CALL_PLAIN);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = find_for_stack(handle);
    if (sim_thread.depth == SIM_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_thread.stack[sim_thread.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    ENTER(CALL_PLAIN);
    if (sim_thread.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = handle_of(sim_context_current());
    sim_thread.depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    struct sim_context *context;

    ENTER(CALL_PLAIN);
    context = handle ? find_for_stack(handle) : NULL;
    if (sim_thread.depth > 0)
        sim_thread.depth--;
    if (context)
        sim_thread.stack[sim_thread.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    struct sim_context *context = sim_context_current();

    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext handle)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context;
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        *out = context->device;
    return sim_leave(result);
}

CUresult cuCtxSynchronize(void)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    CUresult result = sim_capture_context(sim_context_current());
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_work_wait_context(sim_context_current());
    sim_pools_trim_to_threshold(sim_context_current()->device);
    return sim_leave(sim_context_error(sim_context_current()));
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_context *context;

    ENTER(CALL_PLAIN);
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        result = sim_capture_context(context);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_work_wait_context(context);
    sim_pools_trim_to_threshold(context->device);
    return sim_leave(sim_context_error(context));
}
