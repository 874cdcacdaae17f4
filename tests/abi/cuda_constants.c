/* Compare Tarn's CUDA types and constants (src/driver/cuda_abi.h) with the cuda.h of this
 * machine.
 *
 * The last test reads cuda_abi.h as text, so that it reports an added constant that is
 * not compared here.
 */
#include "test.h"
#include "driver/cuda_abi.h"
#include <cuda.h>

struct constant {
    const char *name;
    long long ours;
    long long theirs;
};

/* Tarn's name is that of cuda.h and an underscore. */
#define SAME(name) {#name, name##_, name}

static const struct constant constants[] = {
    SAME(CUDA_SUCCESS),
    SAME(CUDA_ERROR_INVALID_VALUE),
    SAME(CUDA_ERROR_OUT_OF_MEMORY),
    SAME(CUDA_ERROR_NOT_INITIALIZED),
    SAME(CUDA_ERROR_DEINITIALIZED),
    SAME(CUDA_ERROR_NO_DEVICE),
    SAME(CUDA_ERROR_INVALID_DEVICE),
    SAME(CUDA_ERROR_INVALID_CONTEXT),
    SAME(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    SAME(CUDA_ERROR_MAP_FAILED),
    SAME(CUDA_ERROR_INVALID_HANDLE),
    SAME(CUDA_ERROR_NOT_READY),
    SAME(CUDA_ERROR_NOT_PERMITTED),
    SAME(CUDA_ERROR_NOT_SUPPORTED),
    SAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    SAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    SAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    SAME(CUDA_ERROR_CAPTURED_EVENT),
    SAME(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
    SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    SAME(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    SAME(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
    SAME(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
    SAME(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES),
    SAME(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED),
    SAME(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID),
    SAME(CU_POINTER_ATTRIBUTE_BUFFER_ID),
    SAME(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    SAME(CU_POINTER_ATTRIBUTE_IS_MANAGED),
    SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    SAME(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
    SAME(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
    SAME(CU_MEM_ATTACH_GLOBAL),
    SAME(CU_MEM_ATTACH_HOST),
    SAME(CU_MEMHOSTALLOC_PORTABLE),
    SAME(CU_MEMHOSTALLOC_DEVICEMAP),
    SAME(CU_MEMHOSTALLOC_WRITECOMBINED),
    SAME(CU_MEMHOSTREGISTER_PORTABLE),
    SAME(CU_MEMHOSTREGISTER_DEVICEMAP),
    SAME(CU_STREAM_DEFAULT),
    SAME(CU_STREAM_NON_BLOCKING),
    SAME(CU_EVENT_DISABLE_TIMING),
    SAME(CU_MEM_ALLOCATION_TYPE_PINNED),
    SAME(CU_MEM_ALLOCATION_TYPE_MANAGED),
    SAME(CU_MEM_ADVISE_SET_PREFERRED_LOCATION),
    SAME(CU_DEVICE_CPU),
    SAME(CU_MEM_LOCATION_TYPE_DEVICE),
    SAME(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
    SAME(CU_MEM_HANDLE_TYPE_NONE),
    SAME(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
    SAME(CU_MEM_ALLOC_GRANULARITY_MINIMUM),
    SAME(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
    SAME(CU_MEM_HANDLE_TYPE_FABRIC),
    SAME(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD),
    SAME(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
    SAME(CU_MEM_ACCESS_FLAGS_PROT_NONE),
    SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
    SAME(CU_STREAM_CAPTURE_STATUS_NONE),
    SAME(CU_STREAM_CAPTURE_STATUS_ACTIVE),
    SAME(CU_STREAM_CAPTURE_STATUS_INVALIDATED),
    SAME(CU_STREAM_CAPTURE_MODE_GLOBAL),
    SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
    SAME(CU_STREAM_CAPTURE_MODE_RELAXED),
    SAME(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
    SAME(CU_GRAPH_USER_OBJECT_MOVE),
    SAME(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD),
    SAME(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
    SAME(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

TEST(constants_are_those_of_cuda_h)
{
    for (int i = 0; i < CONSTANTS; i++)
        if (constants[i].ours != constants[i].theirs)
            fail_msg("%s is %lld here and %lld in cuda.h", constants[i].name,
                     constants[i].ours, constants[i].theirs);
}

#define SAME_SIZE(ours, theirs)                        \
    do {                                               \
        CHECK_EQUAL(sizeof(theirs), sizeof(ours));     \
        CHECK_EQUAL(_Alignof(theirs), _Alignof(ours)); \
    } while (0)
#define SAME_FIELD(ours, theirs, field)                                        \
    do {                                                                       \
        CHECK_EQUAL(offsetof(theirs, field), offsetof(ours, field));           \
        CHECK_EQUAL(sizeof(((theirs *)0)->field), sizeof(((ours *)0)->field)); \
    } while (0)

TEST(types_have_the_sizes_of_cuda_h)
{
    SAME_SIZE(CUresult_, CUresult);
    SAME_SIZE(CUdevice_, CUdevice);
    SAME_SIZE(CUdeviceptr_, CUdeviceptr);
    SAME_SIZE(CUcontext_, CUcontext);
    SAME_SIZE(CUstream_, CUstream);
    SAME_SIZE(CUevent_, CUevent);
    SAME_SIZE(CUmemoryPool_, CUmemoryPool);
    SAME_SIZE(CUuuid_, CUuuid);
    SAME_SIZE(CUipcMemHandle_, CUipcMemHandle);
    SAME_SIZE(CUmemLocation_, CUmemLocation);
    SAME_SIZE(CUmemPoolProps_, CUmemPoolProps);
    SAME_SIZE(CUmemPoolPtrExportData_, CUmemPoolPtrExportData);
    SAME_SIZE(CUmemFabricHandle_, CUmemFabricHandle);
    SAME_SIZE(CUgraph_, CUgraph);
    SAME_SIZE(CUgraphNode_, CUgraphNode);
    SAME_SIZE(CUuserObject_, CUuserObject);
    SAME_SIZE(CUmemHandle_, CUmemGenericAllocationHandle);
    SAME_SIZE(CUhostFn_, CUhostFn);
    SAME_SIZE(CUstreamCaptureStatus_, CUstreamCaptureStatus);
    SAME_SIZE(CUstreamCaptureMode_, CUstreamCaptureMode);
    SAME_SIZE(CUmemAllocationGranularity_, CUmemAllocationGranularity_flags);
    SAME_SIZE(CUmemHandleType_, CUmemAllocationHandleType);
    SAME_SIZE(CUmemAllocationProp_, CUmemAllocationProp);
    SAME_SIZE(CUmemAccessDesc_, CUmemAccessDesc);
    SAME_SIZE(tarn_device_ptr, CUdeviceptr);
    SAME_SIZE(tarn_stream, CUstream);
    CHECK_EQUAL(sizeof(CUipcMemHandle), sizeof(((tarn_ipc_handle *)0)->reserved));
}

TEST(structs_have_the_fields_of_cuda_h)
{
    SAME_FIELD(CUmemLocation_, CUmemLocation, type);
    SAME_FIELD(CUmemLocation_, CUmemLocation, id);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, allocType);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, handleTypes);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, location);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, win32SecurityAttributes);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, maxSize);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, usage);
    SAME_FIELD(CUmemPoolProps_, CUmemPoolProps, reserved);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, type);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, requestedHandleTypes);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, location);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, win32HandleMetaData);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, allocFlags.compressionType);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp,
               allocFlags.gpuDirectRDMACapable);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, allocFlags.usage);
    SAME_FIELD(CUmemAllocationProp_, CUmemAllocationProp, allocFlags.reserved);
    SAME_FIELD(CUmemAccessDesc_, CUmemAccessDesc, location);
    SAME_FIELD(CUmemAccessDesc_, CUmemAccessDesc, flags);
}

static const struct constant *find_constant(const char *name, size_t length)
{
    for (int i = 0; i < CONSTANTS; i++)
        if (strlen(constants[i].name) == length &&
            memcmp(constants[i].name, name, length) == 0)
            return &constants[i];
    return NULL;
}

TEST(constants_of_the_header_are_all_compared)
{
    FILE *file = fopen(CUDA_ABI_FILE, "r");
    char line[256], name[128];
    int value, found = 0;

    CHECK(file != NULL);
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %127[A-Z0-9_a-z] = %d", name, &value) != 2)
            continue;
        const struct constant *constant = find_constant(name, strlen(name) - 1);
        if (!constant || constant->ours != value)
            fail_msg("%s of cuda_abi.h is compared with nothing", name);
        found++;
    }
    fclose(file);
    CHECK_EQUAL(CONSTANTS, found);
}
