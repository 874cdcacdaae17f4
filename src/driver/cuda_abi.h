/* cuda_abi.h -- the few types and constants of the CUDA driver API that Tarn uses.
 *
 * They are the ABI of libcuda.so.1, stable since the versions named in calls.h. With them
 * the build needs no toolkit. tests/abi compares each with cuda.h where one is found. A
 * name is CUDA's own with an underscore at the end: CUevent_ is CUDA's CUevent. Comments
 * name the exceptions.
 */
#ifndef TARN_DRIVER_CUDA_ABI_H
#define TARN_DRIVER_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult_; /* CUresult is an enum there; an int here, for unknown codes */
typedef int CUdevice_;
typedef unsigned long long CUdeviceptr_;
typedef struct CUctx_st *CUcontext_;
typedef struct CUstream_st *CUstream_;
typedef struct CUevent_st *CUevent_;
typedef struct CUmemPoolHandle_st *CUmemoryPool_;
typedef struct CUgraph_st *CUgraph_;
typedef struct CUgraphNode_st *CUgraphNode_;
typedef struct CUuserObject_st *CUuserObject_;
typedef unsigned long long CUmemHandle_; /* CUmemGenericAllocationHandle */
typedef void (*CUhostFn_)(void *data);

/* Enums there; ints here, for unknown numbers. */
typedef int CUstreamCaptureStatus_;
typedef int CUstreamCaptureMode_;
typedef int CUmemAllocationGranularity_; /* CUmemAllocationGranularity_flags */
typedef int CUmemHandleType_;            /* CUmemAllocationHandleType */
typedef int CUmemRangeHandleType_;       /* CUmemRangeHandleType */
typedef int CUpointerAttribute_;         /* CUpointer_attribute */
typedef int CUmemAccess_;                /* CUmemAccess_flags */

typedef struct {
    char bytes[16];
} CUuuid_;

typedef struct {
    char reserved[64];
} CUipcMemHandle_;

typedef struct {
    unsigned char reserved[64];
} CUmemPoolPtrExportData_;

typedef struct {
    unsigned char data[64];
} CUmemFabricHandle_;

typedef struct {
    int type; /* CUmemLocationType */
    int id;
} CUmemLocation_;

typedef struct {
    int allocType;   /* CUmemAllocationType */
    int handleTypes; /* CUmemAllocationHandleType */
    CUmemLocation_ location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps_;

typedef struct {
    int type;                 /* CUmemAllocationType */
    int requestedHandleTypes; /* CUmemAllocationHandleType */
    CUmemLocation_ location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp_;

typedef struct {
    CUmemLocation_ location;
    int flags; /* CUmemAccess_flags */
} CUmemAccessDesc_;

enum { /* CUresult */
       CUDA_SUCCESS_ = 0,
       CUDA_ERROR_INVALID_VALUE_ = 1,
       CUDA_ERROR_OUT_OF_MEMORY_ = 2,
       CUDA_ERROR_NOT_INITIALIZED_ = 3,
       CUDA_ERROR_DEINITIALIZED_ = 4,
       CUDA_ERROR_NO_DEVICE_ = 100,
       CUDA_ERROR_INVALID_DEVICE_ = 101,
       CUDA_ERROR_INVALID_CONTEXT_ = 201,
       CUDA_ERROR_MAP_FAILED_ = 205,
       CUDA_ERROR_INVALID_HANDLE_ = 400,
       CUDA_ERROR_NOT_READY_ = 600,
       CUDA_ERROR_CONTEXT_IS_DESTROYED_ = 709,
       CUDA_ERROR_NOT_PERMITTED_ = 800,
       CUDA_ERROR_NOT_SUPPORTED_ = 801,
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED_ = 900,
       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED_ = 901,
       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT_ = 906,
       CUDA_ERROR_CAPTURED_EVENT_ = 907
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY_ = 19,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR_ = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR_ = 76,
       CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY_ = 83,
       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_ = 88,
       CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS_ = 89,
       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED_ = 102,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED_ = 103,
       CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED_ = 110,
       CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED_ = 115,
       CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES_ = 119,
       CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED_ = 124,
       CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED_ = 125,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED_ = 128,
       CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID_ = 134
};

enum { /* CUpointer_attribute */
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE_ = 2,
       CU_POINTER_ATTRIBUTE_BUFFER_ID_ = 7,
       CU_POINTER_ATTRIBUTE_IS_MANAGED_ = 8,
       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL_ = 9,
       CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE_ = 10,
       CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE_ = 17
};

enum { /* flags of single calls */
       CU_MEM_ATTACH_GLOBAL_ = 1,
       CU_MEM_ATTACH_HOST_ = 2,
       CU_MEMHOSTALLOC_PORTABLE_ = 1,
       CU_MEMHOSTALLOC_DEVICEMAP_ = 2,
       CU_MEMHOSTALLOC_WRITECOMBINED_ = 4,
       CU_MEMHOSTREGISTER_PORTABLE_ = 1,
       CU_MEMHOSTREGISTER_DEVICEMAP_ = 2,
       CU_STREAM_DEFAULT_ = 0,
       CU_STREAM_NON_BLOCKING_ = 1,
       CU_EVENT_DISABLE_TIMING_ = 2,
       CU_MEM_ALLOCATION_TYPE_PINNED_ = 1,
       CU_MEM_ALLOCATION_TYPE_MANAGED_ = 2,
       CU_MEM_ADVISE_SET_PREFERRED_LOCATION_ = 3,
       CU_DEVICE_CPU_ = -1,
       CU_MEM_LOCATION_TYPE_DEVICE_ = 1,
       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS_ = 1,
       CU_MEM_HANDLE_TYPE_NONE_ = 0,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_ = 1,
       CU_MEM_HANDLE_TYPE_FABRIC_ = 8,
       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD_ = 1,
       CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE_ = 1,
       CU_MEM_ALLOC_GRANULARITY_MINIMUM_ = 0,
       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED_ = 1,
       CU_MEM_ACCESS_FLAGS_PROT_NONE_ = 0,
       CU_MEM_ACCESS_FLAGS_PROT_READWRITE_ = 3,
       CU_STREAM_CAPTURE_STATUS_NONE_ = 0,
       CU_STREAM_CAPTURE_STATUS_ACTIVE_ = 1,
       CU_STREAM_CAPTURE_STATUS_INVALIDATED_ = 2,
       CU_STREAM_CAPTURE_MODE_GLOBAL_ = 0,
       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL_ = 1,
       CU_STREAM_CAPTURE_MODE_RELAXED_ = 2,
       CU_USER_OBJECT_NO_DESTRUCTOR_SYNC_ = 1,
       CU_GRAPH_USER_OBJECT_MOVE_ = 1,
       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD_ = 4,
       CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT_ = 5,
       CU_MEMPOOL_ATTR_USED_MEM_CURRENT_ = 7
};

#endif
