/* share.c -- resources that are one a device, and the end of any resource.
 *
 * Two cuda resources of one device are equal: memory of one may be given back to the
 * other. They are equal because they are the same object, and so they share the table of
 * what is out. The place where the object is found again holds no reference: the last
 * owner's release is a real last release, refused while blocks are out. So a lookup and
 * a last release must not meet, and both take the lock.
 */
#include "resource/internal.h"
#include "base/fork.h"
#include <stdlib.h>

TARN__STATIC_MUTEX(places_lock);

/* A reference to what is at `place`; with `made`, that is put there if nothing is. */
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

/* The end of a resource that nobody has seen. What is out is not asked: objects that are
 * made over one table would find each other's blocks there. */
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
        return tarn_error_set(TARN_INVALID_ARGUMENT, "resource: create into NULL");
    found = look_up(place, NULL);
    if (!found) {
        /* Made without the lock, because making asks the driver. */
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
    tarn_resource **place = resource->place; /* never changes once others know it */
    size_t one = 1;
    bool ended = false;

    *blocks_out = 0;
    if (place)
        tarn__mutex_lock(&places_lock);
    /* Owners first, blocks second: a block that another owner gives back just before it
     * goes would be taken for one that is out. */
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
