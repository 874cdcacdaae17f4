/* Test clients that misuse the simulator in any way: none of it may harm the simulator
 * itself.
 *
 * A seed draws the calls and their order. Handles are valid, were valid, are of another
 * kind or never existed, and sizes are of all sorts. Calls are made alone and in threads.
 * The results of the calls do not matter here. The sanitizers decide, and the end of the
 * test: the simulator works as before. Only calls that would break the client's own
 * memory are left out.
 */
#define _GNU_SOURCE
#include "driver.h"
#include "base/random.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { STREAM, EVENT, BLOCK, PINNED, POOL, GRAPH, NODE, EXEC, MEMORY, RANGE, KINDS };
enum { SLOTS = 12, BUFFER_BYTES = 1 << 20, PAGE = 4096 };

static atomic_uintptr_t slots[KINDS][SLOTS];
static char buffer[BUFFER_BYTES] __attribute__((aligned(PAGE)));
static char host_buffer[8 * PAGE] __attribute__((aligned(PAGE)));
static atomic_int host_calls;
static _Thread_local uint64_t draws;

static uint64_t below(uint64_t limit)
{
    return tarn__random_below(&draws, limit);
}

static void add_one(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

/* --- arguments --- */

static uintptr_t garbage(void)
{
    static const uintptr_t values[] = {0, 1, 2, 7, 0x1234560, UINTPTR_MAX, 1ul << 46};

    return values[below(sizeof values / sizeof *values)];
}

/* Mostly one of that kind, alive or not; sometimes any other. */
static uintptr_t some(enum kind kind)
{
    uint64_t what = below(10);

    if (what == 0)
        return garbage();
    if (what == 1)
        kind = (enum kind)below(KINDS);
    return atomic_load(&slots[kind][below(SLOTS)]) + (below(20) == 0 ? below(5000) : 0);
}

/* The slot for a new one; the previous one is forgotten, and may still exist. */
static void keep(enum kind kind, uintptr_t value)
{
    if (value)
        atomic_store(&slots[kind][below(SLOTS)], value);
}

#define STREAM_() ((CUstream)some(STREAM))
#define EVENT_() ((CUevent)some(EVENT))
#define POOL_() ((CUmemoryPool)some(POOL))
#define GRAPH_() ((CUgraph)some(GRAPH))
#define NODE_() ((CUgraphNode)some(NODE))
#define EXEC_() ((CUgraphExec)some(EXEC))
#define SOME_ADDRESS() ((CUdeviceptr)some(below(4) ? BLOCK : RANGE))

static size_t size(void)
{
    static const size_t values[] = {0,
                                    1,
                                    255,
                                    256,
                                    4096,
                                    1 << 20,
                                    2 << 20,
                                    4 << 20,
                                    32 << 20,
                                    (size_t)1 << 40,
                                    SIZE_MAX / 2,
                                    SIZE_MAX - 100,
                                    SIZE_MAX};

    return values[below(sizeof values / sizeof *values)];
}

/* The size of the buffer, or more than any block has. */
static size_t host_size(void)
{
    size_t bytes = size();

    return bytes <= BUFFER_BYTES || bytes >= (size_t)1 << 40 ? bytes : 77;
}

static unsigned flags(void)
{
    return (unsigned)(below(3) ? below(3) : below(UINT32_MAX));
}

/* --- calls, each group drawn with the same probability --- */

static void call_memory(void)
{
    CUdeviceptr out = 0;
    void *host = NULL;
    size_t pitch;

    switch (below(14)) {
    case 0:
    case 1:
        driver.cuMemAlloc_v2(&out, size());
        break;
    case 2:
        driver.cuMemAllocManaged(&out, size(), flags());
        break;
    case 3:
        driver.cuMemAllocPitch_v2(&out, &pitch, size(), size(), flags());
        break;
    case 4:
        driver.cuMemHostAlloc(&host, size(), flags());
        keep(PINNED, (uintptr_t)host);
        break;
    case 5:
        driver.cuMemFree_v2(SOME_ADDRESS());
        break;
    case 6:
        driver.cuMemFreeHost((void *)some(PINNED));
        break;
    case 7:
        driver.cuMemHostRegister_v2(host_buffer + below(8) * PAGE / 2, below(3 * PAGE),
                                    flags());
        break;
    case 8:
        driver.cuMemHostUnregister(host_buffer + below(8) * PAGE / 2);
        break;
    case 9:
        driver.cuMemsetD8Async(SOME_ADDRESS(), 1, size(), STREAM_());
        break;
    case 10:
        driver.cuMemcpyDtoDAsync_v2(SOME_ADDRESS(), SOME_ADDRESS(), size(), STREAM_());
        break;
    case 11:
        driver.cuMemcpyHtoDAsync_v2(SOME_ADDRESS(), buffer, host_size(), STREAM_());
        break;
    case 12:
        driver.cuMemcpyDtoH_v2(buffer, SOME_ADDRESS(), host_size());
        break;
    default:
        driver.cuMemsetD2D32_v2(SOME_ADDRESS(), size(), 5, size(), size());
    }
    keep(BLOCK, (uintptr_t)out);
}

static void call_stream(void)
{
    CUstream stream = NULL;
    CUevent event = NULL;
    float time;

    switch (below(14)) {
    case 0:
    case 1:
        driver.cuStreamCreate(&stream, flags());
        break;
    case 2:
        driver.cuEventCreate(&event, flags());
        break;
    case 3:
        driver.cuStreamDestroy_v2(STREAM_());
        break;
    case 4:
        driver.cuEventDestroy_v2(EVENT_());
        break;
    case 5:
    case 6:
        driver.cuEventRecord(EVENT_(), STREAM_());
        break;
    case 7:
    case 8:
        driver.cuStreamWaitEvent(STREAM_(), EVENT_(), (unsigned)below(3));
        break;
    case 9:
        driver.cuStreamQuery(STREAM_());
        driver.cuEventQuery(EVENT_());
        break;
    case 10:
        driver.cuStreamSynchronize(STREAM_());
        break;
    case 11:
        driver.cuEventSynchronize(EVENT_());
        break;
    case 12:
        driver.cuLaunchHostFunc(STREAM_(), add_one, &host_calls);
        break;
    default:
        driver.cuEventElapsedTime(&time, EVENT_(), EVENT_());
    }
    keep(STREAM, (uintptr_t)stream);
    keep(EVENT, (uintptr_t)event);
}

static void call_pool(void)
{
    CUmemPoolProps properties = {
        .allocType = (int)below(4),
        .handleTypes = (int)below(3),
        .location = {(int)below(5), (int)below(3) - 1},
        .maxSize = below(2) ? 0 : size(),
    };
    CUmemAccessDesc access = {{(int)below(4), (int)below(3)}, (int)below(5)};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL;
    CUdeviceptr out = 0;
    uint64_t value = size();
    int file = -1;

    switch (below(11)) {
    case 0:
        driver.cuMemPoolCreate(&pool, &properties);
        break;
    case 1:
        driver.cuMemPoolDestroy(POOL_());
        break;
    case 2:
    case 3:
        driver.cuMemAllocFromPoolAsync(&out, size(), POOL_(), STREAM_());
        break;
    case 4:
        driver.cuMemAllocAsync(&out, size(), STREAM_());
        break;
    case 5:
        driver.cuMemFreeAsync(SOME_ADDRESS(), STREAM_());
        break;
    case 6:
        driver.cuMemPoolTrimTo(POOL_(), size());
        break;
    case 7:
        driver.cuMemPoolSetAttribute(POOL_(), (int)below(10), &value);
        driver.cuMemPoolGetAttribute(POOL_(), (int)below(10), &value);
        break;
    case 8:
        driver.cuMemPoolSetAccess(POOL_(), &access, 1);
        driver.cuDeviceSetMemPool((int)below(3), POOL_());
        break;
    case 9:
        if (driver.cuMemPoolExportToShareableHandle(&file, POOL_(), 1, 0) == 0) {
            driver.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, 1,
                                                      0);
            close(file);
        }
        break;
    default:
        if (driver.cuMemPoolExportPointer(&data, SOME_ADDRESS()) == 0)
            driver.cuMemPoolImportPointer(&out, POOL_(), &data);
    }
    keep(POOL, (uintptr_t)pool);
    keep(BLOCK, (uintptr_t)out);
}

