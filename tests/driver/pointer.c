/* pointer.c -- facts about the answers of cuPointerGetAttribute for each kind of memory.
 *
 * A table with a row for each kind, a column for each attribute, and one fact per cell.
 * Values are printed by equality (`itself`, `start`), never as addresses.
 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 2 << 20 };

struct kind {
    const char *name;
    CUdeviceptr start;   /* of the block; 0: no block */
    CUdeviceptr pointer; /* the address of the query */
};

static const struct {
    const char *name;
    int number;
} attributes[] = {
    {"CONTEXT", CU_POINTER_ATTRIBUTE_CONTEXT},
    {"MEMORY_TYPE", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
    {"DEVICE_POINTER", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
    {"HOST_POINTER", CU_POINTER_ATTRIBUTE_HOST_POINTER},
    {"SYNC_MEMOPS", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS},
    {"BUFFER_ID", CU_POINTER_ATTRIBUTE_BUFFER_ID},
    {"IS_MANAGED", CU_POINTER_ATTRIBUTE_IS_MANAGED},
    {"DEVICE_ORDINAL", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
    {"IS_LEGACY_CUDA_IPC_CAPABLE", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
    {"RANGE_START_ADDR", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
    {"RANGE_SIZE", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
    {"MAPPED", CU_POINTER_ATTRIBUTE_MAPPED},
    {"ALLOWED_HANDLE_TYPES", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
    {"IS_GPU_DIRECT_RDMA_CAPABLE", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
    {"ACCESS_FLAGS", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
    {"MEMPOOL_HANDLE", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE},
    {"MAPPING_SIZE", CU_POINTER_ATTRIBUTE_MAPPING_SIZE},
    {"MAPPING_BASE_ADDR", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR},
    {"MEMORY_BLOCK_ID", CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID},
};

/* The size of an attribute's output; a check shows that the rest of the output is
 * unchanged. */
static size_t width(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return 1; /* "boolean": its lowest byte, whatever else is written */
    default:
        return 8;
    }
}

/* Print a value as text that does not depend on addresses. */
static const char *describe_value(int attribute, const struct kind *kind, uint64_t value)
{
    CUmemoryPool pool = NULL;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return !value ? "NULL" : value == (uintptr_t)context ? "the current" : "another";
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        cuDeviceGetDefaultMemPool(&pool, device);
        return !value                     ? "NULL"
               : value == (uintptr_t)pool ? "the default pool"
                                          : "another";
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return !value                   ? "NULL"
               : value == kind->start   ? "the start"
               : value == kind->pointer ? "itself"
                                        : "elsewhere";
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return value ? "a number" : "0";
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return named("%d", (int)value);
    default:
        return named("%llu", (unsigned long long)value);
    }
}

static void cell(const struct kind *kind, size_t row)
{
    int attribute = attributes[row].number;
    uint64_t value = 0, untouched = 0x7777777777777777;
    unsigned char raw[16];

    memset(raw, 0x77, sizeof raw);
    CUresult result = cuPointerGetAttribute(raw, attribute, kind->pointer);
    memcpy(&value, raw, width(attribute));
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        value = (uint64_t)(int64_t)(int32_t)value;
    fact(named("%s.%s", kind->name, attributes[row].name), "%s, %s", result_name(result),
         memcmp(raw, &untouched, 8) == 0 ? "output kept"
                                         : describe_value(attribute, kind, value));
}

static void row_of(const char *name, CUdeviceptr start, CUdeviceptr pointer)
{
    struct kind kind = {name, start, pointer};

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        cell(&kind, i);
}

static CUdeviceptr number(void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void device_kinds(void)
{
    CUdeviceptr plain = block(BYTES), managed = 0, pooled = 0;
    struct range range = vmm_range(2 * MIB);

    row_of("device", plain, plain);
    row_of("device_interior", plain, plain + 1000);
    cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL);
    row_of("managed", managed, managed);
    cuMemAllocAsync(&pooled, BYTES, NULL);
    cuStreamSynchronize(NULL);
    row_of("pooled", pooled, pooled);
    row_of("pooled_interior", pooled, pooled + 1000);
    row_of("vmm", range.pointer, range.pointer);
    cuMemFree(plain);
    row_of("freed", 0, plain);
    cuMemFree(managed);
    cuMemFreeAsync(pooled, NULL);
    cuStreamSynchronize(NULL);
    vmm_end(&range);
}

static void host_kinds(void)
{
    void *pin = NULL, *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char mine[64];

    cuMemHostAlloc(&pin, BYTES, 0);
    row_of("pinned", number(pin), number(pin));
    row_of("pinned_interior", number(pin), number(pin) + 1000);
    cuMemHostRegister(mapped, BYTES, 0);
    row_of("registered", number(mapped), number(mapped));
    cuMemHostUnregister(mapped);
    row_of("unregistered", number(mapped), number(mapped));
    row_of("pageable", 0, number(mine));
    row_of("null", 0, 0);
    row_of("garbage", 0, 0x1234500);
    cuMemFreeHost(pin);
}

static void reserved_kinds(void)
{
    CUdeviceptr at = 0;
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle handle = 0;

    cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0);
    row_of("reserved", at, at);
    prop.requestedHandleTypes = 1;
    cuMemCreate(&handle, 2 * MIB, &prop, 0);
    cuMemMap(at, 2 * MIB, 0, handle, 0);
    row_of("mapped_without_access", at, at);
    cuMemUnmap(at, 2 * MIB);
    cuMemRelease(handle);
    cuMemAddressFree(at, 2 * MIB);
}

static void identities(void)
{
    CUdeviceptr a = block(BYTES), b = block(BYTES);
    unsigned long long ids[4] = {0};

    cuPointerGetAttribute(&ids[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, a);
    cuPointerGetAttribute(&ids[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, a + 100);
    cuPointerGetAttribute(&ids[2], CU_POINTER_ATTRIBUTE_BUFFER_ID, b);
    cuMemFree(a);
    a = block(BYTES);
    cuPointerGetAttribute(&ids[3], CU_POINTER_ATTRIBUTE_BUFFER_ID, a);
    fact_bool("buffer_id.same_in_a_block", ids[0] == ids[1]);
    fact_bool("buffer_id.same_in_another", ids[0] == ids[2]);
    fact_bool("buffer_id.comes_back", ids[3] == ids[0] || ids[3] == ids[2]);
    fact_bool("buffer_id.rises", ids[3] > ids[2] && ids[2] > ids[0]);
    cuMemFree(a);
    cuMemFree(b);
}

static void several(void)
{
    CUdeviceptr a = block(BYTES), start = 0;
    int type = 77, ordinal = 77, managed = 77;
    int wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *out[] = {&type, &ordinal, &start};

    CUresult result = cuPointerGetAttributes(3, wanted, out, a + 10);
    fact("several.device", "%s, type %d, ordinal %d, %s", result_name(result), type,
         ordinal, start == a ? "the start" : "elsewhere");
    result = cuPointerGetAttributes(3, wanted, out, number(&type));
    fact("several.pageable", "%s, type %d, ordinal %d, %s", result_name(result), type,
         ordinal, start ? "something" : "NULL");
    result = cuPointerGetAttributes(3, wanted, out, 0);
    fact("several.null", "%s, type %d, ordinal %d", result_name(result), type, ordinal);
    fact_result("several.count_0", cuPointerGetAttributes(0, wanted, out, a));
    fact_result("several.null_names", cuPointerGetAttributes(3, NULL, out, a));
    fact_result("several.null_outputs", cuPointerGetAttributes(3, wanted, NULL, a));
    wanted[0] = 9999;
    type = 77;
    fact_output("several.unknown", cuPointerGetAttributes(3, wanted, out, a), type == 77);
    fact_result("one.null_output",
                cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    fact_output("one.number_0", cuPointerGetAttribute(&managed, 0, a), managed == 77);
    fact_output("one.number_9999", cuPointerGetAttribute(&managed, 9999, a),
                managed == 77);
    cuMemFree(a);
}

static void setting(void)
{
    CUdeviceptr a = block(BYTES);
    unsigned int on = 1, off = 0;
    int now = 77;

    fact_result("set.sync_memops",
                cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a);
    fact("set.sync_memops.then", "%d", now & 255);
    fact_result("set.sync_memops_off",
                cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    fact_result("set.memory_type",
                cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    fact_result("set.null",
                cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    fact_result("set.pageable", cuPointerSetAttribute(
                                    &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, number(&on)));
    cuMemFree(a);
}

static const struct part parts[] = {
    {"device_kinds", device_kinds, TOGETHER},
    {"host_kinds", host_kinds, TOGETHER},
    {"identities", identities, TOGETHER},
    {"several", several, TOGETHER},
    {"setting", setting, TOGETHER},
    {"reserved_kinds", reserved_kinds, RISKY},
    END_OF_PARTS,
};
const struct theme theme_pointer = {"pointer", parts, false};
