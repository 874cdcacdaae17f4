/* resources.c -- resources by name, for the verbs that take --resource. */
#include "tool.h"
#include <string.h>

static tarn_status create_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

static tarn_status create_host(int device, tarn_resource **out)
{
    (void)device;
    return tarn_host_create(out);
}

const struct resource_kind resource_kinds[] = {
    {"cuda", true, tarn_cuda_create},       {"async", true, create_async},
    {"managed", true, tarn_managed_create}, {"pinned", true, tarn_pinned_create},
    {"host", false, create_host},           {NULL, false, NULL}};

const struct resource_kind *resource_kind_of(const char *name)
{
    for (const struct resource_kind *kind = resource_kinds; kind->name; kind++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}