static void call_mapping(void)
{
    CUmemAllocationProp properties = {
        .type = (int)below(3),
        .requestedHandleTypes = (int)below(3),
        .location = {(int)below(4), (int)below(3)},
    };
    CUmemAccessDesc access = {{1, (int)below(3)}, (int)below(5)};
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr range = 0;
    int file;

    if (below(2)) /* one that is valid */
        properties = (CUmemAllocationProp){1, (int)below(2), {1, 0}, 0, {0, 0, 0, {0}}};
    switch (below(9)) {
    case 0:
        driver.cuMemAddressReserve(&range, size(), below(3) ? 0 : size(), 0, 0);
        break;
    case 1:
        driver.cuMemCreate(&memory, size(), &properties, 0);
        break;
    case 2:
    case 3:
        driver.cuMemMap(some(RANGE), size(), 0, some(MEMORY), 0);
        break;
    case 4:
        driver.cuMemSetAccess(some(RANGE), size(), &access, 1);
        break;
    case 5:
        driver.cuMemUnmap(some(RANGE), size());
        break;
    case 6:
        driver.cuMemRelease(some(MEMORY));
        break;
    case 7:
        driver.cuMemAddressFree(some(RANGE), size());
        break;
    default:
        if (driver.cuMemExportToShareableHandle(&file, some(MEMORY), 1, 0) == 0) {
            driver.cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)file, 1);
            close(file);
        }
    }
    keep(MEMORY, (uintptr_t)memory);
    keep(RANGE, (uintptr_t)range);
}

