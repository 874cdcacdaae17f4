/* context_api.c -- the calls that create, destroy and stack contexts. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/context.h"
#include "sim/core/device.h"
#include "sim/core/thread.h"

static struct sim_context *primaries[SIM_DEVICES_MAX];

static CUcontext handle_of(struct sim_context *context)
{
    return (CUcontext)(void *)context;
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
        result = sim_context_create(device, 0, true, &primaries[device]);
    if (result == CUDA_SUCCESS && !atomic_load(&primaries[device]->is_alive))
        result = sim_context_activate(primaries[device]);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    primaries[device]->retains++;
    *out = handle_of(primaries[device]);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_context *context = primaries[device];
    if (!context || context->retains == 0)
        return sim_lock_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retains == 0)
        sim_context_deactivate(context);
    return sim_lock_leave(CUDA_SUCCESS);
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
        sim_context_deactivate(context);
    return sim_lock_leave(CUDA_SUCCESS);
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
        result = sim_context_create(device, 0, true, &primaries[device]);
    if (result == CUDA_SUCCESS)
        primaries[device]->flags = flags;
    return sim_lock_leave(result);
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
    return sim_lock_leave(CUDA_SUCCESS);
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
    CUresult result = sim_context_create(device, flags, false, &context);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    sim_thread.stack[sim_thread.depth++] = context;
    *out = handle_of(context);
    return sim_lock_leave(CUDA_SUCCESS);
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
        return sim_lock_leave(result);
    sim_context_deactivate(context);
    if (sim_context_current() == context)
        sim_thread.depth--;
    return sim_lock_leave(CUDA_SUCCESS);
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
    struct sim_context *context = sim_context_find(handle);
    sim_lock_release();
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
    return sim_lock_leave(result);
}
