/* driver_client.c -- a program that knows the driver by name alone, without Tarn.
 *
 * It prints the device that it found, and the bytes that it copied to the device and
 * back.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void *driver;

static void *function(const char *name)
{
    void *found = dlsym(driver, name);

    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return found;
}

/* Call the driver; every call of this program has to succeed. */
#define CALL(name, types, arguments)                     \
    do {                                                 \
        int(*call) types = (int(*) types)function(name); \
        int code = call arguments;                       \
        if (code != 0) {                                 \
            fprintf(stderr, "%s: %d\n", name, code);     \
            exit(4);                                     \
        }                                                \
    } while (0)

int main(void)
{
    char name[100], bytes[] = "there", back[sizeof bytes] = "";
    unsigned long long memory;
    void *context, *stream;
    int device;

    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    CALL("cuInit", (unsigned), (0));
    CALL("cuDeviceGet", (int *, int), (&device, 0));
    CALL("cuDeviceGetName", (char *, int, int), (name, sizeof name, device));
    CALL("cuDevicePrimaryCtxRetain", (void **, int), (&context, device));
    CALL("cuCtxSetCurrent", (void *), (context));
    CALL("cuStreamCreate", (void **, unsigned), (&stream, 1));
    CALL("cuMemAlloc_v2", (unsigned long long *, size_t), (&memory, sizeof bytes));
    CALL("cuMemcpyHtoDAsync_v2", (unsigned long long, const void *, size_t, void *),
         (memory, bytes, sizeof bytes, stream));
    CALL("cuMemcpyDtoHAsync_v2", (void *, unsigned long long, size_t, void *),
         (back, memory, sizeof bytes, stream));
    CALL("cuStreamSynchronize", (void *), (stream));
    CALL("cuMemFree_v2", (unsigned long long), (memory));
    CALL("cuStreamDestroy_v2", (void *), (stream));
    CALL("cuDevicePrimaryCtxRelease_v2", (int), (device));
    printf("%s: %s\n", name, back);
    return 0;
}