static void call_graph(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {SOME_ADDRESS(),         size(), 1,
                                    1 + (unsigned)below(5), size(), below(3)};
    CUgraphNode node = NULL, after = NODE_(), nodes[4] = {NULL};
    size_t count = 4;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUcontext context = NULL;

    driver.cuCtxGetCurrent(&context);
    switch (below(13)) {
    case 0:
        driver.cuGraphCreate(&graph, 0);
        break;
    case 1:
    case 2:
        driver.cuStreamBeginCapture_v2(STREAM_(), (int)below(4));
        break;
    case 3:
    case 4:
        driver.cuStreamEndCapture(STREAM_(), &graph);
        break;
    case 5:
        driver.cuGraphAddEmptyNode(&node, GRAPH_(), &after, below(2));
        break;
    case 6:
        driver.cuGraphAddMemsetNode(&node, GRAPH_(), &after, below(2), &fill, context);
        break;
    case 7:
        driver.cuGraphAddChildGraphNode(&node, GRAPH_(), &after, below(2), GRAPH_());
        break;
    case 8:
        driver.cuGraphInstantiateWithFlags(&exec, GRAPH_(), below(3));
        break;
    case 9:
    case 10:
        driver.cuGraphLaunch(EXEC_(), STREAM_());
        break;
    case 11:
        driver.cuGraphDestroy(GRAPH_());
        driver.cuGraphExecDestroy(EXEC_());
        driver.cuGraphDestroyNode(NODE_());
        break;
    default:
        driver.cuGraphAddDependencies(GRAPH_(), &after, nodes, 1);
        driver.cuGraphClone(&graph, GRAPH_());
        driver.cuGraphGetNodes(GRAPH_(), nodes, &count);
        keep(NODE, (uintptr_t)nodes[below(4)]);
    }
    keep(GRAPH, (uintptr_t)graph);
    keep(EXEC, (uintptr_t)exec);
    keep(NODE, (uintptr_t)node);
}

static void call_query(void)
{
    CUpointer_attribute which = (CUpointer_attribute)below(25);
    unsigned long long id, pair[4];
    CUipcEventHandle event;
    CUipcMemHandle memory;
    CUdeviceptr start;
    size_t bytes;

    driver.cuStreamGetId(STREAM_(), &id);
    driver.cuMemGetInfo_v2(&bytes, NULL);
    driver.cuMemGetAddressRange_v2(&start, &bytes, SOME_ADDRESS());
    driver.cuPointerGetAttribute(pair, which, SOME_ADDRESS());
    driver.cuIpcGetMemHandle(&memory, SOME_ADDRESS());
    driver.cuIpcGetEventHandle(&event, EVENT_());
    memset((char *)&memory + below(8), (int)below(256), 40);
    driver.cuIpcOpenMemHandle_v2(&start, memory, 1);
    driver.cuIpcCloseMemHandle(SOME_ADDRESS());
}

static void call_context(void)
{
    CUcontext context = NULL;

    if (below(40) == 0)
        driver.cuDevicePrimaryCtxReset_v2(0);
    if (below(40) == 0)
        driver.cuDevicePrimaryCtxRelease_v2((int)below(3));
    driver.cuCtxSynchronize();
    if (driver.cuDevicePrimaryCtxRetain(&context, (int)below(8) == 0) == CUDA_SUCCESS)
        driver.cuCtxSetCurrent(context);
}

