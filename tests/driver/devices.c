/* devices.c -- facts about counting, naming and describing devices. */
#include "facts.h"

#include <string.h>

enum {
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
};

/* Attributes that memory managers read, and whose values are equal on all recent cards.
 */
static const struct {
    const char *name;
    int attribute;
} steady[] = {
    {"MAX_THREADS_PER_BLOCK", 1},
    {"WARP_SIZE", 10},
    {"MAX_PITCH", 11},
    {"TEXTURE_ALIGNMENT", 14},
    {"GPU_OVERLAP", 15},
    {"INTEGRATED", 18},
    {"CAN_MAP_HOST_MEMORY", 19},
    {"COMPUTE_MODE", 20},
    {"CONCURRENT_KERNELS", 31},
    {"TCC_DRIVER", 35},
    {"UNIFIED_ADDRESSING", 41},
    {"STREAM_PRIORITIES_SUPPORTED", 78},
    {"MANAGED_MEMORY", 83},
    {"HOST_NATIVE_ATOMIC_SUPPORTED", 86},
    {"PAGEABLE_MEMORY_ACCESS", 88},
    {"CONCURRENT_MANAGED_ACCESS", 89},
    {"COMPUTE_PREEMPTION_SUPPORTED", 90},
    {"CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", 91},
    {"CAN_USE_STREAM_WAIT_VALUE_NOR", 123},
    {"COOPERATIVE_LAUNCH", 95},
    {"HOST_REGISTER_SUPPORTED", 99},
    {"PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES", 100},
    {"DIRECT_MANAGED_MEM_ACCESS_FROM_HOST", 101},
    {"VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", 102},
    {"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", 103},
    {"HANDLE_TYPE_WIN32_HANDLE_SUPPORTED", 104},
    {"GENERIC_COMPRESSION_SUPPORTED", 107},
    {"READ_ONLY_HOST_REGISTER_SUPPORTED", 113},
    {"TIMELINE_SEMAPHORE_INTEROP_SUPPORTED", 114},
    {"MEMORY_POOLS_SUPPORTED", 115},
    {"MEMPOOL_SUPPORTED_HANDLE_TYPES", 119},
    {"DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED", 121},
    {"DMA_BUF_SUPPORTED", 124},
    {"IPC_EVENT_SUPPORTED", 125},
};

static void ordinals(void)
{
    CUdevice out = -7;
    int count = 0;

    fact_result("count.null", cuDeviceGetCount(NULL));
    fact_result("count", cuDeviceGetCount(&count));
    fact_bool("count.at_least_1", count >= 1);
    fact_output("get.ordinal_-1", cuDeviceGet(&out, -1), out == -7);
    fact_output("get.ordinal_count", cuDeviceGet(&out, count), out == -7);
    fact_result("get.null", cuDeviceGet(NULL, 0));
    CUresult result = cuDeviceGet(&out, 0);
    fact("get", "%s, device %d", result_name(result), out);
}

/* No length of 0 bytes: an H200 crashes on it in one run and hangs in another. */
static void names(void)
{
    char text[256] = "kept";

    fact_output("name.bad_device", cuDeviceGetName(text, 16, 99), !strcmp(text, "kept"));
    memset(text, 'x', 8);
    CUresult result = cuDeviceGetName(text, 4, 0);
    fact("name.bytes_4", "%s, %zu letters", result_name(result),
         (size_t)((char *)memchr(text, 0, 8) ? strlen(text) : 99));
    memset(text, 'x', 8);
    result = cuDeviceGetName(text, 1, 0);
    fact("name.bytes_1", "%s, %s", result_name(result), *text ? "not ended" : "empty");
    result = cuDeviceGetName(text, sizeof text, 0);
    fact("name", "%s, %s", result_name(result), strlen(text) > 2 ? "text" : "nothing");
}

static void name_null(void)
{
    fact_result("name.null", cuDeviceGetName(NULL, 16, 0));
}

