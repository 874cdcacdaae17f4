/* libcuda.c -- a driver that does nothing, for counting what Tarn itself does.
 *
 * One device, one context, memory that is addresses alone, work that is done at once. The
 * simulator is unsuitable: valgrind lacks the addresses for it, and its own instructions
 * must not be counted. Calls that are not named here return success and leave their
 * outputs alone. With TARN_NULL_VMM in the environment memory can be mapped, so that a
 * trace takes the same paths as on a GPU.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned long long address;

/* Handles are aligned as the driver's are, and no code dereferences them. */
enum { HANDLE_STEP = 64, FIRST_HANDLE = 1 << 20 };
static uintptr_t next_handle = FIRST_HANDLE;
static _Alignas(HANDLE_STEP) char context;
static address next_address = (address)1 << 40;

static int no_call(void)
{
    return 0;
}

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

static int get_version(int *out)
{
    *out = 13000;
    return 0;
}

static int get_one(int *out)
{
    *out = 1;
    return 0;
}

static int get_zero(int *out)
{
    *out = 0;
    return 0;
}

enum { HAS_VMM = 102 }; /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */

static int get_attribute(int *out, int attribute, int device)
{
    (void)device;
    /* Otherwise the pool's memory comes from cuMemAlloc. */
    *out = attribute == HAS_VMM && getenv("TARN_NULL_VMM") != NULL;
    return 0;
}

static int get_granularity(size_t *out, const void *properties, int which)
{
    (void)properties, (void)which;
    *out = 2 << 20;
    return 0;
}

static int reserve_addresses(address *out, size_t bytes, size_t alignment, address at,
                             unsigned long long flags)
{
    (void)at, (void)flags;
    next_address = (next_address + alignment - 1) / alignment * alignment;
    *out = next_address;
    next_address += bytes;
    return 0;
}

/* All memory has one handle: no code reads the memory behind it. */
static int get_handle(unsigned long long *out)
{
    *out = FIRST_HANDLE;
    return 0;
}

static int get_context(void **out)
{
    *out = &context;
    return 0;
}

static int get_context_of(void *of, void **out)
{
    (void)of;
    *out = &context;
    return 0;
}

static int get_context_id(void *of, unsigned long long *out)
{
    (void)of;
    *out = 1;
    return 0;
}

#define DEVICE_BYTES ((size_t)256 << 30)

static int get_memory(size_t *unused, size_t *total)
{
    *unused = *total = DEVICE_BYTES;
    return 0;
}

static int get_total(size_t *total, int device)
{
    (void)device;
    *total = DEVICE_BYTES;
    return 0;
}

static int allocate(address *out, size_t bytes)
{
    const size_t page = 2 << 20;

    *out = next_address;
    next_address += (bytes + page - 1) / page * page + page;
    return 0;
}

static int create_stream(void **out, unsigned flags)
{
    (void)flags;
    *out = (void *)(next_handle += HANDLE_STEP);
    return 0;
}

static int get_stream_id(void *stream, unsigned long long *out)
{
    *out = (unsigned long long)(uintptr_t)stream;
    return 0;
}

static int is_capturing(void *stream, int *out)
{
    (void)stream;
    *out = 0;
    return 0;
}

static int create_event(void **out, unsigned flags)
{
    (void)flags;
    *out = (void *)(next_handle += HANDLE_STEP);
    return 0;
}

static const struct {
    const char *name;
    void (*call)(void); /* of its own type, as dlsym would return it */
} calls[] = {
#define CALL(name, call) {name, (void (*)(void))(call)}
    CALL("cuInit", cuInit),
    CALL("cuDriverGetVersion", get_version),
    CALL("cuDeviceGetCount", get_one),
    CALL("cuDeviceGet", get_zero),
    CALL("cuCtxGetDevice", get_zero),
    CALL("cuDeviceGetAttribute", get_attribute),
    CALL("cuDeviceTotalMem", get_total),
    CALL("cuDevicePrimaryCtxRetain", get_context),
    CALL("cuCtxGetCurrent", get_context),
    CALL("cuCtxPopCurrent", get_context),
    CALL("cuCtxGetId", get_context_id),
    CALL("cuMemGetInfo", get_memory),
    CALL("cuMemAlloc", allocate),
    CALL("cuMemGetAllocationGranularity", get_granularity),
    CALL("cuMemAddressReserve", reserve_addresses),
    CALL("cuMemCreate", get_handle),
    CALL("cuMemRetainAllocationHandle", get_handle),
    CALL("cuStreamCreate", create_stream),
    CALL("cuStreamGetCtx", get_context_of),
    CALL("cuStreamGetId", get_stream_id),
    CALL("cuStreamIsCapturing", is_capturing),
    CALL("cuEventCreate", create_event),
#undef CALL
};

EXPORT int cuGetProcAddress_v2(const char *symbol, void **out, int version,
                               uint64_t flags, int *status_out);
int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags,
                        int *status_out)
{
    void (*found)(void) = (void (*)(void))no_call;

    (void)version, (void)flags, (void)status_out;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, symbol) == 0)
            found = calls[i].call;
    memcpy(out, &found, sizeof found);
    return 0;
}