static void misbehave(int calls)
{
    static void (*const groups[])(void) = {call_memory,  call_stream, call_pool,
                                           call_mapping, call_graph,  call_query,
                                           call_context};

    for (int i = 0; i < calls; i++)
        groups[below(sizeof groups / sizeof *groups)]();
}

/* --- tests --- */

/* Each misuse prints a line. Return the contents of stderr. */
static int silence_stderr(void)
{
    int saved_stderr = dup(2), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    fflush(stderr);
    dup2(nowhere, 2);
    close(nowhere);
    return saved_stderr;
}

static void restore_stderr(int saved_stderr)
{
    fflush(stderr);
    dup2(saved_stderr, 2);
    close(saved_stderr);
}

/* Check the simulator in any state: a new context, and memory that keeps its contents. */
static void check_it_serves(void)
{
    unsigned char bytes[PAGE] = {0};
    CUdeviceptr block;
    CUstream stream;

    for (int i = 0; i < SLOTS; i++) {
        CUgraph graph;
        driver.cuStreamEndCapture((CUstream)atomic_load(&slots[STREAM][i]), &graph);
    }
    for (CUdevice device = 1; device >= 0; device--) {
        CU(cuDevicePrimaryCtxReset_v2(device));
        use_device(device);
    }
    CHECK_EQUAL(0, driver.configure(NULL));
    CU(cuMemAlloc_v2(&block, PAGE));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemsetD8Async(block, 0x5a, PAGE, stream));
    CU(cuMemcpyDtoHAsync_v2(bytes, block, PAGE, stream));
    CU(cuStreamSynchronize(stream));
    for (int i = 0; i < PAGE; i++)
        CHECK_EQUAL(0x5a, bytes[i]);
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(block));
}

static void misbehave_with(const char *options, int calls)
{
    int saved_stderr = silence_stderr();

    use_device(0);
    CHECK_EQUAL(0, driver.configure(options));
    misbehave(calls);
    CHECK_EQUAL(0, driver.configure("dead=error"));
    check_it_serves();
    restore_stderr(saved_stderr);
}

TEST(hostile_client_harms_nothing)
{
    draws = 1;
    misbehave_with("dead=error,memory=256MiB", 30000);
}

TEST(hostile_client_harms_nothing_in_the_seeded_mode)
{
    draws = 2;
    misbehave_with("dead=error,memory=256MiB,mode=seeded,seed=5,patience=1", 10000);
}

TEST(hostile_client_harms_nothing_with_race_detection)
{
    draws = 3;
    misbehave_with("dead=error,memory=256MiB,races=on", 10000);
}

TEST(hostile_client_harms_nothing_with_failing_calls_and_host_memory)
{
    char options[100];

    for (unsigned seed = 0; seed < 20; seed++) {
        draws = 100 + seed;
        snprintf(options, sizeof options,
                 "dead=error,memory=256MiB,fail=one-in:7,seed=%u,host-memory=fail:%u",
                 seed, 1 + seed * 37);
        misbehave_with(options, 500);
    }
}

static void *misbehave_in_thread(void *seed)
{
    CUcontext context;

    draws = (uintptr_t)seed;
    driver.cuDevicePrimaryCtxRetain(&context, 0);
    driver.cuCtxSetCurrent(context);
    misbehave(3000);
    return NULL;
}

/* They destroy objects that others use, reset the context, and free the sources of
 * copies. */
TEST(hostile_threads_harm_nothing)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int saved_stderr = silence_stderr();

    use_device(0);
    CHECK_EQUAL(0, driver.configure("dead=error,memory=256MiB"));
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(
            0, pthread_create(&threads[i], NULL, misbehave_in_thread, (void *)(200 + i)));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(0, driver.configure("dead=error"));
    check_it_serves();
    restore_stderr(saved_stderr);
}

/* In a forked child every call fails or does nothing, and none changes the parent's
 * state. */
TEST(hostile_child_of_a_fork_harms_nothing)
{
    int saved_stderr = silence_stderr(), status;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("dead=error,memory=256MiB"));
    draws = 300;
    misbehave(500);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++) /* cuStreamDestroy aborts there, as it crashes */
            (below(2) ? call_memory : call_mapping)();
        _exit(0);
    }
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_it_serves();
    restore_stderr(saved_stderr);
}
