/* sim_layout.h -- the structures that the simulator reads, as S(type) and F(type, field).
 *
 * sim_ours.c measures them in sim/core/cuda.h and sim.c in NVIDIA's cuda.h; the two headers
 * cannot be in one file.
 */
/* clang-format off */
#define SIM_LAYOUT(S, F) \
    S(CUDA_MEMCPY2D) F(CUDA_MEMCPY2D, srcXInBytes) F(CUDA_MEMCPY2D, srcMemoryType) \
    F(CUDA_MEMCPY2D, srcHost) F(CUDA_MEMCPY2D, srcDevice) F(CUDA_MEMCPY2D, srcPitch) \
    F(CUDA_MEMCPY2D, dstXInBytes) F(CUDA_MEMCPY2D, dstMemoryType) F(CUDA_MEMCPY2D, dstHost) \
    F(CUDA_MEMCPY2D, dstDevice) F(CUDA_MEMCPY2D, dstPitch) F(CUDA_MEMCPY2D, WidthInBytes) \
    F(CUDA_MEMCPY2D, Height) \
    S(CUDA_MEMCPY3D) F(CUDA_MEMCPY3D, srcZ) F(CUDA_MEMCPY3D, srcHost) \
    F(CUDA_MEMCPY3D, srcPitch) F(CUDA_MEMCPY3D, srcHeight) F(CUDA_MEMCPY3D, dstXInBytes) \
    F(CUDA_MEMCPY3D, dstHost) F(CUDA_MEMCPY3D, dstPitch) F(CUDA_MEMCPY3D, Depth) \
    S(CUDA_MEMCPY3D_PEER) F(CUDA_MEMCPY3D_PEER, srcContext) F(CUDA_MEMCPY3D_PEER, srcPitch) \
    F(CUDA_MEMCPY3D_PEER, dstContext) F(CUDA_MEMCPY3D_PEER, dstHeight) \
    F(CUDA_MEMCPY3D_PEER, Depth) \
    S(CUmemPoolProps) F(CUmemPoolProps, allocType) F(CUmemPoolProps, handleTypes) \
    F(CUmemPoolProps, location) F(CUmemPoolProps, maxSize) F(CUmemPoolProps, usage) \
    S(CUmemLocation) F(CUmemLocation, type) F(CUmemLocation, id) \
    S(CUmemAccessDesc) F(CUmemAccessDesc, location) F(CUmemAccessDesc, flags) \
    S(CUlaunchConfig) F(CUlaunchConfig, gridDimX) F(CUlaunchConfig, blockDimX) \
    F(CUlaunchConfig, sharedMemBytes) F(CUlaunchConfig, hStream) F(CUlaunchConfig, attrs) \
    F(CUlaunchConfig, numAttrs) \
    S(CUDA_MEMSET_NODE_PARAMS) F(CUDA_MEMSET_NODE_PARAMS, value) \
    F(CUDA_MEMSET_NODE_PARAMS, elementSize) F(CUDA_MEMSET_NODE_PARAMS, height) \
    S(CUDA_HOST_NODE_PARAMS) F(CUDA_HOST_NODE_PARAMS, userData) \
    S(CUDA_MEM_ALLOC_NODE_PARAMS) F(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs) \
    F(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize) F(CUDA_MEM_ALLOC_NODE_PARAMS, dptr) \
    S(CUgraphEdgeData) S(CUDA_GRAPH_INSTANTIATE_PARAMS) \
    F(CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream) \
    F(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out) \
    F(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out) \
    S(CUgraphExecUpdateResultInfo) F(CUgraphExecUpdateResultInfo, errorNode) \
    S(CUgraphNodeParams) F(CUgraphNodeParams, memcpy) F(CUgraphNodeParams, memset.ctx) \
    F(CUgraphNodeParams, memcpy.copyParams) F(CUgraphNodeParams, graph.graph) \
    F(CUgraphNodeParams, alloc.dptr) F(CUgraphNodeParams, reserved2) \
    F(CUgraphNodeParams, kernel.kern) F(CUgraphNodeParams, conditional.phGraph_out) \
    S(CUDA_KERNEL_NODE_PARAMS_v1) F(CUDA_KERNEL_NODE_PARAMS_v1, extra) \
    S(CUDA_KERNEL_NODE_PARAMS) F(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) \
    F(CUDA_KERNEL_NODE_PARAMS, kernelParams) F(CUDA_KERNEL_NODE_PARAMS, kern) \
    F(CUDA_KERNEL_NODE_PARAMS, ctx) \
    S(CUDA_CONDITIONAL_NODE_PARAMS) F(CUDA_CONDITIONAL_NODE_PARAMS, type) \
    F(CUDA_CONDITIONAL_NODE_PARAMS, size) F(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out) \
    F(CUDA_CONDITIONAL_NODE_PARAMS, ctx) \
    S(CUDA_ARRAY_DESCRIPTOR) F(CUDA_ARRAY_DESCRIPTOR, Format) \
    F(CUDA_ARRAY_DESCRIPTOR, NumChannels) S(CUDA_ARRAY3D_DESCRIPTOR) \
    F(CUDA_ARRAY3D_DESCRIPTOR, Depth) F(CUDA_ARRAY3D_DESCRIPTOR, Format) \
    F(CUDA_ARRAY3D_DESCRIPTOR, Flags) \
    S(CUDA_RESOURCE_DESC) F(CUDA_RESOURCE_DESC, res.linear.sizeInBytes) \
    F(CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes) F(CUDA_RESOURCE_DESC, flags) \
    S(CUDA_TEXTURE_DESC) F(CUDA_TEXTURE_DESC, filterMode) F(CUDA_TEXTURE_DESC, reserved) \
    S(CUDA_RESOURCE_VIEW_DESC) F(CUDA_RESOURCE_VIEW_DESC, lastLayer) \
    S(CUlaunchAttribute) F(CUlaunchAttribute, value) \
    S(CUuuid) S(CUipcMemHandle) S(CUipcEventHandle) S(CUdeviceptr) S(CUdevice) S(CUresult) \
    S(CUdevice_attribute) S(CUpointer_attribute) S(CUmemorytype) S(CUmemAccess_flags)
/* clang-format on */

#define SIM_MEASURE_SIZE(type) sizeof(type),
#define SIM_MEASURE_FIELD(type, field) offsetof(type, field),
