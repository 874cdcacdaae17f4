/* resources.c -- resources by name, for the verbs that take --resource. */
#include "tool.h"
#include <string.h>

static tarn_status create_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

static tarn_status create_pool(int device, tarn_resource **out)
{
    return tarn_pool_create(device, NULL, NULL, out);
}

static tarn_status create_slab(int device, tarn_resource **out)
{
    return tarn_slab_create(device, NULL, NULL, out);
}

/* Bins for 256 bytes to 1 MiB, and a pool for what is larger and for their memory. */
static tarn_status create_binning(int device, tarn_resource **out)
{
    const tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 8, .max_size_exponent = 20};
    tarn_resource *pool;
    tarn_status status = create_pool(device, &pool);

    if (status != TARN_OK)
        return status;
    status = tarn_binning_create(pool, &options, out);
    tarn_error failure = *tarn_error_last();
    tarn_resource_release(pool);
    tarn_error_set_native(failure.status, failure.native, "%s", failure.message);
    return status;
}

static tarn_status create_host(int device, tarn_resource **out)
{
    (void)device;
    return tarn_host_create(out);
}

const struct resource_kind resource_kinds[] = {{"cuda", true, tarn_cuda_create},
                                               {"async", true, create_async},
                                               {"managed", true, tarn_managed_create},
                                               {"pinned", true, tarn_pinned_create},
                                               {"pool", true, create_pool},
                                               {"slab", true, create_slab},
                                               {"binning", true, create_binning},
                                               {"host", false, create_host},
                                               {NULL, false, NULL}};

const struct resource_kind *resource_kind_of(const char *name)
{
    for (const struct resource_kind *kind = resource_kinds; kind->name; kind++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}
