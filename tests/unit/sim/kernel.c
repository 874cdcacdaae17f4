/* Test kernels that do not run: their names and parameters in cubins, nodes of graphs that
 * launch them, conditional nodes, and ignored launches. */
#include "cubin.h"
#include "driver.h"

enum {
    BYTES = 4096,
    DEFAULT_SET = 1,
    BRANCH_IF = 0,
    BRANCH_WHILE = 1,
    BRANCH_SWITCH = 2
};

static struct cubin cubin;
static const struct cubin_kernel kernels[] = {{"plain", STB_GLOBAL, 0},
                                              {"weak", STB_WEAK, 2}};

static CUlibrary load(void)
{
    CUlibrary library;

    use_device(0);
    cubin_build(&cubin, kernels, 2);
    CU(cuLibraryLoadData(&library, cubin.bytes, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static CUkernel kernel_of(CUlibrary library, const char *name)
{
    CUkernel kernel;

    CU(cuLibraryGetKernel(&kernel, library, name));
    return kernel;
}

static CUdeviceptr block_of(unsigned char value)
{
    CUdeviceptr block;

    CU(cuMemAlloc_v2(&block, BYTES));
    CU(cuMemsetD8_v2(block, value, BYTES));
    CU(cuCtxSynchronize());
    return block;
}

static int peek(CUdeviceptr block)
{
    unsigned char byte;

    CU(cuMemcpyDtoH_v2(&byte, block + BYTES - 1, 1));
    return byte;
}

static CUgraph new_graph(void)
{
    CUgraph graph;

    CU(cuGraphCreate(&graph, 0));
    return graph;
}

/* --- cubins --- */

TEST(kernel_names_of_a_cubin_are_found_if_they_are_weak)
{
    CUlibrary library = load();
    CUkernel kernel;
    unsigned count;

    kernel_of(library, "plain");
    kernel_of(library, "weak");
    CU_IS(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "other"));
    CU(cuLibraryGetKernelCount(&count, library));
    CHECK_EQUAL(2, count);
    CU(cuLibraryUnload(library));
}

TEST(kernel_parameters_have_the_places_of_the_cubin)
{
    CUlibrary library = load();
    CUkernel weak = kernel_of(library, "weak"), plain = kernel_of(library, "plain");
    size_t offset = 77, bytes = 77;

    CU(cuKernelGetParamInfo(weak, 1, &offset, &bytes));
    CHECK_EQUAL(8, offset);
    CHECK_EQUAL(8, bytes);
    CU(cuKernelGetParamInfo(weak, 0, &offset, NULL));
    CHECK_EQUAL(0, offset);
    CU(cuFuncGetParamInfo((CUfunction)weak, 1, &offset, &bytes));
    CHECK_EQUAL(8, offset);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(weak, 2, &offset, &bytes));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuKernelGetParamInfo(weak, SIZE_MAX, &offset, &bytes));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(plain, 0, &offset, &bytes));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(weak, 0, NULL, &bytes));
    CU_IS(CUDA_ERROR_INVALID_HANDLE,
          cuKernelGetParamInfo((CUkernel)&offset, 0, &offset, &bytes));
    CU(cuLibraryUnload(library));
}

/* Bytes of the notes and of the symbols change, not those of the section table: it has
 * the length of the image. */
TEST(kernel_cubins_with_wrong_bytes_do_no_harm)
{
    use_device(0);
    cubin_build(&cubin, kernels, 2);
    for (unsigned i = sizeof(Elf64_Ehdr); i < cubin.used; i++) {
        unsigned char old = cubin.bytes[i];
        size_t offset, bytes;
        CUlibrary library;
        CUkernel kernel;
        cubin.bytes[i] ^= 0xff;
        if (driver.cuLibraryLoadData(&library, cubin.bytes, NULL, NULL, 0, NULL, NULL,
                                     0) == CUDA_SUCCESS) {
            if (driver.cuLibraryGetKernel(&kernel, library, "weak") == CUDA_SUCCESS)
                for (size_t number = 0; number < 3; number++)
                    driver.cuKernelGetParamInfo(kernel, number, &offset, &bytes);
            CU(cuLibraryUnload(library));
        }
        cubin.bytes[i] = old;
    }
}

