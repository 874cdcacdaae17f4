/* context.c -- the primary context of each device, and its generations.
 *
 * The CUDA runtime, Numba, CuPy and PyTorch share the primary context. Tarn retains it
 * once for each device and keeps it. Any library may reset it (cuda.close() of Numba
 * does). Then its handle stays the same, but every call returns 709 until the context is
 * retained again. Its id is another one after that, and the driver reuses the old
 * addresses (measured on an H200). The id is the context generation. An allocation of
 * another generation is never freed.
 */
#include "driver/driver.h"
#include "base/blocking_hook.h"
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(CUcontext_) contexts[TARN__DEVICES_MAX];
/* generation last seen at an entry; 0: never */
static _Atomic uint64_t context_generations[TARN__DEVICES_MAX];

/* Retain the primary context of a device, for the first time or after a reset. */
static tarn_status retain_context(const struct tarn__calls *calls, int device,
                                  CUcontext_ *out)
{
    CUdevice_ handle;
    CUcontext_ context = NULL;
    CUresult_ result = calls->device_get(&handle, device);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuDeviceGet", result, "device %d", device);
    result = calls->primary_ctx_retain(&context, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuDevicePrimaryCtxRetain", result,
                                   "device %d", device);
    atomic_store(&contexts[device], context);
    *out = context;
    return TARN_OK;
}

tarn_status tarn__context_primary(int device, CUcontext_ *out)
{
    CUcontext_ context =
        device < 0 || device >= TARN__DEVICES_MAX ? NULL : atomic_load(&contexts[device]);
    const struct tarn__calls *calls;

    if (context) {
        *out = context;
        return TARN_OK;
    }
    tarn_status status = tarn__device_check("driver", device);
    if (status != TARN_OK)
        return status;
    tarn__blocking_hook_call();
    status = tarn__driver(&calls);
    if (status == TARN_OK)
        status = tarn__driver_check();
    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&contexts_lock);
    context = atomic_load(&contexts[device]);
    if (context)
        *out = context;
    else
        status = retain_context(calls, device, out);
    pthread_mutex_unlock(&contexts_lock);
    return status;
}

bool tarn__context_device(CUcontext_ context, int *out)
{
    int count = tarn__driver_device_count();

    for (int device = 0; device < count && device < TARN__DEVICES_MAX; device++)
        if (atomic_load_explicit(&contexts[device], memory_order_relaxed) == context) {
            *out = device;
            return true;
        }
    return false;
}

/* Retain a context that was reset. */
static tarn_status retain_after_reset(const struct tarn__calls *calls, int device,
                                      CUcontext_ context)
{
    unsigned long long id;
    tarn_status status = TARN_OK;

    tarn__blocking_hook_call();
    pthread_mutex_lock(&contexts_lock);
    /* Another thread may have been faster. */
    if (calls->ctx_get_id(context, &id) == CUDA_ERROR_CONTEXT_IS_DESTROYED_)
        status = retain_context(calls, device, &context);
    pthread_mutex_unlock(&contexts_lock);
    return status;
}

tarn_status tarn__context_read_generation(const struct tarn__calls *calls, int device,
                                          CUcontext_ context, uint64_t *out)
{
    unsigned long long id = 0;
    CUresult_ result = calls->ctx_get_id(context, &id);

    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED_) {
        tarn_status status = retain_after_reset(calls, device, context);
        if (status != TARN_OK)
            return status;
        result = calls->ctx_get_id(context, &id);
    }
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuCtxGetId", result, "device %d", device);
    if (atomic_load_explicit(&context_generations[device], memory_order_relaxed) != id)
        atomic_store_explicit(&context_generations[device], id, memory_order_relaxed);
    *out = id;
    return TARN_OK;
}

uint64_t tarn__context_generation(int device)
{
    CUcontext_ context = device < 0 ? NULL : atomic_load(&contexts[device]);
    const struct tarn__calls *calls;
    unsigned long long id = 0;

    if (!context || tarn__driver(&calls) != TARN_OK)
        return 0;
    if (tarn__driver_gone())
        return atomic_load(&context_generations[device]);
    CUresult_ result = calls->ctx_get_id(context, &id);
    if (result == CUDA_SUCCESS_)
        return id;
    /* Where the driver does not answer, the generation seen last counts. */
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED_
               ? 0
               : atomic_load(&context_generations[device]);
}

uint64_t tarn_context_generation(int device)
{
    if (tarn__driver_gone() || device >= TARN__DEVICES_MAX)
        return 0;
    return tarn__context_generation(device);
}

bool tarn__context_generation_is_current(int device, uint64_t context_generation)
{
    CUcontext_ context = device < 0 ? NULL : atomic_load(&contexts[device]);
    const struct tarn__calls *calls;
    unsigned long long id = 0;

    if (!context || context_generation == 0 || tarn__driver_gone() ||
        tarn__driver(&calls) != TARN_OK)
        return true;
    CUresult_ result = calls->ctx_get_id(context, &id);
    /* Only a definite answer means that it has ended. */
    return result != CUDA_ERROR_CONTEXT_IS_DESTROYED_ &&
           (result != CUDA_SUCCESS_ || id == context_generation);
}
