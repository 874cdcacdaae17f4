/* calls.c -- opens the driver and resolves every call of calls.h in it.
 *
 * The library has one required symbol, cuGetProcAddress_v2, which returns the others, as
 * for CUDA's own clients. A simulator that exports the names but returns wrong functions
 * here fails.
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* One function for each call, with its type, for drivers that lack it. */
#define LACK(name, base, version, parameters) \
    static CUresult lack_##name parameters    \
    {                                         \
        return NOT_FOUND_HERE;                \
    }                                         \
    CUresult(*name) parameters = lack_##name;
CALLS(LACK)

static CUresult (*get_proc_address)(const char *, void **, int, uint64_t, int *);

static void take(void *slot, const char *base, int version)
{
    void *found = NULL;
    int status = 0;

    if (get_proc_address(base, &found, version, 0, &status) == CUDA_SUCCESS && found)
        memcpy(slot, &found, sizeof found);
}

int calls_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;

    if (!symbol) {
        fprintf(stderr, "driver_facts: %s\n", dlerror());
        return 0;
    }
    memcpy(&get_proc_address, &symbol, sizeof symbol);
#define TAKE(name, base, version, parameters) take(&name, base, version);
    CALLS(TAKE)
#undef TAKE
    return 1;
}
