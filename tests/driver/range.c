/* range.c -- facts about cuMemGetAddressRange, inside and outside of blocks of each kind.
 */
#include "facts.h"

#include <stdlib.h>

enum { BYTES = 10000 };

/* Print the answer relative to the block's start. */
static void range_fact(const char *name, CUdeviceptr start, CUdeviceptr pointer)
{
    CUdeviceptr base = 7;
    size_t bytes = 7;
    CUresult result = cuMemGetAddressRange(&base, &bytes, pointer);

    if (result == CUDA_SUCCESS)
        fact(name, "SUCCESS, %+lld, %zu bytes", (long long)(base - start), bytes);
    else
        fact_output(name, result, base == 7 && bytes == 7);
}

static void five(const char *kind, CUdeviceptr start, size_t bytes)
{
    range_fact(named("%s.start", kind), start, start);
    range_fact(named("%s.inside", kind), start, start + bytes / 2);
    range_fact(named("%s.last_byte", kind), start, start + bytes - 1);
}

static void blocks(void)
{
    CUdeviceptr plain = block(BYTES), big = block(3 * MIB), managed = 0, pooled = 0;
    void *pin = pinned(BYTES), *heap = malloc(BYTES);

    five("device", plain, BYTES);
    five("device_3MiB", big, 3 * MIB);
    cuMemAllocManaged(&managed, BYTES, 1);
    five("managed", managed, BYTES);
    cuMemAllocAsync(&pooled, BYTES, NULL);
    cuStreamSynchronize(NULL);
    five("pooled", pooled, BYTES);
    five("pinned", (CUdeviceptr)(uintptr_t)pin, BYTES);
    cuMemHostRegister(heap, BYTES, 0);
    five("registered", (CUdeviceptr)(uintptr_t)heap, BYTES);
    cuMemHostUnregister(heap);
    range_fact("unregistered", (CUdeviceptr)(uintptr_t)heap,
               (CUdeviceptr)(uintptr_t)heap);
    range_fact("device_3MiB.one_past", big, big + 3 * MIB);
    cuMemFree(plain);
    cuMemFree(big);
    range_fact("freed", big, big);
    cuMemFree(managed);
    cuMemFreeAsync(pooled, NULL);
    cuStreamSynchronize(NULL);
    range_fact("pooled.freed", pooled, pooled);
    cuMemFreeHost(pin);
    free(heap);
}

static void mappings(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0);
    range_fact("vmm.reserved", at, at);
    for (unsigned int i = 0; i < 2; i++) {
        cuMemCreate(&h[i], 2 * MIB, &prop, 0);
        cuMemMap(at + i * 2 * MIB, 2 * MIB, 0, h[i], 0);
    }
    range_fact("vmm.mapped_without_access", at, at + 3 * MIB);
    cuMemSetAccess(at, 4 * MIB, &access, 1);
    range_fact("vmm.first_handle", at, at + MIB);
    range_fact("vmm.second_handle", at, at + 3 * MIB);
    range_fact("vmm.unmapped_part", at, at + 5 * MIB);
    cuMemUnmap(at, 4 * MIB);
    range_fact("vmm.unmapped", at, at + MIB);
    cuMemRelease(h[0]);
    cuMemRelease(h[1]);
    cuMemAddressFree(at, 8 * MIB);
}

static void arguments(void)
{
    CUdeviceptr plain = block(BYTES), base = 0;
    size_t bytes = 0;
    static char mine[64];

    range_fact("null", 0, 0);
    range_fact("garbage", 0x1234500, 0x1234500);
    range_fact("static_memory", (CUdeviceptr)(uintptr_t)mine,
               (CUdeviceptr)(uintptr_t)mine);
    fact_result("null_base", cuMemGetAddressRange(NULL, &bytes, plain + 1));
    fact("null_base.bytes", "%zu", bytes);
    fact_result("null_bytes", cuMemGetAddressRange(&base, NULL, plain + 1));
    fact_bool("null_bytes.base", base == plain);
    fact_result("null_both", cuMemGetAddressRange(NULL, NULL, plain));
    cuMemFree(plain);
}

static const struct part parts[] = {
    {"blocks", blocks, TOGETHER},
    {"mappings", mappings, TOGETHER},
    {"arguments", arguments, TOGETHER},
    END_OF_PARTS,
};
const struct theme theme_range = {"range", parts, false};
