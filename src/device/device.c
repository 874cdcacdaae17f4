/* device.c -- the current device resource of each GPU: the one registry of a process.
 *
 * The registry owns a reference to each resource that was set. It returns references,
 * never borrowed handles: another thread may set another resource at any moment. Where no
 * resource was set, the cuda resource is current; it is created at the first request.
 *
 * No resource is created, called or released under the lock, as that may call the driver
 * or a user's code.
 */
#include <tarn/device.h>
#include "driver/driver.h"
#include "base/mutex.h"
#include "base/blocking_hook.h"
#include <stdatomic.h>

TARN__STATIC_MUTEX(registry_lock);
/* One reference for each device; NULL: not requested yet. Changed under the lock. */
static _Atomic(tarn_resource *) registry[TARN__DEVICES_MAX];

/* Return the resource of `device` retained, or NULL. */
static tarn_resource *look_up(int device)
{
    tarn__mutex_lock(&registry_lock);
    tarn_resource *found = tarn_resource_retain(registry[device]);
    tarn__mutex_unlock(&registry_lock);
    return found;
}

/* Replace `expected` by `resource`; the references change hands. Returns false, and
 * nothing changes, if another one is there. */
static bool exchange(int device, tarn_resource *expected, tarn_resource *resource)
{
    tarn__mutex_lock(&registry_lock);
    bool changed = registry[device] == expected;
    if (changed)
        registry[device] = resource;
    tarn__mutex_unlock(&registry_lock);
    return changed;
}

/* Read without the lock: the answer may be outdated when it arrives, as any would be. */
bool tarn_device_resource_is(int device, const tarn_resource *resource)
{
    return device >= 0 && device < TARN__DEVICES_MAX && resource &&
           atomic_load_explicit(&registry[device], memory_order_acquire) == resource;
}

tarn_status tarn_device_resource(int device, tarn_resource **out)
{
    tarn_resource *resource;
    tarn_status status = tarn__device_check("device", device);

    if (status != TARN_OK)
        return status;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "device: get resource: out is NULL");
    while (!(resource = look_up(device))) {
        tarn__blocking_hook_call();
        status = tarn_cuda_create(device, &resource);
        if (status != TARN_OK)
            return status;
        if (!exchange(device, NULL, resource))
            tarn_resource_release(resource); /* another thread was faster: try again */
    }
    *out = resource;
    return TARN_OK;
}

/* Return a reference of the registry's own to the resource that becomes current for
 * `device`. */
static tarn_status successor(int device, tarn_resource *resource, tarn_resource **out)
{
    if (!resource)
        return tarn_cuda_create(device, out);
    if (tarn_resource_device(resource) != device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "device: %s is a resource of device %d, not of device %d",
                              tarn_resource_name(resource),
                              tarn_resource_device(resource), device);
    *out = tarn_resource_retain(resource);
    return TARN_OK;
}

/* Make `next` current, giving its reference away, and take the previous one. */
static tarn_resource *take_over(int device, tarn_resource *next)
{
    tarn__mutex_lock(&registry_lock);
    tarn_resource *previous = registry[device];
    registry[device] = next;
    tarn__mutex_unlock(&registry_lock);
    return previous;
}

/* Release the previous one. If the registry was its last owner and blocks of it are live,
 * that would leak it: it becomes current again. */
static tarn_status release_previous(int device, tarn_resource *previous,
                                    tarn_resource *next)
{
    tarn_status status = tarn_resource_release(previous);

    if (status == TARN_OK)
        return TARN_OK;
    tarn_error why = *tarn_error_last();
    if (exchange(device, next, previous))
        tarn_resource_release(next);
    return tarn_error_set(
        status, "device: the current resource was not replaced, releasing it failed: %s",
        why.message);
}

tarn_status tarn_device_set_resource(int device, tarn_resource *resource,
                                     tarn_resource **previous_out)
{
    tarn_resource *next, *previous = NULL;
    tarn_status status = tarn__device_check("device", device);

    if (status == TARN_OK)
        status = successor(device, resource, &next);
    if (status != TARN_OK)
        return status;
    if (previous_out) {
        /* Create the default if it was not requested yet, so that there is a previous
         * one. */
        status = tarn_device_resource(device, &previous);
        if (status != TARN_OK) {
            tarn_resource_release(next);
            return status;
        }
        tarn_resource_release(previous); /* the registry has its own */
    }
    previous = take_over(device, next);
    if (!previous_out)
        return release_previous(device, previous, next);
    *previous_out = previous;
    return TARN_OK;
}

tarn_status tarn_current_device_resource(tarn_resource **out)
{
    int device;
    tarn_status status = tarn_driver_current_device(&device);

    return status == TARN_OK ? tarn_device_resource(device, out) : status;
}

tarn_status tarn_set_current_device_resource(tarn_resource *resource,
                                             tarn_resource **previous_out)
{
    int device;
    tarn_status status = tarn_driver_current_device(&device);

    return status == TARN_OK ? tarn_device_set_resource(device, resource, previous_out)
                             : status;
}
