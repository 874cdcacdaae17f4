/* plugin.c -- a C library in a Python process that uses Tarn as well. If one of the two
 * sets a device's current resource, the other one must see it. Called through ctypes. */
#include <tarn/tarn.h>

const char *plugin_words(void);
const char *plugin_resource_name(void);
int plugin_set_limiter(size_t limit_bytes);
int plugin_set_default(void);
tarn_device_ptr plugin_allocate(size_t bytes);
int plugin_deallocate(tarn_device_ptr block, size_t bytes);

const char *plugin_words(void)
{
    return tarn_error_last()->message;
}

/* The name of device 0's current resource; in static storage, so it may outlive the
 * reference. */
const char *plugin_resource_name(void)
{
    tarn_resource *resource;
    const char *name;

    if (tarn_device_resource(0, &resource) != TARN_OK)
        return "";
    name = tarn_resource_name(resource);
    tarn_resource_release(resource);
    return name;
}

/* Put a limiter over the current resource of device 0; the registry is its only owner. */
int plugin_set_limiter(size_t limit_bytes)
{
    tarn_resource *upstream, *limiter, *previous;
    tarn_status status;

    status = tarn_device_resource(0, &upstream);
    if (status != TARN_OK)
        return status;
    status = tarn_limiter_create(upstream, limit_bytes, &limiter);
    tarn_resource_release(upstream);
    if (status != TARN_OK)
        return status;
    status = tarn_device_set_resource(0, limiter, &previous);
    if (status == TARN_OK)
        tarn_resource_release(previous);
    tarn_resource_release(limiter);
    return status;
}

int plugin_set_default(void)
{
    tarn_resource *previous;
    tarn_status status = tarn_device_set_resource(0, NULL, &previous);

    return status == TARN_OK ? tarn_resource_release(previous) : status;
}

/* Allocate a block from the current resource of device 0; 0 on failure. */
tarn_device_ptr plugin_allocate(size_t bytes)
{
    tarn_resource *resource;
    tarn_device_ptr block = 0;

    if (tarn_device_resource(0, &resource) != TARN_OK)
        return 0;
    tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_DEFAULT, &block);
    tarn_resource_release(resource);
    return block;
}

int plugin_deallocate(tarn_device_ptr block, size_t bytes)
{
    tarn_resource *resource;
    tarn_status status = tarn_device_resource(0, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_DEFAULT);
    tarn_resource_release(resource);
    return status;
}
