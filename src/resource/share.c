/* share.c -- resources with one object for each device, and the end of any resource.
 *
 * Two cuda resources of one device are equal: memory of one may be freed on the other.
 * They are equal because they are the same object, and so they share the table of live
 * blocks. The place where a lookup finds the object holds no reference. The last owner's
 * release is therefore a real last release, which fails while blocks are live. A lookup
 * and a last release must not run at the same time, so both take the lock.
 */
#include "resource/internal.h"
#include "base/mutex.h"
#include <stdlib.h>

TARN__STATIC_MUTEX(places_lock);

/* Return a reference to the resource at `place`. If there is none, `made` (if not NULL)
 * is put there. */
static tarn_resource *look_up(tarn_resource **place, tarn_resource *made)
{
    tarn_resource *found;

    tarn__mutex_lock(&places_lock);
    found = tarn_resource_retain(*place);
    if (!found && made) {
        *place = found = made;
        made->place = place;
    }
    tarn__mutex_unlock(&places_lock);
    return found;
}

/* Destroy a resource that no other thread has seen. It does not check for live blocks:
 * objects that share one table would find each other's blocks there. */
static void forget(tarn_resource *resource)
{
    resource->ops.destroy(resource->self);
    free(resource);
}

tarn_status tarn__resource_share(tarn_resource **place, int device,
                                 tarn_status (*make)(int device, tarn_resource **out),
                                 tarn_resource **out)
{
    tarn_resource *made, *found;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "resource: create: out is NULL");
    found = look_up(place, NULL);
    if (!found) {
        /* Made without the lock, because the creation calls the driver. */
        tarn_status status = make(device, &made);
        if (status != TARN_OK)
            return status;
        found = look_up(place, made);
        if (found != made)
            forget(made); /* another thread was faster */
    }
    *out = found;
    return TARN_OK;
}

bool tarn__resource_end(tarn_resource *resource, size_t *blocks_out)
{
    /* never changes once other threads know it */
    tarn_resource **place = resource->place;
    size_t one = 1;
    bool ended = false;

    *blocks_out = 0;
    if (place)
        tarn__mutex_lock(&places_lock);
    /* Check the owners first, the blocks second. Otherwise a block that another owner
     * frees just before its last release would count as live. */
    if (atomic_load(&resource->references) == 1)
        *blocks_out = tarn_resource_live_blocks(resource);
    if (*blocks_out == 0)
        ended = atomic_compare_exchange_strong(&resource->references, &one, TARN__ENDED);
    if (ended && place)
        *place = NULL;
    if (place)
        tarn__mutex_unlock(&places_lock);
    return ended;
}