TEST(kernel_code_for_the_linker_loads)
{
    static const unsigned char code[64] = {0xed, 0x43, 0x4e, 0x7f, 1};
    CUlibrary library;

    use_device(0);
    CU(cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryUnload(library));
}

/* --- nodes --- */

static CUDA_KERNEL_NODE_PARAMS params_of(CUkernel kernel, void **arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS){.gridDimX = 3,
                                     .gridDimY = 2,
                                     .gridDimZ = 1,
                                     .blockDimX = 64,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = 128,
                                     .kernelParams = arguments,
                                     .kern = kernel};
}

TEST(kernel_nodes_copy_their_arguments)
{
    CUlibrary library = load();
    uint64_t first = 11, second = 22;
    void *arguments[] = {&first, &second};
    CUDA_KERNEL_NODE_PARAMS wanted = params_of(kernel_of(library, "weak"), arguments),
                            got;
    CUgraph graph = new_graph(), clone;
    CUgraphExec exec;
    CUgraphNode node, copy;

    CU(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    first = second = 0;
    CU(cuGraphKernelNodeGetParams_v2(node, &got));
    CHECK(got.kern == wanted.kern && got.func == NULL);
    CHECK_EQUAL(3, got.gridDimX);
    CHECK_EQUAL(128, got.sharedMemBytes);
    CHECK_EQUAL(11, *(uint64_t *)got.kernelParams[0]);
    CHECK_EQUAL(22, *(uint64_t *)got.kernelParams[1]);
    CU(cuGraphClone(&clone, graph));
    first = 33;
    CU(cuGraphKernelNodeSetParams_v2(node, &wanted));
    CU(cuGraphKernelNodeGetParams_v2(node, &got));
    CHECK_EQUAL(33, *(uint64_t *)got.kernelParams[0]);
    CU(cuGraphNodeFindInClone(&copy, node, clone));
    CU(cuGraphKernelNodeGetParams_v2(copy, &got));
    CHECK_EQUAL(11, *(uint64_t *)got.kernelParams[0]);
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuGraphLaunch(exec, NULL));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuGraphDestroy(clone));
    CU(cuLibraryUnload(library));
}

TEST(kernel_nodes_reject_what_is_not_a_launch)
{
    CUlibrary library = load();
    uint64_t value = 1;
    void *arguments[] = {&value, NULL}, *extra[] = {(void *)1, NULL, (void *)9};
    CUkernel weak = kernel_of(library, "weak");
    CUDA_KERNEL_NODE_PARAMS wanted = params_of(weak, arguments);
    CUgraph graph = new_graph();
    CUgraphNode node;

    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0,
                                  &wanted)); /* an argument is NULL */
    arguments[1] = &value;
    wanted.blockDimX = 2048;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    wanted.blockDimX = 64;
    wanted.extra = extra;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    wanted.kernelParams = NULL;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    wanted = params_of((CUkernel)&value, arguments);
    CU_IS(CUDA_ERROR_INVALID_HANDLE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    wanted = params_of(weak, arguments);
    wanted.func = (CUfunction)weak;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphKernelNodeGetParams_v2((CUgraphNode)&value, &wanted));
    CU(cuGraphDestroy(graph));
    CU(cuLibraryUnload(library));
}

TEST(kernel_launches_in_a_capture_become_nodes)
{
    CUlibrary library = load();
    uint64_t values[2] = {5, 6};
    void *arguments[] = {&values[0], &values[1]};
    CUfunction function;
    CUstream stream;
    CUgraph graph;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS got;
    size_t count = 1;

    CU(cuKernelGetFunction(&function, kernel_of(library, "weak")));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphGetNodes(graph, &node, &count));
    CHECK_EQUAL(1, count);
    CU(cuGraphKernelNodeGetParams_v2(node, &got));
    CHECK_EQUAL(6, *(uint64_t *)got.kernelParams[1]);
    CU_IS(CUDA_ERROR_NOT_SUPPORTED,
          cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
    CU(cuLibraryUnload(library));
}

/* --- conditional nodes --- */

