/* unsupported.h -- documented calls that only return CUDA_ERROR_NOT_SUPPORTED.
 *
 * Clients look up calls that every driver of CUDA 12.0 has, and some fail to start if
 * one is missing. X(name, version, symbol).
 */
#ifndef TARN_SIM_UNSUPPORTED_H
#define TARN_SIM_UNSUPPORTED_H

/* clang-format off */
#define SIM_UNSUPPORTED(X) \
    X(cuArrayGetMemoryRequirements, 11060, cuArrayGetMemoryRequirements) \
    X(cuArrayGetPlane, 11020, cuArrayGetPlane) \
    X(cuArrayGetSparseProperties, 11010, cuArrayGetSparseProperties) \
    X(cuTensorMapEncodeIm2colWide, 12080, cuTensorMapEncodeIm2colWide) \
    X(cuDestroyExternalMemory, 10000, cuDestroyExternalMemory) \
    X(cuDestroyExternalSemaphore, 10000, cuDestroyExternalSemaphore) \
    X(cuDeviceGetNvSciSyncAttributes, 10020, cuDeviceGetNvSciSyncAttributes) \
    X(cuDeviceGetTexture1DLinearMaxWidth, 11010, cuDeviceGetTexture1DLinearMaxWidth) \
    X(cuExternalMemoryGetMappedBuffer, 10000, cuExternalMemoryGetMappedBuffer) \
    X(cuExternalMemoryGetMappedMipmappedArray, 10000, cuExternalMemoryGetMappedMipmappedArray) \
    X(cuFlushGPUDirectRDMAWrites, 11030, cuFlushGPUDirectRDMAWrites) \
    X(cuGraphAddBatchMemOpNode, 11070, cuGraphAddBatchMemOpNode) \
    X(cuGraphAddExternalSemaphoresSignalNode, 11020, cuGraphAddExternalSemaphoresSignalNode) \
    X(cuGraphAddExternalSemaphoresWaitNode, 11020, cuGraphAddExternalSemaphoresWaitNode) \
    X(cuGraphBatchMemOpNodeGetParams, 11070, cuGraphBatchMemOpNodeGetParams) \
    X(cuGraphBatchMemOpNodeSetParams, 11070, cuGraphBatchMemOpNodeSetParams) \
    X(cuGraphExecBatchMemOpNodeSetParams, 11070, cuGraphExecBatchMemOpNodeSetParams) \
    X(cuGraphExecChildGraphNodeSetParams, 11010, cuGraphExecChildGraphNodeSetParams) \
    X(cuGraphExecEventRecordNodeSetEvent, 11010, cuGraphExecEventRecordNodeSetEvent) \
    X(cuGraphExecEventWaitNodeSetEvent, 11010, cuGraphExecEventWaitNodeSetEvent) \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, cuGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, cuGraphExecExternalSemaphoresWaitNodeSetParams) \
    X(cuGraphExecHostNodeSetParams, 10020, cuGraphExecHostNodeSetParams) \
    X(cuGraphExecKernelNodeSetParams, 10010, cuGraphExecKernelNodeSetParams) \
    X(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2) \
    X(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams) \
    X(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams) \
    X(cuGraphExternalSemaphoresSignalNodeGetParams, 11020, cuGraphExternalSemaphoresSignalNodeGetParams) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams, 11020, cuGraphExternalSemaphoresSignalNodeSetParams) \
    X(cuGraphExternalSemaphoresWaitNodeGetParams, 11020, cuGraphExternalSemaphoresWaitNodeGetParams) \
    X(cuGraphExternalSemaphoresWaitNodeSetParams, 11020, cuGraphExternalSemaphoresWaitNodeSetParams) \
    X(cuGraphKernelNodeCopyAttributes, 11000, cuGraphKernelNodeCopyAttributes) \
    X(cuGraphKernelNodeGetAttribute, 11000, cuGraphKernelNodeGetAttribute) \
    X(cuGraphKernelNodeSetAttribute, 11000, cuGraphKernelNodeSetAttribute) \
    X(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled) \
    X(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled) \
    X(cuImportExternalMemory, 10000, cuImportExternalMemory) \
    X(cuImportExternalSemaphore, 10000, cuImportExternalSemaphore) \
    X(cuLaunchCooperativeKernelMultiDevice, 9000, cuLaunchCooperativeKernelMultiDevice) \
    X(cuMemMapArrayAsync, 11010, cuMemMapArrayAsync) \
    X(cuMipmappedArrayGetMemoryRequirements, 11060, cuMipmappedArrayGetMemoryRequirements) \
    X(cuMipmappedArrayGetSparseProperties, 11010, cuMipmappedArrayGetSparseProperties) \
    X(cuSignalExternalSemaphoresAsync, 10000, cuSignalExternalSemaphoresAsync) \
    X(cuStreamBatchMemOp, 8000, cuStreamBatchMemOp) \
    X(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2) \
    X(cuStreamWaitValue32, 8000, cuStreamWaitValue32) \
    X(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2) \
    X(cuStreamWaitValue64, 9000, cuStreamWaitValue64) \
    X(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2) \
    X(cuStreamWriteValue32, 8000, cuStreamWriteValue32) \
    X(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2) \
    X(cuStreamWriteValue64, 9000, cuStreamWriteValue64) \
    X(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2) \
    X(cuWaitExternalSemaphoresAsync, 10000, cuWaitExternalSemaphoresAsync)

/* The same, also before cuInit: they are about another process. */
#define SIM_UNSUPPORTED_EARLY(X) \
    X(cuCheckpointProcessCheckpoint, 12080, cuCheckpointProcessCheckpoint) \
    X(cuCheckpointProcessGetRestoreThreadId, 12080, cuCheckpointProcessGetRestoreThreadId) \
    X(cuCheckpointProcessGetState, 12080, cuCheckpointProcessGetState) \
    X(cuCheckpointProcessLock, 12080, cuCheckpointProcessLock) \
    X(cuCheckpointProcessRestore, 12080, cuCheckpointProcessRestore) \
    X(cuCheckpointProcessUnlock, 12080, cuCheckpointProcessUnlock)
/* clang-format on */

#endif
