/* graph_kernel.c -- the calls for nodes that launch kernels. Such a node can be made,
 * queried and changed; a launch of its graph fails, because kernels do not run. */
#include "sim/graph/graph_kernel.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/context.h"

/* Copy what the client describes. A context other than NULL must be alive. */
static CUresult read(const CUDA_KERNEL_NODE_PARAMS *wanted, struct sim_kernel *out)
{
    struct sim_context *alive;
    CUresult result;

    if (!wanted || !wanted->func == !wanted->kern)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_alive(wanted->ctx, &alive);
    if (result != CUDA_SUCCESS)
        return result;
    *out = (struct sim_kernel){
        .function = wanted->func,
        .kernel = wanted->kern,
        .grid = {wanted->gridDimX, wanted->gridDimY, wanted->gridDimZ},
        .block = {wanted->blockDimX, wanted->blockDimY, wanted->blockDimZ},
        .shared = wanted->sharedMemBytes,
    };
    return sim_kernel_read(out, wanted->kernelParams, wanted->extra);
}

static CUDA_KERNEL_NODE_PARAMS with_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *first)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = first->func,
        .gridDimX = first->gridDimX,
        .gridDimY = first->gridDimY,
        .gridDimZ = first->gridDimZ,
        .blockDimX = first->blockDimX,
        .blockDimY = first->blockDimY,
        .blockDimZ = first->blockDimZ,
        .sharedMemBytes = first->sharedMemBytes,
        .kernelParams = first->kernelParams,
        .extra = first->extra,
    };
}

CUresult sim_graph_kernel_add(const struct sim_graph_place *place,
                              const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    struct sim_kernel kernel;
    struct sim_node *node;
    CUresult result = read(wanted, &kernel);

    if (result != CUDA_SUCCESS)
        return result;
    result = sim_graph_place_add(place, NODE_KERNEL, &node);
    if (result == CUDA_SUCCESS)
        node->kernel = kernel;
    else
        sim_kernel_release(&kernel);
    return result;
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *wanted)
{
    CUDA_KERNEL_NODE_PARAMS params;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    params = with_kernel(wanted);
    sim_lock();
    return sim_lock_leave(sim_graph_kernel_add(
        &(struct sim_graph_place){out, graph, after, count}, &params));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
                                 const CUgraphNode *after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(sim_graph_kernel_add(
        &(struct sim_graph_place){out, graph, after, count}, wanted));
}

static struct sim_node *find(CUgraphNode handle)
{
    struct sim_node *node = sim_graph_find_node(handle);

    return node && node->kind == NODE_KERNEL ? node : NULL;
}

/* The list of arguments belongs to the node. */
static CUDA_KERNEL_NODE_PARAMS describe(const struct sim_kernel *kernel)
{
    const struct sim_arguments *arguments = kernel->arguments;

    return (CUDA_KERNEL_NODE_PARAMS){
        .func = kernel->function,
        .gridDimX = kernel->grid[0],
        .gridDimY = kernel->grid[1],
        .gridDimZ = kernel->grid[2],
        .blockDimX = kernel->block[0],
        .blockDimY = kernel->block[1],
        .blockDimZ = kernel->block[2],
        .sharedMemBytes = kernel->shared,
        .kernelParams = arguments && arguments->count ? arguments->pointers : NULL,
        .kern = kernel->kernel,
    };
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = find(handle);
    if (!out || !node)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = describe(&node->kernel);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    CUDA_KERNEL_NODE_PARAMS params;

    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = find(handle);
    if (!out || !node)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    params = describe(&node->kernel);
    *out = (CUDA_KERNEL_NODE_PARAMS_v1){
        .func = params.func,
        .gridDimX = params.gridDimX,
        .gridDimY = params.gridDimY,
        .gridDimZ = params.gridDimZ,
        .blockDimX = params.blockDimX,
        .blockDimY = params.blockDimY,
        .blockDimZ = params.blockDimZ,
        .sharedMemBytes = params.sharedMemBytes,
        .kernelParams = params.kernelParams,
    };
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult set(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    struct sim_node *node = find(handle);
    struct sim_kernel kernel;
    CUresult result;

    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    result = read(wanted, &kernel);
    if (result != CUDA_SUCCESS)
        return result;
    sim_kernel_release(&node->kernel);
    node->kernel = kernel;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                       const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    return sim_lock_leave(set(handle, wanted));
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle,
                                    const CUDA_KERNEL_NODE_PARAMS_v1 *wanted)
{
    CUDA_KERNEL_NODE_PARAMS params;

    ENTER(CALL_CONTEXT);
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    params = with_kernel(wanted);
    sim_lock();
    return sim_lock_leave(set(handle, &params));
}