/* Add a node with a memset to `10 + number` in each branch. */
static CUresult add_branches(CUgraph graph, unsigned value, int type, unsigned count,
                             CUdeviceptr memory)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = memory, .elementSize = 1, .width = BYTES, .height = 1};
    CUgraphNode node;

    CU(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, NULL, value,
                                      DEFAULT_SET));
    params.conditional.type = type;
    params.conditional.size = count;
    CUresult result = driver.cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
        fill.value = 10 + i;
        CU(cuGraphAddMemsetNode(&node, params.conditional.phGraph_out[i], NULL, 0, &fill,
                                NULL));
    }
    return result;
}

/* The byte that a launch leaves in memory of ones, or the error of the launch. */
static int taken(unsigned value, int type, unsigned count)
{
    CUdeviceptr memory = block_of(1);
    CUgraph graph = new_graph(), clone;
    CUgraphExec exec;
    int byte;

    CHECK_EQUAL(CUDA_SUCCESS, add_branches(graph, value, type, count, memory));
    CU(cuGraphClone(&clone, graph));
    CU(cuGraphDestroy(graph));
    CU(cuGraphInstantiateWithFlags(&exec, clone, 0));
    CUresult result = driver.cuGraphLaunch(exec, NULL);
    CU(cuCtxSynchronize());
    byte = peek(memory);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(clone));
    CU(cuMemFree_v2(memory));
    return result == CUDA_SUCCESS ? byte : -(int)result;
}

TEST(kernel_conditions_take_the_branch_of_their_default)
{
    use_device(0);
    CHECK_EQUAL(10, taken(1, BRANCH_IF, 1));
    CHECK_EQUAL(1, taken(0, BRANCH_IF, 1));
    CHECK_EQUAL(10, taken(7, BRANCH_IF, 2));
    CHECK_EQUAL(11, taken(0, BRANCH_IF, 2));
    CHECK_EQUAL(12, taken(2, BRANCH_SWITCH, 4));
    CHECK_EQUAL(1, taken(4, BRANCH_SWITCH, 4));
    CHECK_EQUAL(1, taken(0, BRANCH_WHILE, 1));
    CHECK_EQUAL(-CUDA_ERROR_NOT_SUPPORTED, taken(1, BRANCH_WHILE, 1));
}

TEST(kernel_conditions_can_be_nested_and_captured_into)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraph graph = (use_device(0), new_graph()), body;
    CUdeviceptr memory = block_of(1), other = block_of(1);
    CUgraphExec exec;
    CUgraphNode node;
    CUstream stream;

    CU(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, NULL, 1,
                                      DEFAULT_SET));
    params.conditional.size = 1;
    CU(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
    body = params.conditional.phGraph_out[0];
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuMemsetD8Async(memory, 2, BYTES, stream));
    CU(cuStreamEndCapture(stream, &body));
    CHECK_EQUAL(CUDA_SUCCESS, add_branches(body, 1, BRANCH_SWITCH, 2, other));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(body));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphDestroy(graph));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(2, peek(memory));
    CHECK_EQUAL(11, peek(other));
    CU(cuGraphExecDestroy(exec));
    CU(cuMemFree_v2(memory));
    CU(cuMemFree_v2(other));
    CU(cuStreamDestroy_v2(stream));
}

TEST(kernel_conditions_reject_wrong_values)
{
    CUgraphConditionalHandle handle;
    CUgraph graph = (use_device(0), new_graph()), other = new_graph();
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphNode node;
    static const struct {
        int type;
        unsigned size;
    } wrong[] = {{0, 0}, {0, 3},          {1, 0}, {1, 2},
                 {2, 0}, {2, UINT32_MAX}, {3, 1}, {-1, 1}};

    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphConditionalHandleCreate(NULL, graph, NULL, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 2));
    CU(cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 0));
    params.conditional.handle = handle;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        params.conditional.type = wrong[i].type;
        params.conditional.size = wrong[i].size;
        CU_IS(CUDA_ERROR_INVALID_VALUE,
              cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
    }
    params.conditional.type = 0;
    params.conditional.size = 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddNode_v2(&node, other, NULL, NULL, 0, &params));
    params.conditional.handle = handle + 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
    CU(cuGraphDestroy(graph));
    CU(cuGraphDestroy(other));
}

