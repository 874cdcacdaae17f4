/* torch_resource.c -- which resource serves PyTorch on each device.
 *
 * PyTorch cannot change its allocator, so the resource of a device is set once: by the
 * program, or at the first allocation there. No resource is created, called or released
 * under a lock.
 */
#include "torch/torch_resource.h"
#include <tarn/adaptor.h>
#include <tarn/device.h>
#include <tarn/pool.h>
#include "base/error.h"
#include "driver/driver.h"
#include "torch/tensor_counts.h"
#include <pthread.h>

/* A reference for each device; NULL: not set. */
static _Atomic(tarn_resource *) resources[TARN__DEVICES_MAX];
static _Atomic(tarn_torch_first_use) first_use;

tarn_resource *tarn__torch_resource_get(int device)
{
    if (device < 0 || device >= TARN__DEVICES_MAX)
        return NULL;
    return atomic_load_explicit(&resources[device], memory_order_acquire);
}

static bool is_pool(tarn_resource *resource)
{
    struct tarn__kept_error kept = tarn__error_keep();
    uint64_t generation;
    bool result = tarn_pool_generation(resource, &generation) == TARN_OK;

    tarn__error_restore(&kept);
    return result;
}

tarn_resource *tarn__torch_resource_pool(tarn_resource *resource)
{
    struct tarn__kept_error kept = tarn__error_keep();
    tarn_resource *found = tarn_resource_retain(resource), *beneath;

    while (found && !is_pool(found)) {
        if (tarn_adaptor_upstream(found, &beneath) != TARN_OK)
            beneath = NULL;
        tarn_resource_release(found); /* not the last reference: the one above has one */
        found = beneath;
    }
    tarn__error_restore(&kept);
    return found;
}

/* --- setting one --- */

/* Set the resource, whose reference changes hands. Another thread may be faster. */
static tarn_status set(int device, tarn_resource *resource)
{
    tarn_resource *present = NULL;

    if (atomic_compare_exchange_strong(&resources[device], &present, resource))
        return TARN_OK;
    bool is_same = tarn_resource_is_equal(present, resource);
    tarn_resource_release(resource);
    if (is_same)
        return TARN_OK;
    return tarn_error_set(TARN_ALREADY_SET,
                          "torch: PyTorch uses a %s on device %d, which cannot change",
                          tarn_resource_name(present), device);
}

static tarn_status unset(int device)
{
    tarn_torch_statistics all;

    tarn__tensor_counts_get(device, &all);
    uint64_t live = all.active[TARN_TORCH_ALL].current;
    if (live > 0)
        return tarn_error_set(TARN_STILL_IN_USE,
                              "torch: PyTorch has %llu live blocks on device %d",
                              (unsigned long long)live, device);
    tarn_resource_release(atomic_exchange(&resources[device], NULL));
    return TARN_OK;
}

tarn_status tarn_torch_set_resource(int device, tarn_resource *resource)
{
    tarn_status status = tarn__device_check("torch", device);

    if (status != TARN_OK)
        return status;
    if (!resource)
        return unset(device);
    if (tarn_resource_device(resource) != device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "torch: %s is a resource of device %d, not of device %d",
                              tarn_resource_name(resource),
                              tarn_resource_device(resource), device);
    return set(device, tarn_resource_retain(resource));
}

void tarn_torch_set_first_use(tarn_torch_first_use call)
{
    atomic_store(&first_use, call);
}

tarn_status tarn_torch_resource(int device, tarn_resource **out)
{
    tarn_status status = tarn__device_check("torch", device);

    if (status != TARN_OK)
        return status;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "torch: resource: out is NULL");
    tarn_resource *found = tarn__torch_resource_get(device);
    if (!found)
        return tarn_error_set(TARN_NOT_FOUND, "torch: device %d has no resource yet",
                              device);
    *out = tarn_resource_retain(found);
    return TARN_OK;
}

/* --- the first use of a device --- */

/* Return true if `resource` is the one that a device has where nobody has set any. */
static bool is_default(int device, const tarn_resource *resource)
{
    tarn_resource *cuda = NULL;
    bool result = tarn_cuda_create(device, &cuda) == TARN_OK && cuda == resource;

    tarn_resource_release(cuda);
    return result;
}

/* Let the other devices use the memory of a resource. PyTorch launches kernels that read
 * another device's memory, where the devices reach each other. A device that cannot is no
 * failure. */
static void open_to_peers(int device, tarn_resource *resource)
{
    struct tarn__kept_error kept = tarn__error_keep();
    tarn_resource *pool = tarn__torch_resource_pool(resource);

    for (int peer = 0; pool && peer < tarn__driver_device_count(); peer++)
        if (peer != device)
            tarn_pool_set_peer_access(pool, peer, true);
    tarn_resource_release(pool); /* not the last reference */
    tarn__error_restore(&kept);
}

/* Make a pool the current resource of a device. */
static tarn_status make_pool(int device, tarn_resource **out)
{
    tarn_resource *pool;
    tarn_status status = tarn_pool_create(device, NULL, NULL, &pool);

    if (status != TARN_OK)
        return status;
    status = tarn_device_set_resource(device, pool, NULL);
    if (status == TARN_OK)
        *out = pool;
    else
        tarn_resource_release(pool);
    return status;
}

/* Return the resource that a device is to have, retained. `is_chosen`: its current one, also
 * if that is the default. */
static tarn_status choose(int device, bool is_chosen, tarn_resource **out)
{
    tarn_status status = tarn_device_resource(device, out);

    if (status != TARN_OK || is_chosen || !is_default(device, *out))
        return status;
    tarn_resource_release(*out);
    return make_pool(device, out);
}

/* One thread at a time: otherwise two pools would be made, and the one that serves PyTorch
 * might not be the current one. The callback is not called under this lock, since it may
 * wait for a thread that allocates. */
static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER;

static tarn_status set_chosen(int device, bool is_chosen)
{
    tarn_resource *found = NULL;
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&choosing);
    if (!tarn__torch_resource_get(device)) {
        status = choose(device, is_chosen, &found);
        if (status == TARN_OK) {
            open_to_peers(device, found);
            set(device, found); /* or tarn_torch_set_resource() has */
        }
    }
    pthread_mutex_unlock(&choosing);
    return status;
}

/* Return true if the current resource of a device was set, or is set by the callback. */
static bool call_first_use(int device)
{
    tarn_torch_first_use call = atomic_load(&first_use);
    tarn_resource *current = NULL;

    if (!call || tarn_device_resource(device, &current) != TARN_OK)
        return false;
    bool asks = is_default(device, current);
    tarn_resource_release(current);
    return !asks || call(device);
}

tarn_status tarn__torch_resource_use(int device, tarn_resource **out)
{
    tarn_resource *found = tarn__torch_resource_get(device);

    if (!found) {
        tarn_status status = tarn__device_check("torch", device);
        if (status == TARN_OK)
            status = tarn__driver_check(); /* a forked child takes no such lock */
        if (status == TARN_OK)
            status = set_chosen(device, call_first_use(device));
        if (status != TARN_OK)
            return status;
        found = tarn__torch_resource_get(device);
    }
    *out = found;
    return TARN_OK;
}
