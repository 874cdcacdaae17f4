/* calls.h -- every driver call that the facts make: X(name, base name, version, parameters).
 *
 * Each becomes a pointer of that name, filled through cuGetProcAddress with the base name
 * and the version. A name that the driver lacks gets a function that returns
 * NOT_FOUND_HERE. Its facts print `not found`, and the rest runs.
 */
#ifndef FACTS_CALLS_H
#define FACTS_CALLS_H

#include "abi.h"

enum { NOT_FOUND_HERE = -404 };

/* clang-format off */
#define CALLS(X) \
    X(cuGetErrorName, "cuGetErrorName", 6000, (CUresult result, const char **out)) \
    X(cuGetErrorString, "cuGetErrorString", 6000, (CUresult result, const char **out)) \
    X(cuInit, "cuInit", 2000, (unsigned int flags)) \
    X(cuDriverGetVersion, "cuDriverGetVersion", 2020, (int *out)) \
    X(cuGetProcAddress, "cuGetProcAddress", 12000, (const char *name, void **out, int version, uint64_t flags, int *status)) \
    X(cuGetExportTable, "cuGetExportTable", 3000, (const void **out, const CUuuid *id)) \
    X(cuDeviceGet, "cuDeviceGet", 2000, (CUdevice *out, int ordinal)) \
    X(cuDeviceGetCount, "cuDeviceGetCount", 2000, (int *out)) \
    X(cuDeviceGetName, "cuDeviceGetName", 2000, (char *out, int bytes, CUdevice device)) \
    X(cuDeviceGetUuid, "cuDeviceGetUuid", 11040, (CUuuid *out, CUdevice device)) \
    X(cuDeviceTotalMem, "cuDeviceTotalMem", 3020, (size_t *out, CUdevice device)) \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, (int *out, int attribute, CUdevice device)) \
    X(cuDeviceComputeCapability, "cuDeviceComputeCapability", 2000, (int *major, int *minor, CUdevice device)) \
    X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010, (CUdevice *out, const char *id)) \
    X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, (char *out, int bytes, CUdevice device)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, (CUcontext *out, CUdevice device)) \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000, (CUdevice device)) \
    X(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags", 11000, (CUdevice device, unsigned int flags)) \
    X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, (CUdevice device, unsigned int *flags, int *active)) \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 11000, (CUdevice device)) \
    X(cuCtxCreate, "cuCtxCreate", 3020, (CUcontext *out, unsigned int flags, CUdevice device)) \
    X(cuCtxDestroy, "cuCtxDestroy", 4000, (CUcontext context)) \
    X(cuCtxPushCurrent, "cuCtxPushCurrent", 4000, (CUcontext context)) \
    X(cuCtxPopCurrent, "cuCtxPopCurrent", 4000, (CUcontext *out)) \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, (CUcontext context)) \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (CUcontext *out)) \
    X(cuCtxGetDevice, "cuCtxGetDevice", 2000, (CUdevice *out)) \
    X(cuCtxGetFlags, "cuCtxGetFlags", 7000, (unsigned int *out)) \
    X(cuCtxGetId, "cuCtxGetId", 12000, (CUcontext context, unsigned long long *out)) \
    X(cuCtxGetApiVersion, "cuCtxGetApiVersion", 3020, (CUcontext context, unsigned int *out)) \
    X(cuCtxGetLimit, "cuCtxGetLimit", 3010, (size_t *out, int limit)) \
    X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050, (int *least, int *greatest)) \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, (void)) \
    X(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, (CUcontext context, CUevent event)) \
    X(cuCtxWaitEvent, "cuCtxWaitEvent", 12050, (CUcontext context, CUevent event)) \
    X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000, (int *out, CUdevice device, CUdevice peer)) \
    X(cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute", 8000, (int *out, int attribute, CUdevice from, CUdevice to)) \
    X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, (CUcontext peer, unsigned int flags)) \
    X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, (CUcontext peer)) \
    X(cuMemGetInfo, "cuMemGetInfo", 3020, (size_t *unused, size_t *total)) \
    X(cuMemAlloc, "cuMemAlloc", 3020, (CUdeviceptr *out, size_t bytes)) \
    X(cuMemAllocPitch, "cuMemAllocPitch", 3020, (CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element)) \
    X(cuMemFree, "cuMemFree", 3020, (CUdeviceptr pointer)) \
    X(cuMemGetAddressRange, "cuMemGetAddressRange", 3020, (CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)) \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, (CUdeviceptr *out, size_t bytes, unsigned int flags)) \
    X(cuMemAllocHost, "cuMemAllocHost", 3020, (void **out, size_t bytes)) \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, (void **out, size_t bytes, unsigned int flags)) \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, (void *pointer)) \
    X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer", 3020, (CUdeviceptr *out, void *pointer, unsigned int flags)) \
    X(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, (unsigned int *out, void *pointer)) \
    X(cuMemHostRegister, "cuMemHostRegister", 6050, (void *pointer, size_t bytes, unsigned int flags)) \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, (void *pointer)) \
    X(cuMemAdvise, "cuMemAdvise", 8000, (CUdeviceptr pointer, size_t bytes, int advice, CUdevice device)) \
    X(cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000, (CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream)) \
    X(cuMemPrefetchAsync_v2, "cuMemPrefetchAsync", 12020, (CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream)) \
    X(cuMemRangeGetAttribute, "cuMemRangeGetAttribute", 8000, (void *out, size_t out_bytes, int attribute, CUdeviceptr pointer, size_t bytes)) \
    X(cuStreamAttachMemAsync, "cuStreamAttachMemAsync", 6000, (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags)) \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, (void *out, int attribute, CUdeviceptr pointer)) \
    X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, (unsigned int count, int *attributes, void **out, CUdeviceptr pointer)) \
    X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, (const void *value, int attribute, CUdeviceptr pointer)) \
    X(cuMemcpy, "cuMemcpy", 4000, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
    X(cuMemcpyAsync, "cuMemcpyAsync", 4000, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyHtoD, "cuMemcpyHtoD", 3020, (CUdeviceptr to, const void *from, size_t bytes)) \
    X(cuMemcpyDtoH, "cuMemcpyDtoH", 3020, (void *to, CUdeviceptr from, size_t bytes)) \
    X(cuMemcpyDtoD, "cuMemcpyDtoD", 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyPeer, "cuMemcpyPeer", 4000, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)) \
    X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(cuMemcpy2D, "cuMemcpy2D", 3020, (const CUDA_MEMCPY2D *copy)) \
    X(cuMemcpy2DAsync, "cuMemcpy2DAsync", 3020, (const CUDA_MEMCPY2D *copy, CUstream stream)) \
    X(cuMemcpy3D, "cuMemcpy3D", 3020, (const CUDA_MEMCPY3D *copy)) \
    X(cuMemsetD8, "cuMemsetD8", 3020, (CUdeviceptr to, unsigned char value, size_t count)) \
    X(cuMemsetD16, "cuMemsetD16", 3020, (CUdeviceptr to, unsigned short value, size_t count)) \
    X(cuMemsetD32, "cuMemsetD32", 3020, (CUdeviceptr to, unsigned int value, size_t count)) \
    X(cuMemsetD2D8, "cuMemsetD2D8", 3020, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)) \
    X(cuMemsetD2D32, "cuMemsetD2D32", 3020, (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)) \
    X(cuMemsetD8Async, "cuMemsetD8Async", 3020, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream)) \
    X(cuMemsetD16Async, "cuMemsetD16Async", 3020, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream)) \
    X(cuMemsetD32Async, "cuMemsetD32Async", 3020, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream)) \
    X(cuStreamCreate, "cuStreamCreate", 2000, (CUstream *out, unsigned int flags)) \
    X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, (CUstream *out, unsigned int flags, int priority)) \
    X(cuStreamDestroy, "cuStreamDestroy", 4000, (CUstream stream)) \
    X(cuStreamQuery, "cuStreamQuery", 2000, (CUstream stream)) \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, (CUstream stream)) \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, (CUstream stream, CUevent event, unsigned int flags)) \
    X(cuStreamGetId, "cuStreamGetId", 12000, (CUstream stream, unsigned long long *out)) \
    X(cuStreamGetCtx, "cuStreamGetCtx", 9020, (CUstream stream, CUcontext *out)) \
    X(cuStreamGetDevice, "cuStreamGetDevice", 12080, (CUstream stream, CUdevice *out)) \
    X(cuStreamGetFlags, "cuStreamGetFlags", 5050, (CUstream stream, unsigned int *out)) \
    X(cuStreamGetPriority, "cuStreamGetPriority", 5050, (CUstream stream, int *out)) \
    X(cuStreamAddCallback, "cuStreamAddCallback", 5000, (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)) \
    X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, (CUstream stream, CUhostFn function, void *data)) \
    X(cuStreamBeginCapture, "cuStreamBeginCapture", 10010, (CUstream stream, int mode)) \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, (CUstream stream, CUgraph *out)) \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, (CUstream stream, int *out)) \
    X(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", 11030, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count)) \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, (int *mode)) \
    X(cuEventCreate, "cuEventCreate", 2000, (CUevent *out, unsigned int flags)) \
    X(cuEventDestroy, "cuEventDestroy", 4000, (CUevent event)) \
    X(cuEventRecord, "cuEventRecord", 2000, (CUevent event, CUstream stream)) \
    X(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, (CUevent event, CUstream stream, unsigned int flags)) \
    X(cuEventQuery, "cuEventQuery", 2000, (CUevent event)) \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, (CUevent event)) \
    X(cuEventElapsedTime, "cuEventElapsedTime", 2000, (float *out, CUevent start, CUevent end)) \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, (CUdeviceptr *out, size_t bytes, CUstream stream)) \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)) \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, (CUdeviceptr pointer, CUstream stream)) \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, (CUmemoryPool *out, const CUmemPoolProps *props)) \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, (CUmemoryPool pool)) \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, (CUmemoryPool pool, size_t keep)) \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, (CUmemoryPool pool, int attribute, void *value)) \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, (CUmemoryPool pool, int attribute, void *value)) \
    X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)) \
    X(cuMemPoolGetAccess, "cuMemPoolGetAccess", 11020, (int *out, CUmemoryPool pool, CUmemLocation *location)) \
    X(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020, (void *out, CUmemoryPool pool, int type, unsigned long long flags)) \
    X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, (CUmemoryPool *out, void *handle, int type, unsigned long long flags)) \
    X(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, (CUmemPoolPtrExportData *out, CUdeviceptr pointer)) \
    X(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020, (CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data)) \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, (CUmemoryPool *out, CUdevice device)) \
    X(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, (CUmemoryPool *out, CUdevice device)) \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, (CUdevice device, CUmemoryPool pool)) \
    X(cuMemAddressReserve, "cuMemAddressReserve", 10020, (CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
    X(cuMemAddressFree, "cuMemAddressFree", 10020, (CUdeviceptr pointer, size_t bytes)) \
    X(cuMemCreate, "cuMemCreate", 10020, (CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)) \
    X(cuMemRelease, "cuMemRelease", 10020, (CUmemGenericAllocationHandle handle)) \
    X(cuMemMap, "cuMemMap", 10020, (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    X(cuMemUnmap, "cuMemUnmap", 10020, (CUdeviceptr pointer, size_t bytes)) \
    X(cuMemSetAccess, "cuMemSetAccess", 10020, (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count)) \
    X(cuMemGetAccess, "cuMemGetAccess", 10020, (unsigned long long *out, const CUmemLocation *location, CUdeviceptr pointer)) \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, (void *out, CUdeviceptr pointer, size_t bytes, int type, unsigned long long flags)) \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, (void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)) \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, (CUmemGenericAllocationHandle *out, void *handle, int type)) \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, (size_t *out, const CUmemAllocationProp *prop, int option)) \
    X(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", 10020, (CUmemAllocationProp *out, CUmemGenericAllocationHandle handle)) \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, (CUmemGenericAllocationHandle *out, void *pointer)) \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, (CUipcMemHandle *out, CUdeviceptr pointer)) \
    X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 11000, (CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)) \
    X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, (CUdeviceptr pointer)) \
    X(cuIpcGetEventHandle, "cuIpcGetEventHandle", 4010, (CUipcEventHandle *out, CUevent event)) \
    X(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", 4010, (CUevent *out, CUipcEventHandle handle)) \
    X(cuGraphCreate, "cuGraphCreate", 10000, (CUgraph *out, unsigned int flags)) \
    X(cuGraphDestroy, "cuGraphDestroy", 10000, (CUgraph graph)) \
    X(cuGraphGetNodes, "cuGraphGetNodes", 10000, (CUgraph graph, CUgraphNode *out, size_t *count)) \
    X(cuGraphGetRootNodes, "cuGraphGetRootNodes", 10000, (CUgraph graph, CUgraphNode *out, size_t *count)) \
    X(cuGraphGetEdges, "cuGraphGetEdges", 10000, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)) \
    X(cuGraphNodeGetType, "cuGraphNodeGetType", 10000, (CUgraphNode node, int *out)) \
    X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", 10000, (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count)) \
    X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *wanted)) \
    X(cuGraphMemAllocNodeGetParams, "cuGraphMemAllocNodeGetParams", 11040, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)) \
    X(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", 11040, (CUdevice device, int attribute, void *out)) \
    X(cuDeviceSetGraphMemAttribute, "cuDeviceSetGraphMemAttribute", 11040, (CUdevice device, int attribute, void *value)) \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, (CUdevice device)) \
    X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000, (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_MEMSET_NODE_PARAMS *wanted, CUcontext context)) \
    X(cuGraphAddNode, "cuGraphAddNode", 12030, (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, CUgraphNodeParams *wanted)) \
    X(cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate", 12030, (CUgraphConditionalHandle *out, CUgraph graph, CUcontext context, unsigned int value, unsigned int flags)) \
    X(cuMemAdvise_v2, "cuMemAdvise", 12020, (CUdeviceptr pointer, size_t bytes, int advice, CUmemLocation where)) \
    X(cuMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync", 13000, (CUdeviceptr *pointers, size_t *bytes, size_t count, CUmemLocation *where, size_t *first, size_t locations, unsigned long long flags, CUstream stream)) \
    X(cuMemDiscardBatchAsync, "cuMemDiscardBatchAsync", 13000, (CUdeviceptr *pointers, size_t *bytes, size_t count, unsigned long long flags, CUstream stream)) \
    X(cuArray3DCreate, "cuArray3DCreate", 3020, (CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)) \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, (CUarray array)) \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", 11040, (CUgraphExec *out, CUgraph graph, unsigned long long flags)) \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, (CUgraphExec exec)) \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, (CUgraphExec exec, CUstream stream)) \
    X(cuGraphUpload, "cuGraphUpload", 11010, (CUgraphExec exec, CUstream stream)) \
    X(cuUserObjectCreate, "cuUserObjectCreate", 11030, (CUuserObject *out, void *data, CUhostFn destroy, unsigned int count, unsigned int flags)) \
    X(cuUserObjectRetain, "cuUserObjectRetain", 11030, (CUuserObject object, unsigned int count)) \
    X(cuUserObjectRelease, "cuUserObjectRelease", 11030, (CUuserObject object, unsigned int count)) \
    X(cuGraphRetainUserObject, "cuGraphRetainUserObject", 11030, (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)) \
    X(cuGraphReleaseUserObject, "cuGraphReleaseUserObject", 11030, (CUgraph graph, CUuserObject object, unsigned int count))
/* clang-format on */

#define DECLARE(name, base, version, parameters) extern CUresult(*name) parameters;
CALLS(DECLARE)
#undef DECLARE

/* Resolve every pointer above in the library at `path`; false if it cannot be opened. */
int calls_open(const char *path);

#endif
