/* capture_rules.h -- what each driver call does to a stream capture, measured on an H200.
 *
 * X(symbol, rule): a line for every call of calls.h; capture_rules.c does not compile
 * where one is missing. The rules are those below.
 */
#ifndef TARN_SIM_CAPTURE_RULES_H
#define TARN_SIM_CAPTURE_RULES_H

enum sim_capture_rule {
    CAPTURE_HARMLESS = 0,       /* but error 900 for a capturing stream */
    CAPTURE_UNSAFE = 1,         /* invalidates captures, according to the modes */
    CAPTURE_UNSAFE_OUTSIDE = 2, /* the same, if its own stream does not capture */
    CAPTURE_CAPTURED = 4,       /* accepts a capturing stream */
    CAPTURE_DEFAULT = 8,        /* uses the default stream implicitly */
    CAPTURE_QUERY = 16,         /* does no harm where the legacy stream makes it fail */
    /* invalidates all of its context, and checks that itself */
    CAPTURE_CONTEXT = 32,
    CAPTURE_LIVE = 64, /* fails for a stream whose capture is invalidated */
};

/* The rule of `call`; 0 for names that are not calls. Needs no lock. */
unsigned sim_capture_rules_find(const char *call);

/* clang-format off */
#define SIM_CAPTURE_RULES(X) \
    X(cuGetErrorString, CAPTURE_HARMLESS) \
    X(cuGetErrorName, CAPTURE_HARMLESS) \
    X(cuInit, CAPTURE_HARMLESS) \
    X(cuDriverGetVersion, CAPTURE_HARMLESS) \
    X(cuGetProcAddress, CAPTURE_HARMLESS) \
    X(cuGetProcAddress_v2, CAPTURE_HARMLESS) \
    X(cuGetExportTable, CAPTURE_HARMLESS) \
    X(cuProfilerStart, CAPTURE_HARMLESS) \
    X(cuProfilerStop, CAPTURE_HARMLESS) \
    X(cuModuleGetLoadingMode, CAPTURE_HARMLESS) \
    X(cuDeviceGet, CAPTURE_HARMLESS) \
    X(cuDeviceGetCount, CAPTURE_HARMLESS) \
    X(cuDeviceGetName, CAPTURE_HARMLESS) \
    X(cuDeviceGetUuid, CAPTURE_HARMLESS) \
    X(cuDeviceGetUuid_v2, CAPTURE_HARMLESS) \
    X(cuDeviceGetLuid, CAPTURE_HARMLESS) \
    X(cuDeviceTotalMem_v2, CAPTURE_HARMLESS) \
    X(cuDeviceGetAttribute, CAPTURE_HARMLESS) \
    X(cuDeviceComputeCapability, CAPTURE_HARMLESS) \
    X(cuDeviceGetByPCIBusId, CAPTURE_HARMLESS) \
    X(cuDeviceGetPCIBusId, CAPTURE_HARMLESS) \
    X(cuDeviceGetExecAffinitySupport, CAPTURE_HARMLESS) \
    X(cuDevicePrimaryCtxRetain, CAPTURE_HARMLESS) \
    X(cuDevicePrimaryCtxRelease_v2, CAPTURE_HARMLESS) \
    X(cuDevicePrimaryCtxSetFlags_v2, CAPTURE_HARMLESS) \
    X(cuDevicePrimaryCtxGetState, CAPTURE_HARMLESS) \
    X(cuDevicePrimaryCtxReset_v2, CAPTURE_HARMLESS) \
    X(cuCtxCreate_v2, CAPTURE_HARMLESS) \
    X(cuCtxCreate_v3, CAPTURE_HARMLESS) \
    X(cuCtxCreate_v4, CAPTURE_HARMLESS) \
    X(cuCtxGetId, CAPTURE_HARMLESS) \
    X(cuCtxDestroy_v2, CAPTURE_HARMLESS) \
    X(cuCtxPushCurrent_v2, CAPTURE_HARMLESS) \
    X(cuCtxPopCurrent_v2, CAPTURE_HARMLESS) \
    X(cuCtxSetCurrent, CAPTURE_HARMLESS) \
    X(cuCtxGetCurrent, CAPTURE_HARMLESS) \
    X(cuCtxGetDevice, CAPTURE_HARMLESS) \
    X(cuCtxGetDevice_v2, CAPTURE_HARMLESS) \
    X(cuCtxGetFlags, CAPTURE_HARMLESS) \
    X(cuCtxSetFlags, CAPTURE_HARMLESS) \
    X(cuCtxSynchronize, CAPTURE_CONTEXT) \
    X(cuCtxSynchronize_v2, CAPTURE_CONTEXT) \
    X(cuCtxSetLimit, CAPTURE_UNSAFE) \
    X(cuCtxGetLimit, CAPTURE_HARMLESS) \
    X(cuCtxGetCacheConfig, CAPTURE_HARMLESS) \
    X(cuCtxSetCacheConfig, CAPTURE_UNSAFE) \
    X(cuCtxGetSharedMemConfig, CAPTURE_HARMLESS) \
    X(cuCtxSetSharedMemConfig, CAPTURE_UNSAFE) \
    X(cuCtxGetApiVersion, CAPTURE_HARMLESS) \
    X(cuCtxGetStreamPriorityRange, CAPTURE_HARMLESS) \
    X(cuCtxResetPersistingL2Cache, CAPTURE_HARMLESS) \
    X(cuCtxGetExecAffinity, CAPTURE_HARMLESS) \
    X(cuCtxRecordEvent, CAPTURE_CONTEXT) \
    X(cuCtxWaitEvent, CAPTURE_CONTEXT) \
    X(cuDeviceCanAccessPeer, CAPTURE_HARMLESS) \
    X(cuCtxEnablePeerAccess, CAPTURE_HARMLESS) \
    X(cuCtxDisablePeerAccess, CAPTURE_HARMLESS) \
    X(cuDeviceGetP2PAttribute, CAPTURE_HARMLESS) \
    X(cuMemGetInfo_v2, CAPTURE_HARMLESS) \
    X(cuMemAlloc_v2, CAPTURE_UNSAFE) \
    X(cuMemAllocPitch_v2, CAPTURE_UNSAFE) \
    X(cuMemFree_v2, CAPTURE_UNSAFE) \
    X(cuMemAllocManaged, CAPTURE_UNSAFE) \
    X(cuMemAllocHost_v2, CAPTURE_UNSAFE) \
    X(cuMemFreeHost, CAPTURE_UNSAFE) \
    X(cuMemHostAlloc, CAPTURE_UNSAFE) \
    X(cuMemHostGetDevicePointer_v2, CAPTURE_HARMLESS) \
    X(cuMemHostGetFlags, CAPTURE_HARMLESS) \
    X(cuMemHostRegister_v2, CAPTURE_UNSAFE) \
    X(cuMemHostUnregister, CAPTURE_UNSAFE) \
    X(cuMemPrefetchAsync, CAPTURE_HARMLESS) \
    X(cuMemPrefetchAsync_v2, CAPTURE_HARMLESS) \
    X(cuMemPrefetchBatchAsync, CAPTURE_HARMLESS) \
    X(cuMemDiscardBatchAsync, CAPTURE_HARMLESS) \
    X(cuMemDiscardAndPrefetchBatchAsync, CAPTURE_HARMLESS) \
    X(cuMemAdvise, CAPTURE_UNSAFE) \
    X(cuMemAdvise_v2, CAPTURE_UNSAFE) \
    X(cuMemRangeGetAttribute, CAPTURE_HARMLESS) \
    X(cuMemRangeGetAttributes, CAPTURE_HARMLESS) \
    X(cuMemGetAddressRange_v2, CAPTURE_HARMLESS) \
    X(cuPointerGetAttribute, CAPTURE_HARMLESS) \
    X(cuPointerGetAttributes, CAPTURE_HARMLESS) \
    X(cuPointerSetAttribute, CAPTURE_HARMLESS) \
    X(cuIpcGetMemHandle, CAPTURE_HARMLESS) \
    X(cuIpcOpenMemHandle, CAPTURE_HARMLESS) \
    X(cuIpcOpenMemHandle_v2, CAPTURE_HARMLESS) \
    X(cuIpcCloseMemHandle, CAPTURE_HARMLESS) \
    X(cuIpcGetEventHandle, CAPTURE_HARMLESS) \
    X(cuIpcOpenEventHandle, CAPTURE_HARMLESS) \
    X(cuMemAllocAsync, CAPTURE_CAPTURED | CAPTURE_UNSAFE_OUTSIDE) \
    X(cuMemAllocFromPoolAsync, CAPTURE_CAPTURED | CAPTURE_UNSAFE_OUTSIDE) \
    X(cuMemFreeAsync, CAPTURE_CAPTURED | CAPTURE_UNSAFE_OUTSIDE) \
    X(cuMemPoolCreate, CAPTURE_UNSAFE) \
    X(cuMemPoolDestroy, CAPTURE_UNSAFE) \
    X(cuMemPoolTrimTo, CAPTURE_UNSAFE) \
    X(cuMemPoolSetAttribute, CAPTURE_UNSAFE) \
    X(cuMemPoolGetAttribute, CAPTURE_UNSAFE) \
    X(cuMemPoolSetAccess, CAPTURE_UNSAFE) \
    X(cuMemPoolGetAccess, CAPTURE_UNSAFE) \
    X(cuDeviceGetDefaultMemPool, CAPTURE_HARMLESS) \
    X(cuDeviceGetMemPool, CAPTURE_HARMLESS) \
    X(cuDeviceSetMemPool, CAPTURE_UNSAFE) \
    X(cuMemGetDefaultMemPool, CAPTURE_HARMLESS) \
    X(cuMemGetMemPool, CAPTURE_HARMLESS) \
    X(cuMemSetMemPool, CAPTURE_UNSAFE) \
    X(cuMemcpy, CAPTURE_DEFAULT) \
    X(cuMemcpyAsync, CAPTURE_CAPTURED) \
    X(cuMemcpyPeer, CAPTURE_DEFAULT) \
    X(cuMemcpyPeerAsync, CAPTURE_CAPTURED) \
    X(cuMemcpyHtoD_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyDtoH_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyDtoD_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyHtoDAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpyDtoHAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpyDtoDAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpy2D_v2, CAPTURE_DEFAULT) \
    X(cuMemcpy2DUnaligned_v2, CAPTURE_DEFAULT) \
    X(cuMemcpy2DAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpy3D_v2, CAPTURE_DEFAULT) \
    X(cuMemcpy3DAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpy3DPeer, CAPTURE_DEFAULT) \
    X(cuMemcpy3DPeerAsync, CAPTURE_CAPTURED) \
    X(cuMemsetD8_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD16_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD32_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD2D8_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD2D16_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD2D32_v2, CAPTURE_DEFAULT) \
    X(cuMemsetD8Async, CAPTURE_CAPTURED) \
    X(cuMemsetD16Async, CAPTURE_CAPTURED) \
    X(cuMemsetD32Async, CAPTURE_CAPTURED) \
    X(cuMemsetD2D8Async, CAPTURE_CAPTURED) \
    X(cuMemsetD2D16Async, CAPTURE_CAPTURED) \
    X(cuMemsetD2D32Async, CAPTURE_CAPTURED) \
    X(cuStreamCreate, CAPTURE_HARMLESS) \
    X(cuStreamCreateWithPriority, CAPTURE_HARMLESS) \
    X(cuStreamDestroy_v2, CAPTURE_CAPTURED) \
    X(cuStreamQuery, CAPTURE_UNSAFE_OUTSIDE) \
    X(cuStreamSynchronize, CAPTURE_UNSAFE_OUTSIDE) \
    X(cuStreamWaitEvent, CAPTURE_CAPTURED | CAPTURE_LIVE) \
    X(cuStreamGetId, CAPTURE_HARMLESS) \
    X(cuStreamGetCtx, CAPTURE_CAPTURED | CAPTURE_LIVE) \
    X(cuStreamGetCtx_v2, CAPTURE_CAPTURED | CAPTURE_LIVE) \
    X(cuStreamGetDevice, CAPTURE_HARMLESS) \
    X(cuStreamGetFlags, CAPTURE_HARMLESS) \
    X(cuStreamGetPriority, CAPTURE_CAPTURED | CAPTURE_LIVE) \
    X(cuStreamAddCallback, CAPTURE_HARMLESS) \
    X(cuLaunchHostFunc, CAPTURE_CAPTURED) \
    X(cuStreamAttachMemAsync, CAPTURE_HARMLESS) \
    X(cuStreamIsCapturing, CAPTURE_CAPTURED | CAPTURE_QUERY) \
    X(cuStreamGetCaptureInfo, CAPTURE_CAPTURED | CAPTURE_QUERY) \
    X(cuStreamGetCaptureInfo_v2, CAPTURE_CAPTURED | CAPTURE_QUERY) \
    X(cuStreamGetCaptureInfo_v3, CAPTURE_CAPTURED | CAPTURE_QUERY) \
    X(cuThreadExchangeStreamCaptureMode, CAPTURE_HARMLESS) \
    X(cuStreamGetAttribute, CAPTURE_CAPTURED) \
    X(cuStreamSetAttribute, CAPTURE_CAPTURED) \
    X(cuStreamCopyAttributes, CAPTURE_CAPTURED) \
    X(cuEventCreate, CAPTURE_HARMLESS) \
    X(cuEventDestroy_v2, CAPTURE_HARMLESS) \
    X(cuEventRecord, CAPTURE_CAPTURED) \
    X(cuEventRecordWithFlags, CAPTURE_CAPTURED) \
    X(cuEventQuery, CAPTURE_UNSAFE) \
    X(cuEventSynchronize, CAPTURE_UNSAFE) \
    X(cuEventElapsedTime, CAPTURE_HARMLESS) \
    X(cuEventElapsedTime_v2, CAPTURE_HARMLESS) \
    X(cuModuleLoad, CAPTURE_HARMLESS) \
    X(cuModuleLoadData, CAPTURE_HARMLESS) \
    X(cuModuleLoadDataEx, CAPTURE_HARMLESS) \
    X(cuModuleLoadFatBinary, CAPTURE_HARMLESS) \
    X(cuModuleUnload, CAPTURE_UNSAFE) \
    X(cuModuleGetFunction, CAPTURE_HARMLESS) \
    X(cuModuleGetGlobal_v2, CAPTURE_HARMLESS) \
    X(cuModuleGetFunctionCount, CAPTURE_HARMLESS) \
    X(cuLibraryLoadData, CAPTURE_HARMLESS) \
    X(cuLibraryLoadFromFile, CAPTURE_HARMLESS) \
    X(cuLibraryUnload, CAPTURE_HARMLESS) \
    X(cuLibraryGetKernel, CAPTURE_HARMLESS) \
    X(cuLibraryGetModule, CAPTURE_HARMLESS) \
    X(cuLibraryGetKernelCount, CAPTURE_HARMLESS) \
    X(cuLibraryGetGlobal, CAPTURE_HARMLESS) \
    X(cuLibraryGetManaged, CAPTURE_HARMLESS) \
    X(cuKernelGetFunction, CAPTURE_HARMLESS) \
    X(cuKernelGetLibrary, CAPTURE_HARMLESS) \
    X(cuKernelGetName, CAPTURE_HARMLESS) \
    X(cuKernelGetAttribute, CAPTURE_HARMLESS) \
    X(cuKernelSetAttribute, CAPTURE_HARMLESS) \
    X(cuKernelSetCacheConfig, CAPTURE_HARMLESS) \
    X(cuFuncGetAttribute, CAPTURE_HARMLESS) \
    X(cuFuncSetAttribute, CAPTURE_HARMLESS) \
    X(cuFuncSetCacheConfig, CAPTURE_HARMLESS) \
    X(cuFuncSetSharedMemConfig, CAPTURE_HARMLESS) \
    X(cuFuncGetModule, CAPTURE_HARMLESS) \
    X(cuFuncGetName, CAPTURE_HARMLESS) \
    X(cuFuncIsLoaded, CAPTURE_HARMLESS) \
    X(cuFuncLoad, CAPTURE_HARMLESS) \
    X(cuFuncGetParamInfo, CAPTURE_HARMLESS) \
    X(cuKernelGetParamInfo, CAPTURE_HARMLESS) \
    X(cuLinkCreate_v2, CAPTURE_HARMLESS) \
    X(cuLinkAddData_v2, CAPTURE_HARMLESS) \
    X(cuLinkAddFile_v2, CAPTURE_HARMLESS) \
    X(cuLinkComplete, CAPTURE_HARMLESS) \
    X(cuLinkDestroy, CAPTURE_HARMLESS) \
    X(cuLaunchKernel, CAPTURE_CAPTURED) \
    X(cuLaunchKernelEx, CAPTURE_CAPTURED) \
    X(cuLaunchCooperativeKernel, CAPTURE_CAPTURED) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, CAPTURE_HARMLESS) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, CAPTURE_HARMLESS) \
    X(cuOccupancyMaxPotentialBlockSize, CAPTURE_HARMLESS) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, CAPTURE_HARMLESS) \
    X(cuOccupancyAvailableDynamicSMemPerBlock, CAPTURE_HARMLESS) \
    X(cuOccupancyMaxActiveClusters, CAPTURE_HARMLESS) \
    X(cuOccupancyMaxPotentialClusterSize, CAPTURE_HARMLESS) \
    X(cuMemAddressReserve, CAPTURE_HARMLESS) \
    X(cuMemAddressFree, CAPTURE_HARMLESS) \
    X(cuMemCreate, CAPTURE_HARMLESS) \
    X(cuMemRelease, CAPTURE_HARMLESS) \
    X(cuMemMap, CAPTURE_HARMLESS) \
    X(cuMemUnmap, CAPTURE_HARMLESS) \
    X(cuMemSetAccess, CAPTURE_HARMLESS) \
    X(cuMemGetAccess, CAPTURE_HARMLESS) \
    X(cuMemExportToShareableHandle, CAPTURE_HARMLESS) \
    X(cuMemImportFromShareableHandle, CAPTURE_HARMLESS) \
    X(cuMemGetAllocationGranularity, CAPTURE_HARMLESS) \
    X(cuMemGetAllocationPropertiesFromHandle, CAPTURE_HARMLESS) \
    X(cuMemRetainAllocationHandle, CAPTURE_HARMLESS) \
    X(cuMemGetHandleForAddressRange, CAPTURE_HARMLESS) \
    X(cuMemPoolExportToShareableHandle, CAPTURE_HARMLESS) \
    X(cuMemPoolImportFromShareableHandle, CAPTURE_HARMLESS) \
    X(cuMemPoolExportPointer, CAPTURE_HARMLESS) \
    X(cuMemPoolImportPointer, CAPTURE_HARMLESS) \
    X(cuStreamBeginCapture, CAPTURE_CAPTURED) \
    X(cuStreamBeginCapture_v2, CAPTURE_CAPTURED) \
    X(cuStreamBeginCaptureToGraph, CAPTURE_CAPTURED) \
    X(cuStreamEndCapture, CAPTURE_CAPTURED | CAPTURE_QUERY) \
    X(cuStreamUpdateCaptureDependencies, CAPTURE_CAPTURED) \
    X(cuStreamUpdateCaptureDependencies_v2, CAPTURE_CAPTURED) \
    X(cuArrayCreate_v2, CAPTURE_UNSAFE) \
    X(cuArray3DCreate_v2, CAPTURE_UNSAFE) \
    X(cuArrayGetDescriptor_v2, CAPTURE_HARMLESS) \
    X(cuArray3DGetDescriptor_v2, CAPTURE_HARMLESS) \
    X(cuArrayDestroy, CAPTURE_UNSAFE) \
    X(cuMipmappedArrayCreate, CAPTURE_UNSAFE) \
    X(cuMipmappedArrayGetLevel, CAPTURE_HARMLESS) \
    X(cuMipmappedArrayDestroy, CAPTURE_UNSAFE) \
    X(cuTexObjectCreate, CAPTURE_HARMLESS) \
    X(cuTexObjectDestroy, CAPTURE_HARMLESS) \
    X(cuTexObjectGetResourceDesc, CAPTURE_HARMLESS) \
    X(cuTexObjectGetTextureDesc, CAPTURE_HARMLESS) \
    X(cuTexObjectGetResourceViewDesc, CAPTURE_HARMLESS) \
    X(cuSurfObjectCreate, CAPTURE_HARMLESS) \
    X(cuSurfObjectDestroy, CAPTURE_HARMLESS) \
    X(cuSurfObjectGetResourceDesc, CAPTURE_HARMLESS) \
    X(cuTensorMapEncodeTiled, CAPTURE_HARMLESS) \
    X(cuTensorMapEncodeIm2col, CAPTURE_HARMLESS) \
    X(cuTensorMapReplaceAddress, CAPTURE_HARMLESS) \
    X(cuMemcpyAtoH_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyHtoA_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyAtoD_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyDtoA_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyAtoA_v2, CAPTURE_DEFAULT) \
    X(cuMemcpyAtoHAsync_v2, CAPTURE_CAPTURED) \
    X(cuMemcpyHtoAAsync_v2, CAPTURE_CAPTURED) \
    X(cuGraphCreate, CAPTURE_HARMLESS) \
    X(cuGraphDestroy, CAPTURE_HARMLESS) \
    X(cuGraphClone, CAPTURE_HARMLESS) \
    X(cuGraphNodeFindInClone, CAPTURE_HARMLESS) \
    X(cuGraphNodeGetType, CAPTURE_HARMLESS) \
    X(cuGraphGetNodes, CAPTURE_HARMLESS) \
    X(cuGraphGetRootNodes, CAPTURE_HARMLESS) \
    X(cuGraphGetEdges, CAPTURE_HARMLESS) \
    X(cuGraphGetEdges_v2, CAPTURE_HARMLESS) \
    X(cuGraphNodeGetDependencies, CAPTURE_HARMLESS) \
    X(cuGraphNodeGetDependencies_v2, CAPTURE_HARMLESS) \
    X(cuGraphNodeGetDependentNodes, CAPTURE_HARMLESS) \
    X(cuGraphNodeGetDependentNodes_v2, CAPTURE_HARMLESS) \
    X(cuGraphAddDependencies, CAPTURE_HARMLESS) \
    X(cuGraphAddDependencies_v2, CAPTURE_HARMLESS) \
    X(cuGraphRemoveDependencies, CAPTURE_HARMLESS) \
    X(cuGraphRemoveDependencies_v2, CAPTURE_HARMLESS) \
    X(cuGraphDestroyNode, CAPTURE_HARMLESS) \
    X(cuGraphDebugDotPrint, CAPTURE_HARMLESS) \
    X(cuGraphAddEmptyNode, CAPTURE_HARMLESS) \
    X(cuGraphAddMemcpyNode, CAPTURE_HARMLESS) \
    X(cuGraphAddMemsetNode, CAPTURE_HARMLESS) \
    X(cuGraphAddHostNode, CAPTURE_HARMLESS) \
    X(cuGraphAddChildGraphNode, CAPTURE_HARMLESS) \
    X(cuGraphAddEventRecordNode, CAPTURE_HARMLESS) \
    X(cuGraphAddEventWaitNode, CAPTURE_HARMLESS) \
    X(cuGraphAddMemAllocNode, CAPTURE_HARMLESS) \
    X(cuGraphAddMemFreeNode, CAPTURE_HARMLESS) \
    X(cuGraphAddKernelNode, CAPTURE_HARMLESS) \
    X(cuGraphAddKernelNode_v2, CAPTURE_HARMLESS) \
    X(cuGraphKernelNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphKernelNodeGetParams_v2, CAPTURE_HARMLESS) \
    X(cuGraphKernelNodeSetParams, CAPTURE_HARMLESS) \
    X(cuGraphKernelNodeSetParams_v2, CAPTURE_HARMLESS) \
    X(cuGraphConditionalHandleCreate, CAPTURE_HARMLESS) \
    X(cuGraphEventRecordNodeSetEvent, CAPTURE_HARMLESS) \
    X(cuGraphEventWaitNodeSetEvent, CAPTURE_HARMLESS) \
    X(cuDeviceGetGraphMemAttribute, CAPTURE_HARMLESS) \
    X(cuDeviceSetGraphMemAttribute, CAPTURE_HARMLESS) \
    X(cuDeviceGraphMemTrim, CAPTURE_HARMLESS) \
    X(cuGraphAddNode, CAPTURE_HARMLESS) \
    X(cuGraphAddNode_v2, CAPTURE_HARMLESS) \
    X(cuGraphMemcpyNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphMemcpyNodeSetParams, CAPTURE_HARMLESS) \
    X(cuGraphMemsetNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphMemsetNodeSetParams, CAPTURE_HARMLESS) \
    X(cuGraphHostNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphHostNodeSetParams, CAPTURE_HARMLESS) \
    X(cuGraphChildGraphNodeGetGraph, CAPTURE_HARMLESS) \
    X(cuGraphEventRecordNodeGetEvent, CAPTURE_HARMLESS) \
    X(cuGraphEventWaitNodeGetEvent, CAPTURE_HARMLESS) \
    X(cuGraphMemAllocNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphMemFreeNodeGetParams, CAPTURE_HARMLESS) \
    X(cuGraphInstantiateWithFlags, CAPTURE_UNSAFE) \
    X(cuGraphInstantiateWithParams, CAPTURE_UNSAFE) \
    X(cuGraphExecGetFlags, CAPTURE_HARMLESS) \
    X(cuGraphLaunch, CAPTURE_HARMLESS) \
    X(cuGraphUpload, CAPTURE_HARMLESS) \
    X(cuGraphExecDestroy, CAPTURE_UNSAFE) \
    X(cuGraphExecUpdate, CAPTURE_HARMLESS) \
    X(cuGraphExecUpdate_v2, CAPTURE_HARMLESS) \
    /* not measured: that objects of the client do not matter to a capture */ \
    X(cuUserObjectCreate, CAPTURE_HARMLESS) \
    X(cuUserObjectRetain, CAPTURE_HARMLESS) \
    X(cuUserObjectRelease, CAPTURE_HARMLESS) \
    X(cuGraphRetainUserObject, CAPTURE_HARMLESS) \
    X(cuGraphReleaseUserObject, CAPTURE_HARMLESS)
/* clang-format on */

#endif
