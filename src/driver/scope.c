/* scope.c -- making a device's primary context current, and restoring the previous one.
 *
 * Each entry queries the id of the context: any library may have reset it (context.c).
 */
#include "driver/driver.h"

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
        status = tarn__context_read_generation(scope.calls, device, context,
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
