/* calls.h -- every driver call of the simulator: one line each.
 *
 * X(name, version, symbol, parameters): cuGetProcAddress(name, v) returns the symbol of
 * the highest version that is at most v. Z is the same for calls that take a stream or
 * use the default stream. They have a second symbol for which stream 0 is the per-thread
 * stream, generated from the given arguments. A call without a line does not exist.
 * unsupported.h has the calls that only return CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef TARN_SIM_CALLS_H
#define TARN_SIM_CALLS_H

/* clang-format off */
#define SIM_CALLS(X, Z) \
    /* errors, versions, finding calls */ \
    X(cuGetErrorString, 6000, cuGetErrorString, (CUresult, const char **)) \
    X(cuGetErrorName, 6000, cuGetErrorName, (CUresult, const char **)) \
    X(cuInit, 2000, cuInit, (unsigned int)) \
    X(cuDriverGetVersion, 2020, cuDriverGetVersion, (int *)) \
    X(cuGetProcAddress, 11030, cuGetProcAddress, (const char *, void **, int, uint64_t)) \
    X(cuGetProcAddress, 12000, cuGetProcAddress_v2, (const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *)) \
    X(cuGetExportTable, 3000, cuGetExportTable, (const void **, const CUuuid *)) \
    X(cuProfilerStart, 4000, cuProfilerStart, (void)) \
    X(cuProfilerStop, 4000, cuProfilerStop, (void)) \
    X(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode, (CUmoduleLoadingMode *)) \
    /* devices */ \
    X(cuDeviceGet, 2000, cuDeviceGet, (CUdevice *, int)) \
    X(cuDeviceGetCount, 2000, cuDeviceGetCount, (int *)) \
    X(cuDeviceGetName, 2000, cuDeviceGetName, (char *, int, CUdevice)) \
    X(cuDeviceGetUuid, 9020, cuDeviceGetUuid, (CUuuid *, CUdevice)) \
    X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2, (CUuuid *, CUdevice)) \
    X(cuDeviceGetLuid, 10000, cuDeviceGetLuid, (char *, unsigned int *, CUdevice)) \
    X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
    X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice)) \
    X(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability, (int *, int *, CUdevice)) \
    X(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId, (CUdevice *, const char *)) \
    X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
    X(cuDeviceGetExecAffinitySupport, 11040, cuDeviceGetExecAffinitySupport, (int *, int, CUdevice)) \
    /* contexts */ \
    X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
    X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned int)) \
    X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *)) \
    X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2, (CUdevice)) \
    X(cuCtxCreate, 3020, cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice)) \
    X(cuCtxCreate, 11040, cuCtxCreate_v3, (CUcontext *, void *, int, unsigned int, CUdevice)) \
    X(cuCtxCreate, 12050, cuCtxCreate_v4, (CUcontext *, void *, unsigned int, CUdevice)) \
    X(cuCtxGetId, 12000, cuCtxGetId, (CUcontext, unsigned long long *)) \
    X(cuCtxDestroy, 4000, cuCtxDestroy_v2, (CUcontext)) \
    X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2, (CUcontext)) \
    X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2, (CUcontext *)) \
    X(cuCtxSetCurrent, 4000, cuCtxSetCurrent, (CUcontext)) \
    X(cuCtxGetCurrent, 4000, cuCtxGetCurrent, (CUcontext *)) \
    X(cuCtxGetDevice, 2000, cuCtxGetDevice, (CUdevice *)) \
    X(cuCtxGetDevice, 13000, cuCtxGetDevice_v2, (CUdevice *, CUcontext)) \
    X(cuCtxGetFlags, 7000, cuCtxGetFlags, (unsigned int *)) \
    X(cuCtxSetFlags, 12010, cuCtxSetFlags, (unsigned int)) \
    X(cuCtxSynchronize, 2000, cuCtxSynchronize, (void)) \
    X(cuCtxSynchronize, 13000, cuCtxSynchronize_v2, (CUcontext)) \
    X(cuCtxSetLimit, 3010, cuCtxSetLimit, (CUlimit, size_t)) \
    X(cuCtxGetLimit, 3010, cuCtxGetLimit, (size_t *, CUlimit)) \
    X(cuCtxGetCacheConfig, 3020, cuCtxGetCacheConfig, (CUfunc_cache *)) \
    X(cuCtxSetCacheConfig, 3020, cuCtxSetCacheConfig, (CUfunc_cache)) \
    X(cuCtxGetSharedMemConfig, 4020, cuCtxGetSharedMemConfig, (CUsharedconfig *)) \
    X(cuCtxSetSharedMemConfig, 4020, cuCtxSetSharedMemConfig, (CUsharedconfig)) \
    X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion, (CUcontext, unsigned int *)) \
    X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange, (int *, int *)) \
    X(cuCtxResetPersistingL2Cache, 11000, cuCtxResetPersistingL2Cache, (void)) \
    X(cuCtxGetExecAffinity, 11040, cuCtxGetExecAffinity, (void *, int)) \
    X(cuCtxRecordEvent, 12050, cuCtxRecordEvent, (CUcontext, CUevent)) \
    X(cuCtxWaitEvent, 12050, cuCtxWaitEvent, (CUcontext, CUevent)) \
    /* peers */ \
    X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
    X(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess, (CUcontext, unsigned int)) \
    X(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess, (CUcontext)) \
    X(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute, (int *, CUdevice_P2PAttribute, CUdevice, CUdevice)) \
    /* memory */ \
    X(cuMemGetInfo, 3020, cuMemGetInfo_v2, (size_t *, size_t *)) \
    X(cuMemAlloc, 3020, cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int)) \
    X(cuMemFree, 3020, cuMemFree_v2, (CUdeviceptr)) \
    X(cuMemAllocManaged, 6000, cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int)) \
    X(cuMemAllocHost, 3020, cuMemAllocHost_v2, (void **, size_t)) \
    X(cuMemFreeHost, 2000, cuMemFreeHost, (void *)) \
    X(cuMemHostAlloc, 2020, cuMemHostAlloc, (void **, size_t, unsigned int)) \
    X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int)) \
    X(cuMemHostGetFlags, 2030, cuMemHostGetFlags, (unsigned int *, void *)) \
    X(cuMemHostRegister, 6050, cuMemHostRegister_v2, (void *, size_t, unsigned int)) \
    X(cuMemHostUnregister, 4000, cuMemHostUnregister, (void *)) \
    Z(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, (CUdeviceptr a, size_t b, CUdevice c, CUstream d), (a, b, c, d)) \
    Z(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, (CUdeviceptr a, size_t b, CUmemLocation c, unsigned int d, CUstream e), (a, b, c, d, e)) \
    Z(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, (CUdeviceptr *a, size_t *b, size_t c, CUmemLocation *d, size_t *e, size_t f, unsigned long long g, CUstream h), (a, b, c, d, e, f, g, h)) \
    Z(cuMemDiscardBatchAsync, 13000, cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, (CUdeviceptr *a, size_t *b, size_t c, unsigned long long d, CUstream e), (a, b, c, d, e)) \
    Z(cuMemDiscardAndPrefetchBatchAsync, 13000, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz, (CUdeviceptr *a, size_t *b, size_t c, CUmemLocation *d, size_t *e, size_t f, unsigned long long g, CUstream h), (a, b, c, d, e, f, g, h)) \
    X(cuMemAdvise, 8000, cuMemAdvise, (CUdeviceptr, size_t, CUmem_advise, CUdevice)) \
    X(cuMemAdvise, 12020, cuMemAdvise_v2, (CUdeviceptr, size_t, CUmem_advise, CUmemLocation)) \
    X(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute, (void *, size_t, CUmem_range_attribute, CUdeviceptr, size_t)) \
    X(cuMemRangeGetAttributes, 8000, cuMemRangeGetAttributes, (void **, size_t *, CUmem_range_attribute *, size_t, CUdeviceptr, size_t)) \
    /* pointers */ \
    X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr)) \
    X(cuPointerGetAttribute, 4000, cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr)) \
    X(cuPointerGetAttributes, 7000, cuPointerGetAttributes, (unsigned int, CUpointer_attribute *, void **, CUdeviceptr)) \
    X(cuPointerSetAttribute, 6000, cuPointerSetAttribute, (const void *, CUpointer_attribute, CUdeviceptr)) \
    /* legacy IPC */ \
    X(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr)) \
    X(cuIpcOpenMemHandle, 4010, cuIpcOpenMemHandle, (CUdeviceptr *, CUipcMemHandle, unsigned int)) \
    X(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned int)) \
    X(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle, (CUdeviceptr)) \
    X(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle, (CUipcEventHandle *, CUevent)) \
    X(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle, (CUevent *, CUipcEventHandle)) \
    /* pools */ \
    Z(cuMemAllocAsync, 11020, cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr *a, size_t b, CUstream c), (a, b, c)) \
    Z(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *a, size_t b, CUmemoryPool c, CUstream d), (a, b, c, d)) \
    Z(cuMemFreeAsync, 11020, cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr a, CUstream b), (a, b)) \
    X(cuMemPoolCreate, 11020, cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *)) \
    X(cuMemPoolDestroy, 11020, cuMemPoolDestroy, (CUmemoryPool)) \
    X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo, (CUmemoryPool, size_t)) \
    X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void *)) \
    X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void *)) \
    X(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t)) \
    X(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess, (CUmemAccess_flags *, CUmemoryPool, CUmemLocation *)) \
    X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice)) \
    X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool, (CUmemoryPool *, CUdevice)) \
    X(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool, (CUdevice, CUmemoryPool)) \
    X(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool, (CUmemoryPool *, CUmemLocation *, int)) \
    X(cuMemGetMemPool, 13000, cuMemGetMemPool, (CUmemoryPool *, CUmemLocation *, int)) \
    X(cuMemSetMemPool, 13000, cuMemSetMemPool, (CUmemLocation *, int, CUmemoryPool)) \
    X(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle, (void *, CUmemoryPool, CUmemAllocationHandleType, unsigned long long)) \
    X(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle, (CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long)) \
    X(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer, (CUmemPoolPtrExportData *, CUdeviceptr)) \
    X(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *)) \
    /* virtual memory */ \
    X(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)) \
    X(cuMemAddressReserve, 10020, cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    X(cuMemAddressFree, 10020, cuMemAddressFree, (CUdeviceptr, size_t)) \
    X(cuMemCreate, 10020, cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
    X(cuMemRelease, 10020, cuMemRelease, (CUmemGenericAllocationHandle)) \
    X(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *)) \
    X(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *, CUmemGenericAllocationHandle)) \
    X(cuMemMap, 10020, cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
    X(cuMemUnmap, 10020, cuMemUnmap, (CUdeviceptr, size_t)) \
    X(cuMemSetAccess, 10020, cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
    X(cuMemGetAccess, 10020, cuMemGetAccess, (unsigned long long *, const CUmemLocation *, CUdeviceptr)) \
    X(cuMemGetHandleForAddressRange, 11070, cuMemGetHandleForAddressRange, (void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long)) \
    X(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle, (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long)) \
    X(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType)) \
    /* copies */ \
    Z(cuMemcpy, 4000, cuMemcpy, cuMemcpy_ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c)) \
    Z(cuMemcpyAsync, 4000, cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemcpyPeer, 4000, cuMemcpyPeer, cuMemcpyPeer_ptds, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e), (a, b, c, d, e)) \
    Z(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f), (a, b, c, d, e, f)) \
    Z(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr a, const void *b, size_t c), (a, b, c)) \
    Z(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *a, CUdeviceptr b, size_t c), (a, b, c)) \
    Z(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c)) \
    Z(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr a, const void *b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, (void *a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemcpy2D, 3020, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *a), (a)) \
    Z(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *a), (a)) \
    Z(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *a, CUstream b), (a, b)) \
    Z(cuMemcpy3D, 3020, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *a), (a)) \
    Z(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *a, CUstream b), (a, b)) \
    Z(cuMemcpy3DPeer, 4000, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *a), (a)) \
    Z(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *a, CUstream b), (a, b)) \
    /* arrays, textures, surfaces, tensor maps */ \
    X(cuArrayCreate, 3020, cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *)) \
    X(cuArray3DCreate, 3020, cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *)) \
    X(cuArrayGetDescriptor, 3020, cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *, CUarray)) \
    X(cuArray3DGetDescriptor, 3020, cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *, CUarray)) \
    X(cuArrayDestroy, 2000, cuArrayDestroy, (CUarray)) \
    X(cuMipmappedArrayCreate, 5000, cuMipmappedArrayCreate, (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int)) \
    X(cuMipmappedArrayGetLevel, 5000, cuMipmappedArrayGetLevel, (CUarray *, CUmipmappedArray, unsigned int)) \
    X(cuMipmappedArrayDestroy, 5000, cuMipmappedArrayDestroy, (CUmipmappedArray)) \
    X(cuTexObjectCreate, 5000, cuTexObjectCreate, (CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *, const CUDA_RESOURCE_VIEW_DESC *)) \
    X(cuTexObjectDestroy, 5000, cuTexObjectDestroy, (CUtexObject)) \
    X(cuTexObjectGetResourceDesc, 5000, cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUtexObject)) \
    X(cuTexObjectGetTextureDesc, 5000, cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC *, CUtexObject)) \
    X(cuTexObjectGetResourceViewDesc, 5000, cuTexObjectGetResourceViewDesc, (CUDA_RESOURCE_VIEW_DESC *, CUtexObject)) \
    X(cuSurfObjectCreate, 5000, cuSurfObjectCreate, (CUsurfObject *, const CUDA_RESOURCE_DESC *)) \
    X(cuSurfObjectDestroy, 5000, cuSurfObjectDestroy, (CUsurfObject)) \
    X(cuSurfObjectGetResourceDesc, 5000, cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUsurfObject)) \
    X(cuTensorMapEncodeTiled, 12000, cuTensorMapEncodeTiled, (CUtensorMap *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int)) \
    X(cuTensorMapEncodeIm2col, 12000, cuTensorMapEncodeIm2col, (CUtensorMap *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const int *, const int *, uint32_t, uint32_t, const uint32_t *, int, int, int, int)) \
    X(cuTensorMapReplaceAddress, 12000, cuTensorMapReplaceAddress, (CUtensorMap *, void *)) \
    Z(cuMemcpyAtoH, 3020, cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *a, CUarray b, size_t c, size_t d), (a, b, c, d)) \
    Z(cuMemcpyHtoA, 3020, cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, (CUarray a, size_t b, const void *c, size_t d), (a, b, c, d)) \
    Z(cuMemcpyAtoD, 3020, cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, (CUdeviceptr a, CUarray b, size_t c, size_t d), (a, b, c, d)) \
    Z(cuMemcpyDtoA, 3020, cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, (CUarray a, size_t b, CUdeviceptr c, size_t d), (a, b, c, d)) \
    Z(cuMemcpyAtoA, 3020, cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds, (CUarray a, size_t b, CUarray c, size_t d, size_t e), (a, b, c, d, e)) \
    Z(cuMemcpyAtoHAsync, 3020, cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz, (void *a, CUarray b, size_t c, size_t d, CUstream e), (a, b, c, d, e)) \
    Z(cuMemcpyHtoAAsync, 3020, cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz, (CUarray a, size_t b, const void *c, size_t d, CUstream e), (a, b, c, d, e)) \
    /* fills */ \
    Z(cuMemsetD8, 3020, cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr a, unsigned char b, size_t c), (a, b, c)) \
    Z(cuMemsetD16, 3020, cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr a, unsigned short b, size_t c), (a, b, c)) \
    Z(cuMemsetD32, 3020, cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr a, unsigned int b, size_t c), (a, b, c)) \
    Z(cuMemsetD2D8, 3020, cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e), (a, b, c, d, e)) \
    Z(cuMemsetD2D16, 3020, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e), (a, b, c, d, e)) \
    Z(cuMemsetD2D32, 3020, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e), (a, b, c, d, e)) \
    Z(cuMemsetD8Async, 3020, cuMemsetD8Async, cuMemsetD8Async_ptsz, (CUdeviceptr a, unsigned char b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemsetD16Async, 3020, cuMemsetD16Async, cuMemsetD16Async_ptsz, (CUdeviceptr a, unsigned short b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemsetD32Async, 3020, cuMemsetD32Async, cuMemsetD32Async_ptsz, (CUdeviceptr a, unsigned int b, size_t c, CUstream d), (a, b, c, d)) \
    Z(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f)) \
    Z(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f)) \
    Z(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f)) \
    /* streams */ \
    X(cuStreamCreate, 2000, cuStreamCreate, (CUstream *, unsigned int)) \
    X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority, (CUstream *, unsigned int, int)) \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2, (CUstream)) \
    Z(cuStreamQuery, 2000, cuStreamQuery, cuStreamQuery_ptsz, (CUstream a), (a)) \
    Z(cuStreamSynchronize, 2000, cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream a), (a)) \
    Z(cuStreamWaitEvent, 3020, cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream a, CUevent b, unsigned int c), (a, b, c)) \
    Z(cuStreamGetId, 12000, cuStreamGetId, cuStreamGetId_ptsz, (CUstream a, unsigned long long *b), (a, b)) \
    Z(cuStreamGetCtx, 9020, cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream a, CUcontext *b), (a, b)) \
    Z(cuStreamGetCtx, 12050, cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz, (CUstream a, CUcontext *b, CUgreenCtx *c), (a, b, c)) \
    Z(cuStreamGetDevice, 12080, cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream a, CUdevice *b), (a, b)) \
    Z(cuStreamGetFlags, 5050, cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream a, unsigned int *b), (a, b)) \
    Z(cuStreamGetPriority, 5050, cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream a, int *b), (a, b)) \
    Z(cuStreamAddCallback, 5000, cuStreamAddCallback, cuStreamAddCallback_ptsz, (CUstream a, CUstreamCallback b, void *c, unsigned int d), (a, b, c, d)) \
    Z(cuLaunchHostFunc, 10000, cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream a, CUhostFn b, void *c), (a, b, c)) \
    Z(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz, (CUstream a, CUdeviceptr b, size_t c, unsigned int d), (a, b, c, d)) \
    Z(cuStreamIsCapturing, 10000, cuStreamIsCapturing, cuStreamIsCapturing_ptsz, (CUstream a, CUstreamCaptureStatus *b), (a, b)) \
    Z(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz, (CUstream a, CUstreamCaptureStatus *b, uint64_t *c), (a, b, c)) \
    Z(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz, (CUstream a, CUstreamCaptureStatus *b, uint64_t *c, CUgraph *d, const CUgraphNode **e, size_t *f), (a, b, c, d, e, f)) \
    Z(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz, (CUstream a, CUstreamCaptureStatus *b, uint64_t *c, CUgraph *d, const CUgraphNode **e, const CUgraphEdgeData **f, size_t *g), (a, b, c, d, e, f, g)) \
    Z(cuStreamBeginCapture, 10000, cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream a), (a)) \
    Z(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream a, CUstreamCaptureMode b), (a, b)) \
    Z(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, (CUstream a, CUgraph b, const CUgraphNode *c, const CUgraphEdgeData *d, size_t e, CUstreamCaptureMode f), (a, b, c, d, e, f)) \
    Z(cuStreamEndCapture, 10000, cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream a, CUgraph *b), (a, b)) \
    Z(cuStreamUpdateCaptureDependencies, 11030, cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz, (CUstream a, CUgraphNode *b, size_t c, unsigned int d), (a, b, c, d)) \
    Z(cuStreamUpdateCaptureDependencies, 12030, cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz, (CUstream a, CUgraphNode *b, const CUgraphEdgeData *c, size_t d, unsigned int e), (a, b, c, d, e)) \
    X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *)) \
    Z(cuStreamGetAttribute, 11000, cuStreamGetAttribute, cuStreamGetAttribute_ptsz, (CUstream a, int b, void *c), (a, b, c)) \
    Z(cuStreamSetAttribute, 11000, cuStreamSetAttribute, cuStreamSetAttribute_ptsz, (CUstream a, int b, const void *c), (a, b, c)) \
    Z(cuStreamCopyAttributes, 11000, cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz, (CUstream a, CUstream b), (a, b)) \
    /* events */ \
    X(cuEventCreate, 2000, cuEventCreate, (CUevent *, unsigned int)) \
    X(cuEventDestroy, 4000, cuEventDestroy_v2, (CUevent)) \
    Z(cuEventRecord, 2000, cuEventRecord, cuEventRecord_ptsz, (CUevent a, CUstream b), (a, b)) \
    Z(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, (CUevent a, CUstream b, unsigned int c), (a, b, c)) \
    X(cuEventQuery, 2000, cuEventQuery, (CUevent)) \
    X(cuEventSynchronize, 2000, cuEventSynchronize, (CUevent)) \
    X(cuEventElapsedTime, 2000, cuEventElapsedTime, (float *, CUevent, CUevent)) \
    X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2, (float *, CUevent, CUevent)) \
    /* modules */ \
    X(cuModuleLoad, 2000, cuModuleLoad, (CUmodule *, const char *)) \
    X(cuModuleLoadData, 2000, cuModuleLoadData, (CUmodule *, const void *)) \
    X(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned int, CUjit_option *, void **)) \
    X(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary, (CUmodule *, const void *)) \
    X(cuModuleUnload, 2000, cuModuleUnload, (CUmodule)) \
    X(cuModuleGetFunction, 2000, cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
    X(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *)) \
    X(cuModuleGetFunctionCount, 12040, cuModuleGetFunctionCount, (unsigned int *, CUmodule)) \
    X(cuLibraryLoadData, 12000, cuLibraryLoadData, (CUlibrary *, const void *, CUjit_option *, void **, unsigned int, int *, void **, unsigned int)) \
    X(cuLibraryLoadFromFile, 12000, cuLibraryLoadFromFile, (CUlibrary *, const char *, CUjit_option *, void **, unsigned int, int *, void **, unsigned int)) \
    X(cuLibraryUnload, 12000, cuLibraryUnload, (CUlibrary)) \
    X(cuLibraryGetKernel, 12000, cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *)) \
    X(cuLibraryGetModule, 12000, cuLibraryGetModule, (CUmodule *, CUlibrary)) \
    X(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount, (unsigned int *, CUlibrary)) \
    X(cuLibraryGetGlobal, 12000, cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
    X(cuLibraryGetManaged, 12000, cuLibraryGetManaged, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
    X(cuKernelGetFunction, 12000, cuKernelGetFunction, (CUfunction *, CUkernel)) \
    X(cuKernelGetLibrary, 12050, cuKernelGetLibrary, (CUlibrary *, CUkernel)) \
    X(cuKernelGetName, 12030, cuKernelGetName, (const char **, CUkernel)) \
    X(cuKernelGetAttribute, 12000, cuKernelGetAttribute, (int *, CUfunction_attribute, CUkernel, CUdevice)) \
    X(cuKernelSetAttribute, 12000, cuKernelSetAttribute, (CUfunction_attribute, int, CUkernel, CUdevice)) \
    X(cuKernelSetCacheConfig, 12000, cuKernelSetCacheConfig, (CUkernel, CUfunc_cache, CUdevice)) \
    X(cuFuncGetAttribute, 2020, cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction)) \
    X(cuFuncSetAttribute, 9000, cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int)) \
    X(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig, (CUfunction, CUfunc_cache)) \
    X(cuFuncSetSharedMemConfig, 4020, cuFuncSetSharedMemConfig, (CUfunction, CUsharedconfig)) \
    X(cuFuncGetModule, 11000, cuFuncGetModule, (CUmodule *, CUfunction)) \
    X(cuFuncGetName, 12030, cuFuncGetName, (const char **, CUfunction)) \
    X(cuFuncIsLoaded, 12040, cuFuncIsLoaded, (CUfunctionLoadingState *, CUfunction)) \
    X(cuFuncLoad, 12040, cuFuncLoad, (CUfunction)) \
    X(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo, (CUfunction, size_t, size_t *, size_t *)) \
    X(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo, (CUkernel, size_t, size_t *, size_t *)) \
    X(cuLinkCreate, 6050, cuLinkCreate_v2, (unsigned int, CUjit_option *, void **, CUlinkState *)) \
    X(cuLinkAddData, 6050, cuLinkAddData_v2, (CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned int, CUjit_option *, void **)) \
    X(cuLinkAddFile, 6050, cuLinkAddFile_v2, (CUlinkState, CUjitInputType, const char *, unsigned int, CUjit_option *, void **)) \
    X(cuLinkComplete, 5050, cuLinkComplete, (CUlinkState, void **, size_t *)) \
    X(cuLinkDestroy, 5050, cuLinkDestroy, (CUlinkState)) \
    /* graphs */ \
    X(cuGraphCreate, 10000, cuGraphCreate, (CUgraph *, unsigned int)) \
    X(cuGraphDestroy, 10000, cuGraphDestroy, (CUgraph)) \
    X(cuGraphClone, 10000, cuGraphClone, (CUgraph *, CUgraph)) \
    X(cuGraphNodeFindInClone, 10000, cuGraphNodeFindInClone, (CUgraphNode *, CUgraphNode, CUgraph)) \
    X(cuGraphNodeGetType, 10000, cuGraphNodeGetType, (CUgraphNode, int *)) \
    X(cuGraphGetNodes, 10000, cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *)) \
    X(cuGraphGetRootNodes, 10000, cuGraphGetRootNodes, (CUgraph, CUgraphNode *, size_t *)) \
    X(cuGraphGetEdges, 10000, cuGraphGetEdges, (CUgraph, CUgraphNode *, CUgraphNode *, size_t *)) \
    X(cuGraphGetEdges, 12030, cuGraphGetEdges_v2, (CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
    X(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies, (CUgraphNode, CUgraphNode *, size_t *)) \
    X(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
    X(cuGraphNodeGetDependentNodes, 10000, cuGraphNodeGetDependentNodes, (CUgraphNode, CUgraphNode *, size_t *)) \
    X(cuGraphNodeGetDependentNodes, 12030, cuGraphNodeGetDependentNodes_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
    X(cuGraphAddDependencies, 10000, cuGraphAddDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
    X(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2, (CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t)) \
    X(cuGraphRemoveDependencies, 10000, cuGraphRemoveDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
    X(cuGraphRemoveDependencies, 12030, cuGraphRemoveDependencies_v2, (CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t)) \
    X(cuGraphDestroyNode, 10000, cuGraphDestroyNode, (CUgraphNode)) \
    X(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint, (CUgraph, const char *, unsigned int)) \
    X(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t)) \
    X(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMCPY3D *, CUcontext)) \
    X(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
    X(cuGraphAddHostNode, 10000, cuGraphAddHostNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_HOST_NODE_PARAMS *)) \
    X(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)) \
    X(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
    X(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
    X(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
    X(cuGraphAddMemFreeNode, 11040, cuGraphAddMemFreeNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr)) \
    X(cuGraphAddNode, 12020, cuGraphAddNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *)) \
    X(cuGraphAddNode, 12030, cuGraphAddNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUgraphNodeParams *)) \
    X(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams, (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *)) \
    X(cuGraphMemsetNodeSetParams, 10000, cuGraphMemsetNodeSetParams, (CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *)) \
    X(cuGraphMemcpyNodeSetParams, 10000, cuGraphMemcpyNodeSetParams, (CUgraphNode, const CUDA_MEMCPY3D *)) \
    X(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams, (CUgraphNode, CUDA_HOST_NODE_PARAMS *)) \
    X(cuGraphHostNodeSetParams, 10000, cuGraphHostNodeSetParams, (CUgraphNode, const CUDA_HOST_NODE_PARAMS *)) \
    X(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph *)) \
    X(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent, (CUgraphNode, CUevent *)) \
    X(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent, (CUgraphNode, CUevent *)) \
    X(cuGraphAddKernelNode, 10000, cuGraphAddKernelNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *)) \
    X(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *)) \
    X(cuGraphKernelNodeGetParams, 10000, cuGraphKernelNodeGetParams, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *)) \
    X(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *)) \
    X(cuGraphKernelNodeSetParams, 10000, cuGraphKernelNodeSetParams, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)) \
    X(cuGraphKernelNodeSetParams, 12000, cuGraphKernelNodeSetParams_v2, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
    X(cuGraphConditionalHandleCreate, 12030, cuGraphConditionalHandleCreate, (CUgraphConditionalHandle *, CUgraph, CUcontext, unsigned int, unsigned int)) \
    X(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams, (CUgraphNode, CUDA_MEMCPY3D *)) \
    X(cuGraphEventRecordNodeSetEvent, 11010, cuGraphEventRecordNodeSetEvent, (CUgraphNode, CUevent)) \
    X(cuGraphEventWaitNodeSetEvent, 11010, cuGraphEventWaitNodeSetEvent, (CUgraphNode, CUevent)) \
    X(cuGraphMemAllocNodeGetParams, 11040, cuGraphMemAllocNodeGetParams, (CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
    X(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute, (CUdevice, CUgraphMem_attribute, void *)) \
    X(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute, (CUdevice, CUgraphMem_attribute, void *)) \
    X(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim, (CUdevice)) \
    X(cuGraphMemFreeNodeGetParams, 11040, cuGraphMemFreeNodeGetParams, (CUgraphNode, CUdeviceptr *)) \
    X(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    Z(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, (CUgraphExec *a, CUgraph b, CUDA_GRAPH_INSTANTIATE_PARAMS *c), (a, b, c)) \
    Z(cuGraphUpload, 11010, cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec a, CUstream b), (a, b)) \
    Z(cuGraphLaunch, 10000, cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec a, CUstream b), (a, b)) \
    X(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags, (CUgraphExec, uint64_t *)) \
    X(cuGraphExecDestroy, 10000, cuGraphExecDestroy, (CUgraphExec)) \
    X(cuGraphExecUpdate, 10020, cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphNode *, int *)) \
    X(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) \
    X(cuUserObjectCreate, 11030, cuUserObjectCreate, (CUuserObject *, void *, CUhostFn, unsigned int, unsigned int)) \
    X(cuUserObjectRetain, 11030, cuUserObjectRetain, (CUuserObject, unsigned int)) \
    X(cuUserObjectRelease, 11030, cuUserObjectRelease, (CUuserObject, unsigned int)) \
    X(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject, (CUgraph, CUuserObject, unsigned int, unsigned int)) \
    X(cuGraphReleaseUserObject, 11030, cuGraphReleaseUserObject, (CUgraph, CUuserObject, unsigned int)) \
    /* launches */ \
    Z(cuLaunchKernel, 4000, cuLaunchKernel, cuLaunchKernel_ptsz, (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g, unsigned int h, CUstream i, void **j, void **k), (a, b, c, d, e, f, g, h, i, j, k)) \
    Z(cuLaunchKernelEx, 11060, cuLaunchKernelEx, cuLaunchKernelEx_ptsz, (const CUlaunchConfig *a, CUfunction b, void **c, void **d), (a, b, c, d)) \
    Z(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g, unsigned int h, CUstream i, void **j), (a, b, c, d, e, f, g, h, i, j)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, CUfunction, int, size_t, unsigned int)) \
    X(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize, (int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int)) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, cuOccupancyMaxPotentialBlockSizeWithFlags, (int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int, unsigned int)) \
    X(cuOccupancyAvailableDynamicSMemPerBlock, 10020, cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, CUfunction, int, int)) \
    X(cuOccupancyMaxActiveClusters, 11070, cuOccupancyMaxActiveClusters, (int *, CUfunction, const CUlaunchConfig *)) \
    X(cuOccupancyMaxPotentialClusterSize, 11070, cuOccupancyMaxPotentialClusterSize, (int *, CUfunction, const CUlaunchConfig *))

/* Names and versions that the headers dropped and drivers still have. They are the first
 * calls for primary contexts, which numba-cuda-mlir looks up, and the plain name that
 * belongs to another call from CUDA 12.0 on. A(name, version, symbol). */
#define SIM_ALIASES(A) \
    A(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease_v2) \
    A(cuDevicePrimaryCtxSetFlags, 7000, cuDevicePrimaryCtxSetFlags_v2) \
    A(cuDevicePrimaryCtxReset, 7000, cuDevicePrimaryCtxReset_v2) \
    A(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags)
/* clang-format on */

#endif
