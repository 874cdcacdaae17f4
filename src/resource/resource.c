/* resource.c -- a resource as an object: its creation, its owners and its properties.
 *
 * Two cuda resources of one device are equal: memory of one may be freed on the other.
 * They are equal because they are the same object, and so they share the table of live
 * blocks. The place where a lookup finds the object holds no reference. The last owner's
 * release is therefore a real last release, which fails while blocks are live. A lookup
 * and a last release must not run at the same time, so both take the lock.
 */
#include "resource/internal.h"
#include "resource/intercept.h"
#include "base/blocking_hook.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/name.h"
#include "base/warn.h"
#include "driver/driver.h"
#include <stdlib.h>
#include <string.h>

TARN__STATIC_MUTEX(places_lock);

/* In the oldest builds the table ends after `destroy`: all operations before that are
 * required. */
#define REQUIRED_BYTES offsetof(tarn_resource_ops, memory_info)

static tarn_status check_ops(const tarn_resource_ops *ops)
{
    if (!ops || ops->size < REQUIRED_BYTES)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "resource: the table has %zu bytes, at least %zu are required",
            ops ? ops->size : 0, REQUIRED_BYTES);
    if (!ops->name || !ops->allocate || !ops->deallocate || !ops->destroy)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: the table lacks name, allocate, deallocate or "
                              "destroy");
    if (!tarn__name_fits(ops->name))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: the name %.40s... has more than %d bytes",
                              ops->name, TARN__NAME_MOST);
    return TARN_OK;
}

/* Copy the operations that both versions know, whole pointers only. The size stays that
 * of the creator's build: it is one of the fields that tell tables apart. */
static void copy_table(tarn_resource_ops *to, const tarn_resource_ops *from)
{
    size_t known = from->size < sizeof *to ? from->size : sizeof *to;

    memcpy(to, from, known - known % sizeof(void *));
}

tarn_status tarn_resource_create(const tarn_resource_ops *ops, void *self, int device,
                                 tarn_resource **out)
{
    return tarn_resource_create_with_upstream(ops, self, device, NULL, out);
}

tarn_status tarn_resource_create_with_upstream(const tarn_resource_ops *ops, void *self,
                                               int device, tarn_resource *upstream,
                                               tarn_resource **out)
{
    unsigned depth;
    tarn_status status = check_ops(ops);

    if (status != TARN_OK)
        return status;
    if (device < TARN_DEVICE_NONE || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: create: %s on device %d, or out is NULL",
                              ops->name, device);
    status = tarn__stack_over(ops->name, upstream, &depth);
    if (status != TARN_OK)
        return status;
    tarn_resource *resource = calloc(1, sizeof *resource);
    if (!resource)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "resource: no host memory for %s",
                              ops->name);
    copy_table(&resource->ops, ops);
    resource->self = self;
    resource->device = device;
    atomic_init(&resource->references, 1);
    atomic_init(&resource->counted_blocks, 0);
    atomic_init(&resource->depth, depth);
    resource->none_is_default = upstream && upstream->none_is_default;
    *out = resource;
    return TARN_OK;
}

tarn_resource *tarn_resource_retain(tarn_resource *resource)
{
    if (resource)
        atomic_fetch_add(&resource->references, 1);
    return resource;
}

/* --- the end --- */

size_t tarn_resource_live_blocks(const tarn_resource *resource)
{
    if (!resource)
        return 0;
    if (resource->ops.live_blocks)
        return resource->ops.live_blocks(resource->self);
    return atomic_load(&resource->counted_blocks);
}

/* Drop the last reference, after which no lookup finds the resource. Returns false with
 * `*blocks_out` set if blocks are live. Returns false with 0 if another thread took a
 * reference. */
static bool end(tarn_resource *resource, size_t *blocks_out)
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

/* Drop one reference, unless it is the only one. */
static bool drop_one_of_many(tarn_resource *resource)
{
    size_t references = atomic_load(&resource->references);

    while (references > 1)
        if (atomic_compare_exchange_weak(&resource->references, &references,
                                         references - 1))
            return true;
    return false;
}

/* This reports no failure, so the last error stays unchanged. */
static void destroy(tarn_resource *resource)
{
    struct tarn__kept_error before = tarn__error_keep();

    resource->ops.destroy(resource->self);
    tarn__error_restore(&before);
    free(resource);
}

tarn_status tarn_resource_release(tarn_resource *resource)
{
    size_t blocks_out;

    if (!resource)
        return TARN_OK;
    while (!drop_one_of_many(resource)) {
        tarn__blocking_hook_call();
        tarn__intercept_flush(resource);
        if (end(resource, &blocks_out)) {
            destroy(resource);
            return TARN_OK;
        }
        if (blocks_out > 0)
            return tarn_error_set(
                TARN_STILL_IN_USE,
                "%s: the last reference was released while %zu blocks are live",
                resource->ops.name, blocks_out);
    }
    return TARN_OK;
}

/* At exit memory is not released, and live blocks cause no warning. */
void tarn__resource_release_or_warn(tarn_resource *resource)
{
    if (tarn_resource_release(resource) != TARN_OK && !tarn__driver_gone())
        tarn__warn("%s", tarn_error_last()->message);
}

/* --- one object for all callers --- */

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
        /* Another thread was faster. Live blocks are not checked: objects that share one
         * table would find each other's there. */
        if (found != made)
            destroy(made);
    }
    *out = found;
    return TARN_OK;
}

/* --- properties --- */

/* Return true if both come from one table. The tables are copies, but their names and
 * functions are not: two libraries cannot have the same ones. */
static bool same_table(const tarn_resource_ops *a, const tarn_resource_ops *b)
{
    return a->name == b->name && a->allocate == b->allocate && a->size == b->size;
}

bool tarn_resource_is_equal(const tarn_resource *resource, const tarn_resource *other)
{
    if (resource == other)
        return true;
    return resource && other && resource->ops.is_equal &&
           same_table(&resource->ops, &other->ops) &&
           resource->ops.is_equal(resource->self, other->self);
}

bool tarn_resource_supports_streams(const tarn_resource *resource)
{
    return resource && resource->ops.supports_streams &&
           resource->ops.supports_streams(resource->self);
}

bool tarn_resource_supports_memory_info(const tarn_resource *resource)
{
    return resource && resource->ops.memory_info;
}

bool tarn_resource_deallocate_synchronizes(const tarn_resource *resource)
{
    return resource && resource->ops.deallocate_synchronizes &&
           resource->ops.deallocate_synchronizes(resource->self);
}

bool tarn_resource_supports_no_stream(const tarn_resource *resource)
{
    if (resource && resource->ops.supports_no_stream)
        return resource->ops.supports_no_stream(resource->self);
    return tarn_resource_deallocate_synchronizes(resource);
}

int tarn_resource_device(const tarn_resource *resource)
{
    return resource ? resource->device : TARN_DEVICE_NONE;
}

const char *tarn_resource_name(const tarn_resource *resource)
{
    return resource ? resource->ops.name : "";
}

void *tarn_resource_self(const tarn_resource *resource, const tarn_resource_ops *ops)
{
    return resource && ops && same_table(&resource->ops, ops) ? resource->self : NULL;
}
