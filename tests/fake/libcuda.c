/* libcuda.c -- a library that looks like a CUDA driver, with a defect that the test
 * chooses.
 *
 * Tests of how Tarn opens a driver load it. These variables select the defect, with their
 * defaults: FAKE_CUDA_VERSION (13000), FAKE_CUDA_DEVICES (1), FAKE_CUDA_INIT (the result
 * of cuInit, 0). FAKE_CUDA_LACKS names a missing call. FAKE_CUDA_WAITS names a file that
 * cuInit creates; cuInit returns when the file is gone. Every other call does nothing and
 * succeeds. FAKE_CUDA_BASE is the path of a driver that has all calls instead, except the
 * missing one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    const char *file = getenv("FAKE_CUDA_WAITS");
    FILE *made = file ? fopen(file, "w") : NULL;

    (void)flags;
    if (made)
        fclose(made);
    while (made && access(file, F_OK) == 0)
        ;
    return number("FAKE_CUDA_INIT", 0);
}

static int get_version(int *out)
{
    *out = number("FAKE_CUDA_VERSION", 13000);
    return 0;
}

static int get_count(int *out)
{
    *out = number("FAKE_CUDA_DEVICES", 1);
    return 0;
}

static int do_nothing(void)
{
    return 0;
}

typedef int get_proc_address(const char *symbol, void **out, int version, uint64_t flags,
                             int *status_out);

/* cuGetProcAddress of the driver FAKE_CUDA_BASE; NULL: there is none. */
static get_proc_address *of_base(void)
{
    const char *base = getenv("FAKE_CUDA_BASE");
    void *library = base ? dlopen(base, RTLD_NOW | RTLD_LOCAL) : NULL;
    get_proc_address *found = NULL;

    if (library)
        *(void **)&found = dlsym(library, "cuGetProcAddress_v2");
    return found;
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **out, int version,
                               uint64_t flags, int *status_out);
int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags,
                        int *status_out)
{
    const char *lacks = getenv("FAKE_CUDA_LACKS");
    int (*found)(void) = do_nothing;

    (void)version, (void)flags, (void)status_out;
    if (lacks && strcmp(lacks, symbol) == 0)
        return 500; /* CUDA_ERROR_NOT_FOUND */
    get_proc_address *base = of_base();
    if (base)
        return base(symbol, out, version, flags, status_out);
    if (strcmp(symbol, "cuInit") == 0)
        found = (int (*)(void))cuInit;
    if (strcmp(symbol, "cuDriverGetVersion") == 0)
        found = (int (*)(void))get_version;
    if (strcmp(symbol, "cuDeviceGetCount") == 0)
        found = (int (*)(void))get_count;
    memcpy(out, &found, sizeof found);
    return 0;
}
