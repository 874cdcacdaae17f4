/* context.c -- finds contexts, activates them, and destroys their content. */
#include "sim/core/context.h"
#include "base/mutex_assert.h"
#include "sim/core/hooks.h"
#include "sim/core/lock.h"
#include "sim/core/misuse.h"
#include "sim/core/thread.h"
#include <stdlib.h>
#include <string.h>

struct sim_context *sim_contexts;

static const size_t default_limits[SIM_LIMITS] = {1024, 7602176, 8388608, 2, 2048, 64};

struct sim_context *sim_context_current(void)
{
    return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}

static CUcontext handle_of(struct sim_context *context)
{
    return (CUcontext)(void *)context;
}

static struct sim_context *find(CUcontext handle)
{
    struct sim_context *context = sim_contexts;

    while (context && handle_of(context) != handle)
        context = context->next;
    return context;
}

struct sim_context *sim_context_find(CUcontext handle)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    struct sim_context *context = find(handle);

    if (!context)
        sim_misuse_abort_locked(sim_thread.call,
                                "%p is not a context; a real driver crashes here",
                                (void *)handle);
    return context;
}

CUresult sim_context_alive(CUcontext handle, struct sim_context **out)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    struct sim_context *context =
        handle ? sim_context_find(handle) : sim_context_current();

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

/* --- activation and destruction --- */

CUresult sim_context_activate(struct sim_context *context)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    CUresult result;

    context->id = sim_lock_next_id();
    result = sim_hooks.stream_begin_context(context);
    if (result != CUDA_SUCCESS)
        return result;
    context->peers = 0;
    atomic_store(&context->error, CUDA_SUCCESS);
    context->cache_config = context->shared_config = 0;
    memcpy(context->limits, default_limits, sizeof default_limits);
    atomic_store(&context->is_alive, true);
    return CUDA_SUCCESS;
}

void sim_context_deactivate(struct sim_context *context)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    sim_hooks.work_wait_device(context->device); /* all of it, as the real driver does */
    if (!atomic_load(&context->is_alive))
        return; /* another thread did it first */
    atomic_store(&context->is_alive, false);
    sim_hooks.capture_forget_context(context);
    sim_hooks.stream_end_context(context);
    sim_hooks.memory_free_context(context, context->id);
}

CUresult sim_context_create(CUdevice device, unsigned flags, bool is_primary,
                            struct sim_context **out)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    struct sim_context *context = calloc(1, sizeof *context);
    CUresult result;

    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->flags = flags;
    context->is_primary = is_primary;
    result = is_primary ? CUDA_SUCCESS : sim_context_activate(context);
    if (result != CUDA_SUCCESS) {
        free(context);
        return result;
    }
    context->next = sim_contexts;
    sim_contexts = context;
    *out = context;
    return CUDA_SUCCESS;
}
