/* tap.c -- watching the public calls of a process from outside (E11).
 *
 * The switch is one pointer: off, an allocation loads it and that is all. What it points
 * to is never freed, because a call that is under way may still read it after the tap was
 * taken away; setting the same tap again uses the same entry, so they stay few.
 */
#include "resource/internal.h"
#include "base/clock.h"
#include <pthread.h>
#include <stdlib.h>

struct tarn__tap {
    tarn_tap function;
    void *data;
    struct tarn__tap *next; /* all that were ever set */
};

_Atomic(struct tarn__tap *) tarn__tap_set;
static struct tarn__tap *all;
static pthread_mutex_t set_lock =
    PTHREAD_MUTEX_INITIALIZER; /* all, changes of the one set */

/* This thread is inside a call that a tap sees: nested calls are not told. */
static _Thread_local bool inside;

/* The entry for a tap, found or made; NULL: no host memory. Under the lock. */
static struct tarn__tap *entry_of(tarn_tap function, void *data)
{
    struct tarn__tap *tap = all;

    while (tap && (tap->function != function || tap->data != data))
        tap = tap->next;
    if (tap)
        return tap;
    tap = malloc(sizeof *tap);
    if (!tap)
        return NULL;
    *tap = (struct tarn__tap){.function = function, .data = data, .next = all};
    return all = tap;
}

static tarn_status set_locked(tarn_tap function, void *data)
{
    if (!function) {
        atomic_store(&tarn__tap_set, NULL);
        return TARN_OK;
    }
    if (atomic_load(&tarn__tap_set))
        return tarn_error_set(TARN_STILL_IN_USE, "tap: one is set already");
    struct tarn__tap *tap = entry_of(function, data);
    if (!tap)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "tap: no host memory for it");
    atomic_store(&tarn__tap_set, tap);
    return TARN_OK;
}

tarn_status tarn_resource_set_tap(tarn_tap tap, void *data)
{
    pthread_mutex_lock(&set_lock);
    tarn_status status = set_locked(tap, data);
    pthread_mutex_unlock(&set_lock);
    return status;
}

bool tarn__tap_is_outermost(void)
{
    return !inside;
}

tarn_status tarn__tap_allocate(const struct tarn__tap *tap, tarn_resource *resource,
                               size_t bytes, size_t alignment, tarn_stream stream,
                               tarn_device_ptr *out)
{
    tarn_tap_event event = {
        .resource = resource, .bytes = bytes, .alignment = alignment, .stream = stream};

    inside = true;
    event.start_ns = tarn__now_ns();
    tarn_status status =
        tarn__resource_allocate(resource, bytes, alignment, stream, &event.block);
    event.end_ns = tarn__now_ns();
    event.action =
        status == TARN_OK ? TARN_ACTION_ALLOCATE : TARN_ACTION_ALLOCATE_FAILURE;
    tarn_error why = *tarn_error_last();
    tap->function(tap->data, &event);
    inside = false;
    if (status != TARN_OK) /* the tap may have had failures of its own */
        return tarn_error_set_native(status, why.native, "%s", why.message);
    *out = event.block;
    return TARN_OK;
}

tarn_status tarn__tap_deallocate(const struct tarn__tap *tap, tarn_resource *resource,
                                 tarn_device_ptr block, size_t bytes, size_t alignment,
                                 tarn_stream stream)
{
    tarn_tap_event event = {.action = TARN_ACTION_FREE,
                            .resource = resource,
                            .block = block,
                            .bytes = bytes,
                            .alignment = alignment,
                            .stream = stream};

    /* Told before: once the block is back, another thread may get its address, and that
     * allocation must not come first. */
    inside = true;
    event.start_ns = event.end_ns = tarn__now_ns();
    tap->function(tap->data, &event);
    tarn_status status =
        tarn__resource_deallocate(resource, block, bytes, alignment, stream);
    inside = false;
    return status;
}
