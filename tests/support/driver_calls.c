/* Resolve the driver's calls by name; see driver_calls.h. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>

static void end(const char *message, const char *what)
{
    fprintf(stderr, "%s %s\n", message, what);
    abort();
}

void *driver_call(const char *name)
{
    tarn_driver_info info;

    if (tarn_driver_get_info(&info) != TARN_OK)
        end("no driver:", tarn_error_last()->message);
    void *library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    void *call = library ? dlsym(library, name) : NULL;
    if (!call)
        end("the driver has no", name);
    dlclose(library);
    return call;
}

void find_call(const char *name, void *slot)
{
    void *call = driver_call(name);

    memcpy(slot, &call, sizeof call);
}

void reset_the_device(void)
{
    int (*reset)(int device);

    find_call("cuDevicePrimaryCtxReset_v2", &reset);
    if (reset(0) != 0)
        end("device 0:", "its context cannot be reset");
}
