/* scope.c -- making a device's primary context current, and restoring the previous one.
 *
 * The CUDA runtime, Numba, CuPy and PyTorch share the primary context. Tarn retains it
 * once for each device and keeps it. Any library may reset it (cuda.close() of Numba
 * does). Then its handle stays the same, but every call returns 709 until the context is
 * retained again. Its id is another one after that, and the driver reuses the old
 * addresses (measured on an H200). The id is the context generation. So each entry
 * queries the id, and an allocation of another generation is never freed.
 */
#include "driver/registration.h"
#include "base/blocking_hook.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { DEVICES_MAX = 128 };

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(CUcontext_) contexts[DEVICES_MAX];
/* generation last seen at an entry; 0: never */
static _Atomic uint64_t context_generations[DEVICES_MAX];

tarn_status tarn__driver_failed(const char *component, const char *call, CUresult_ result,
                                const char *format, ...)
{
    const struct tarn__calls *calls;
    const char *name = NULL;
    char numbers[256];
    va_list arguments;

    if (tarn__driver(&calls) == TARN_OK)
        calls->get_error_name(result, &name);
    va_start(arguments, format);
    vsnprintf(numbers, sizeof numbers, format, arguments);
    va_end(arguments);

    tarn_status status = TARN_DRIVER_FAILURE;
    if (result == CUDA_ERROR_OUT_OF_MEMORY_)
        status = TARN_OUT_OF_MEMORY;
    else if (result == CUDA_ERROR_NOT_SUPPORTED_)
        status = TARN_NOT_SUPPORTED;
    return tarn_error_set_native(status, result, "%s: %s failed with %s (%d), %s",
                                 component, call, name ? name : "an unknown error",
                                 result, numbers);
}

tarn_status tarn__driver_check(void)
{
    if (!tarn__driver_gone())
        return TARN_OK;
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "driver: the driver can no longer be called: this process is "
                          "exiting or is a forked child");
}

tarn_status tarn__device_check(const char *component, int device)
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK)
        return status;
    if (device < 0 || device >= tarn__driver_device_count() || device >= DEVICES_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: device %d does not exist, the driver has %d",
                              component, device, tarn__driver_device_count());
    return TARN_OK;
}

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
    const struct tarn__calls *calls;
    tarn_status status = tarn__device_check("driver", device);

    if (status != TARN_OK)
        return status;
    CUcontext_ context = atomic_load(&contexts[device]);
    if (context) {
        *out = context;
        return TARN_OK;
    }
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

    for (int device = 0; device < count && device < DEVICES_MAX; device++)
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

/* Return the id of the context's current generation. */
static tarn_status read_context_generation(const struct tarn__calls *calls, int device,
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
    if (tarn__driver_gone() || device >= DEVICES_MAX)
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

tarn_status tarn__scope_enter(int device, struct tarn__scope *out)
{
    struct tarn__scope scope = {0};
    CUcontext_ context, current = NULL;
    tarn_status status = tarn__driver_check();

    if (status == TARN_OK)
        status = tarn__driver(&scope.calls);
    if (status == TARN_OK)
        status = tarn__context_primary(device, &context);
    if (status == TARN_OK)
        status = read_context_generation(scope.calls, device, context,
                                         &scope.context_generation);
    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->ctx_get_current(&current);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuCtxGetCurrent", result, "device %d",
                                   device);
    if (current != context) {
        result = scope.calls->ctx_push_current(context);
        if (result != CUDA_SUCCESS_)
            return tarn__driver_failed("driver", "cuCtxPushCurrent", result, "device %d",
                                       device);
        scope.pushed = true;
    }
    *out = scope;
    return TARN_OK;
}

tarn_status tarn__scope_enter_relaxed(int device, struct tarn__scope *out)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(device, &scope);

    if (status != TARN_OK)
        return status;
    status = tarn__relaxed_enter(scope.calls, &scope.mode);
    if (status != TARN_OK) {
        tarn__scope_leave(&scope);
        return status;
    }
    scope.relaxed = true;
    *out = scope;
    return TARN_OK;
}

void tarn__scope_leave(struct tarn__scope *scope)
{
    CUcontext_ popped;

    if (scope->relaxed)
        tarn__relaxed_leave(scope->calls, scope->mode);
    scope->relaxed = false;
    /* A failed pop is tried once more: the caller's context must be restored. */
    if (scope->pushed && scope->calls->ctx_pop_current(&popped) != CUDA_SUCCESS_)
        scope->calls->ctx_pop_current(&popped);
    scope->pushed = false;
}

void *tarn_stream_handle(tarn_stream stream)
{
    if (stream == TARN_STREAM_NONE)
        return NULL;
    if (!tarn__registration_is_value(stream))
        return (void *)stream;
    const struct tarn__registration *registration = tarn__registration_find(stream);
    if (registration)
        return (void *)registration->handle;
    tarn_error_set(TARN_INVALID_ARGUMENT,
                   "stream: %p is not a registered stream and has no handle",
                   (void *)stream);
    return NULL;
}

uint64_t tarn__stream_number(tarn_stream stream)
{
    const struct tarn__registration *registration = tarn__registration_find(stream);

    return registration ? (uintptr_t)registration->handle : (uintptr_t)stream;
}

/* Check without a driver call: all is known since the registration. */
static tarn_status check_registered(const char *component,
                                    const struct tarn__scope *scope, tarn_stream stream,
                                    int device)
{
    const struct tarn__registration *registration = tarn__registration_find(stream);

    if (!registration)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: stream %p is not a registered stream: it was "
                              "unregistered, or is not a stream",
                              component, (void *)stream);
    if (registration->device != device)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: stream %p was registered on device %d, this is device %d", component,
            (void *)stream, registration->device, device);
    if (registration->id != TARN__LEGACY_ID &&
        registration->context_generation != scope->context_generation)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: stream %p was destroyed by the reset of device %d",
                              component, (void *)stream, device);
    return TARN_OK;
}

static tarn_status check_raw(const char *component, const struct tarn__scope *scope,
                             tarn_stream stream, int device)
{
    CUcontext_ wanted, context = NULL;
    tarn_status status = tarn__context_primary(device, &wanted);

    if (status != TARN_OK)
        return status;
    CUresult_ result = scope->calls->stream_get_ctx((CUstream_)stream, &context);
    if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED_)
        /* more is unknown until its capture ends; memory may be freed on it */
        return TARN_OK;
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(component, "cuStreamGetCtx", result, "stream %p",
                                   (void *)stream);
    if (context != wanted)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: stream %p belongs to context %p, the primary context of "
            "device %d is %p",
            component, (void *)stream, (void *)context, device, (void *)wanted);
    return TARN_OK;
}

tarn_status tarn__stream_check(const char *component, const struct tarn__scope *scope,
                               tarn_stream stream, int device)
{
    if ((uintptr_t)stream <= (uintptr_t)TARN_STREAM_PER_THREAD ||
        stream == TARN_STREAM_NONE)
        return TARN_OK;
    if (tarn__registration_is_value(stream))
        return check_registered(component, scope, stream, device);
    return check_raw(component, scope, stream, device);
}
