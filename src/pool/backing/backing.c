/* backing.c -- entering the context of a pool's memory. */
#include "pool/backing/backing.h"

static tarn_status was_reset(const struct tarn__pages *pages)
{
    return tarn_error_set(
        TARN_DRIVER_FAILURE,
        "pool: the context of device %d was reset, the pool cannot be used",
        pages->device);
}

/* The context generation is checked before, so that no context is created, and once more
 * in the scope. */
tarn_status tarn__backing_enter(const struct tarn__pages *pages, struct tarn__scope *out)
{
    if (tarn__driver_gone())
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "pool: the driver of device %d can no longer be called: "
                              "this process is exiting or is a forked child",
                              pages->device);
    if (!tarn__context_generation_is_current(pages->device, pages->context_generation))
        return was_reset(pages);
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter_relaxed(pages->device, &scope);
    if (status != TARN_OK)
        return status;
    if (pages->context_generation != 0 &&
        scope.context_generation != pages->context_generation) {
        tarn__scope_leave(&scope);
        return was_reset(pages);
    }
    *out = scope;
    return TARN_OK;
}
