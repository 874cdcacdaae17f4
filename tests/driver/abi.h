/* abi.h -- the types and constants of the CUDA driver API that the facts are about.
 *
 * Declared here, not included from Tarn or from cuda.h: the program is independent of the
 * simulator, and builds without a toolkit. The names are those of CUDA's manual.
 */
#ifndef FACTS_ABI_H
#define FACTS_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

typedef struct {
    unsigned char bytes[16];
} CUuuid;

typedef struct {
    char reserved[64];
} CUipcMemHandle;

typedef struct {
    char reserved[64];
} CUipcEventHandle;

typedef struct {
    int type;
    int id;
} CUmemLocation;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct {
    int allocType;
    int handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    unsigned char reserved[64];
} CUmemPoolPtrExportData;

typedef struct CUarray_st *CUarray;
typedef unsigned long long CUgraphConditionalHandle;

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct {
            CUgraphConditionalHandle handle;
            int type;
            unsigned int size;
            CUgraph *phGraph_out;
            CUcontext ctx;
        } conditional;
    };
    long long reserved2;
} CUgraphNodeParams;

typedef struct {
    size_t Width;
    size_t Height;
    size_t Depth;
    int Format;
    unsigned int NumChannels;
    unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

enum { /* CUresult: the codes that the facts use by name; result.c has the others */
       CUDA_SUCCESS = 0,
       CUDA_ERROR_INVALID_VALUE = 1,
       CUDA_ERROR_NOT_READY = 600
};

enum { /* default streams */
       STREAM_NULL = 0,
       STREAM_LEGACY = 1,
       STREAM_PER_THREAD = 2
};
#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)STREAM_LEGACY)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)STREAM_PER_THREAD)

enum { /* flags of streams and events */
       CU_STREAM_DEFAULT = 0,
       CU_STREAM_NON_BLOCKING = 1,
       CU_EVENT_DEFAULT = 0,
       CU_EVENT_BLOCKING_SYNC = 1,
       CU_EVENT_DISABLE_TIMING = 2,
       CU_EVENT_INTERPROCESS = 4,
       CU_EVENT_RECORD_EXTERNAL = 1,
       CU_EVENT_WAIT_EXTERNAL = 1
};

enum { /* CUstreamCaptureMode, CUstreamCaptureStatus */
       CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
       CU_STREAM_CAPTURE_MODE_RELAXED = 2,
       CU_STREAM_CAPTURE_STATUS_NONE = 0,
       CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
       CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};

enum { /* host memory, managed memory */
       CU_MEMHOSTALLOC_PORTABLE = 1,
       CU_MEMHOSTALLOC_DEVICEMAP = 2,
       CU_MEMHOSTALLOC_WRITECOMBINED = 4,
       CU_MEMHOSTREGISTER_PORTABLE = 1,
       CU_MEMHOSTREGISTER_DEVICEMAP = 2,
       CU_MEMHOSTREGISTER_READ_ONLY = 8,
       CU_MEM_ATTACH_GLOBAL = 1,
       CU_MEM_ATTACH_HOST = 2,
       CU_MEM_ATTACH_SINGLE = 4,
       CU_DEVICE_CPU = -1,
       CU_DEVICE_INVALID = -2
};

enum { /* CUmem_advise, CUmem_range_attribute */
       CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
       CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
       CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
       CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
       CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
       CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
       CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
       CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
       CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
       CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4
};

enum { /* VMM and pools */
       CU_MEM_LOCATION_TYPE_DEVICE = 1,
       CU_MEM_LOCATION_TYPE_HOST = 2,
       CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
       CU_MEM_ALLOCATION_TYPE_PINNED = 1,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
       CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
       CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
       CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
       CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
       CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
       CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
       CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
       CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
       CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
       CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
       CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1
};

enum { /* CUpointer_attribute, CUmemorytype */
       CU_POINTER_ATTRIBUTE_CONTEXT = 1,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
       CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
       CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
       CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
       CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
       CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
       CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
       CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
       CU_POINTER_ATTRIBUTE_MAPPED = 13,
       CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
       CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
       CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
       CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
       CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
       CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
       CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
       CU_MEMORYTYPE_HOST = 1,
       CU_MEMORYTYPE_DEVICE = 2,
       CU_MEMORYTYPE_UNIFIED = 4
};

enum { /* CUgraphNodeType */
       CU_GRAPH_NODE_TYPE_MEMCPY = 1,
       CU_GRAPH_NODE_TYPE_MEMSET = 2,
       CU_GRAPH_NODE_TYPE_HOST = 3,
       CU_GRAPH_NODE_TYPE_EMPTY = 5,
       CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
       CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
       CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
       CU_GRAPH_NODE_TYPE_MEM_FREE = 11
};

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

#endif
