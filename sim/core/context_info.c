/* context_info.c -- queries and settings of a context: ids, flags, limits, preferences.
 */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/queue.h"

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    ENTER(CALL_PLAIN);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context;
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        *id = context->id;
    return sim_lock_leave(result);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    ENTER(CALL_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *flags = sim_context_current()->flags;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    ENTER(CALL_CONTEXT);
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    sim_context_current()->flags = flags;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    ENTER(CALL_PLAIN);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context;
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        *version = 3020;
    return sim_lock_leave(result);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    ENTER(CALL_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= SIM_LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *value = sim_context_current()->limits[limit];
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER(CALL_CONTEXT);
    if (limit < 0 || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sim_lock();
    sim_context_current()->limits[limit] = value;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    ENTER(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *config = sim_context_current()->cache_config;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    ENTER(CALL_CONTEXT);
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    sim_context_current()->cache_config = config;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    ENTER(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *config = sim_context_current()->shared_config;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    ENTER(CALL_CONTEXT);
    if (config < 0 || config > 2)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    sim_context_current()->shared_config = config;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(CALL_CONTEXT);
    if (least)
        *least = SIM_PRIORITY_LEAST;
    if (greatest)
        *greatest = SIM_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    ENTER(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(void *affinity, int type)
{
    ENTER(CALL_CONTEXT);
    (void)affinity, (void)type;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* --- profiler marks --- */

CUresult cuProfilerStart(void)
{
    ENTER(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    ENTER(CALL_CONTEXT);
    return CUDA_SUCCESS;
}