/* Each of the simulator's own requests for memory fails once. */
TEST(kernel_nodes_and_conditions_survive_a_lack_of_host_memory)
{
    CUlibrary library = load();
    uint64_t values[2] = {5, 6};
    void *arguments[] = {&values[0], &values[1]};
    CUDA_KERNEL_NODE_PARAMS wanted = params_of(kernel_of(library, "weak"), arguments);
    unsigned long long faults = 1;
    char options[64];

    for (unsigned nth = 1; faults > 0 && nth < 1000; nth++) {
        CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
        CUgraph graph = new_graph(), clone = NULL;
        CUgraphNode node;
        CU(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, NULL, 0, 0));
        params.conditional.type = BRANCH_SWITCH;
        params.conditional.size = 3;
        snprintf(options, sizeof options, "host-memory=fail:%u", nth);
        driver.configure(options);
        driver.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &wanted);
        driver.cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params);
        driver.cuGraphClone(&clone, graph);
        faults = driver.faults();
        driver.configure(NULL);
        if (clone)
            CU(cuGraphDestroy(clone));
        CU(cuGraphDestroy(graph));
    }
    CHECK_EQUAL(0, faults);
    CU(cuLibraryUnload(library));
}

/* --- ignored launches --- */

static CUresult launch(CUlibrary library, CUdeviceptr address, CUstream stream)
{
    uint64_t number = 7;
    void *arguments[] = {&address, &number};

    return driver.cuLaunchKernel((CUfunction)kernel_of(library, "weak"), 1, 1, 1, 32, 1,
                                 1, 0, stream, arguments, NULL);
}

TEST(kernel_ignored_launches_make_their_memory_unknown)
{
    CUlibrary library = load();
    CUdeviceptr memory = block_of(1), other = block_of(2);

    CHECK_EQUAL(0, driver.configure("launches=ignore"));
    CHECK_EQUAL(CUDA_SUCCESS, launch(library, memory + 64, NULL));
    CHECK(driver.unknown_reads() == 0);
    CHECK_EQUAL(2, peek(other));
    CHECK(driver.unknown_reads() == 0);
    CHECK_EQUAL(1, peek(memory));
    CHECK(driver.unknown_reads() == 1);
    CU(cuMemcpyDtoD_v2(other, memory, 8)); /* what is copied from it is unknown, too */
    peek(other);
    CHECK(driver.unknown_reads() == 2);
    CU(cuMemsetD8_v2(memory, 5, BYTES / 2));
    peek(memory);
    CHECK(driver.unknown_reads() == 3);
    CU(cuMemsetD8_v2(memory, 5, BYTES));
    CU(cuMemcpyDtoD_v2(other, memory, BYTES));
    peek(memory);
    peek(other);
    CHECK(driver.unknown_reads() == 3);
    driver.configure(NULL);
    CHECK(driver.unknown_reads() == 0);
    CHECK_EQUAL(CUDA_ERROR_NOT_SUPPORTED, launch(library, memory, NULL));
    CU(cuMemFree_v2(memory));
    CU(cuMemFree_v2(other));
    CU(cuLibraryUnload(library));
}

TEST(kernel_ignored_launches_in_a_graph_keep_its_order)
{
    CUlibrary library = load();
    CUdeviceptr memory = block_of(1);
    CUstream stream;
    CUgraphExec exec;
    CUgraph graph;

    CHECK_EQUAL(0, driver.configure("launches=ignore"));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuMemsetD8Async(memory, 3, BYTES, stream));
    CHECK_EQUAL(CUDA_SUCCESS, launch(library, memory, stream));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(3, peek(memory));
    CHECK(driver.unknown_reads() == 1);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(memory));
    CU(cuLibraryUnload(library));
    driver.configure(NULL);
}

TEST(kernel_ignored_launches_race_with_writes)
{
    CUlibrary library = load();
    CUdeviceptr memory = block_of(1);
    CUstream one, two;

    CU(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CHECK_EQUAL(0, driver.configure("launches=ignore,races=on"));
    CHECK_EQUAL(CUDA_SUCCESS, launch(library, memory, one));
    CHECK_EQUAL(CUDA_SUCCESS, launch(library, memory, two)); /* both may only read */
    CHECK(driver.races() == 0);
    CU(cuMemsetD8Async(memory, 2, BYTES, two));
    CHECK(driver.races() == 1);
    CU(cuCtxSynchronize());
    driver.configure(NULL);
    CU(cuMemFree_v2(memory));
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(two));
    CU(cuLibraryUnload(library));
}