static void attributes(void)
{
    int out = -7;

    fact_result("attribute.null", cuDeviceGetAttribute(NULL, 1, 0));
    fact_output("attribute.number_0", cuDeviceGetAttribute(&out, 0, 0), out == -7);
    fact_output("attribute.number_-1", cuDeviceGetAttribute(&out, -1, 0), out == -7);
    fact_output("attribute.number_9999", cuDeviceGetAttribute(&out, 9999, 0), out == -7);
    fact_output("attribute.device_-1", cuDeviceGetAttribute(&out, 1, -1), out == -7);
    fact_output("attribute.device_99", cuDeviceGetAttribute(&out, 1, 99), out == -7);
    for (size_t i = 0; i < sizeof steady / sizeof *steady; i++) {
        out = -7;
        CUresult result = cuDeviceGetAttribute(&out, steady[i].attribute, 0);
        fact(named("attribute.%s", steady[i].name), "%s, %d", result_name(result), out);
    }
}

static void sizes(void)
{
    size_t total = 7, seen = 0, unused = 0;
    int major = 0, minor = 0, a = -1, b = -1;

    fact_result("total.null", cuDeviceTotalMem(NULL, 0));
    fact_output("total.bad_device", cuDeviceTotalMem(&total, 99), total == 7);
    fact_result("total", cuDeviceTotalMem(&total, 0));
    ready();
    cuMemGetInfo(&unused, &seen);
    fact_bool("total.same_as_in_info", total == seen);
    fact_bool("total.multiple_of_64KiB", total % (64 * KIB) == 0);
    cuDeviceComputeCapability(&major, &minor, 0);
    cuDeviceGetAttribute(&a, ATTRIBUTE_MAJOR, 0);
    cuDeviceGetAttribute(&b, ATTRIBUTE_MINOR, 0);
    fact_bool("capability.same_as_attributes", major == a && minor == b);
    fact_bool("capability.at_least_7", a >= 7);
    fact_result("capability.null", cuDeviceComputeCapability(NULL, NULL, 0));
    fact_result("capability.bad_device", cuDeviceComputeCapability(&a, &b, 99));
}

static void bus_ids(void)
{
    char text[32] = "kept";
    CUdevice out = -7;

    fact_result("bus_id.null", cuDeviceGetPCIBusId(NULL, 32, 0));
    fact_output("bus_id.bytes_0", cuDeviceGetPCIBusId(text, 0, 0), !strcmp(text, "kept"));
    fact_output("bus_id.bytes_12", cuDeviceGetPCIBusId(text, 12, 0),
                !strcmp(text, "kept"));
    fact_result("bus_id.bad_device", cuDeviceGetPCIBusId(text, 32, 99));
    CUresult result = cuDeviceGetPCIBusId(text, 32, 0);
    fact("bus_id", "%s, %zu letters", result_name(result), strlen(text));
    result = cuDeviceGetByPCIBusId(&out, text);
    fact("by_bus_id", "%s, device %d", result_name(result), out);
    out = -7;
    result = cuDeviceGetByPCIBusId(&out, text + 5);
    fact("by_bus_id.without_domain", "%s, device %d", result_name(result), out);
    out = -7;
    fact_output("by_bus_id.nobody", cuDeviceGetByPCIBusId(&out, "00ff:ff:1f.0"),
                out == -7);
    fact_output("by_bus_id.garbage", cuDeviceGetByPCIBusId(&out, "garbage"), out == -7);
    fact_result("by_bus_id.null", cuDeviceGetByPCIBusId(&out, NULL));
    fact_result("by_bus_id.null_output", cuDeviceGetByPCIBusId(NULL, text));
}

static void uuids(void)
{
    CUuuid a = {{0}}, b = {{1}}, zero = {{0}};

    fact_result("uuid.null", cuDeviceGetUuid(NULL, 0));
    fact_result("uuid.bad_device", cuDeviceGetUuid(&a, 99));
    fact_result("uuid", cuDeviceGetUuid(&a, 0));
    cuDeviceGetUuid(&b, 0);
    fact_bool("uuid.same_again", !memcmp(&a, &b, sizeof a));
    fact_bool("uuid.not_zero", memcmp(&a, &zero, sizeof a) != 0);
}

static const struct part parts[] = {
    {"ordinals", ordinals, INITED},     {"names", names, INITED},
    {"attributes", attributes, INITED}, {"sizes", sizes, INITED},
    {"bus_ids", bus_ids, INITED},       {"uuids", uuids, INITED},
    {"name_null", name_null, INITED},   END_OF_PARTS,
};
const struct theme theme_devices = {"devices", parts, false};
