/* Test sizes around each boundary: a block returns to the memory that it came from.
 *
 * The simulator rounds requests up: to 512 bytes, from 2 MiB on to 2 MiB, host memory to
 * pages. A size just below a power of two may be below such a boundary as requested and
 * above it as rounded.
 */
#include "driver.h"
#include "base/random.h"
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum {
    DEVICE_MIB = 256,
    LIVE_MIB = 64, /* at most, so that no request fails */
    SHIFT_MAX = 23,
    LIVE = 128,
    STEPS = 5000,
    RUNS = 8,
};

static const int offsets[] = {-513, -512, -511, -257, -1, 0, 1, 257, 511, 512, 513};
enum { OFFSETS = sizeof offsets / sizeof *offsets };

static uint64_t seed;

static unsigned next_random(unsigned below)
{
    return (unsigned)tarn__random_below(&seed, below);
}

/* 2^shift and a little less or more; never 0. */
static size_t size_near(unsigned shift, int offset)
{
    long long bytes = ((long long)1 << shift) + offset;

    return bytes > 0 ? (size_t)bytes : 1;
}

static size_t used(void)
{
    size_t free_bytes, total;

    CU(cuMemGetInfo_v2(&free_bytes, &total));
    return total - free_bytes;
}

/* Check that the device is as before: unused, and in one piece. */
static void check_unused(void)
{
    CUdeviceptr all;

    CHECK_EQUAL(0, used());
    CU(cuMemAlloc_v2(&all, DEVICE_MIB * MIB));
    CHECK_EQUAL(0, all % (2 * MIB));
    CU(cuMemFree_v2(all));
    CHECK_EQUAL(0, used());
}

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* --- blocks ----------------------------------------------------------------------------- */

/* How blocks are allocated and freed. */
struct method {
    void (*allocate)(CUdeviceptr *block, size_t bytes);
    void (*release)(CUdeviceptr block);
    size_t
        whole; /* blocks of at least this many bytes are at multiples of 2 MiB; 0: none */
};

struct live {
    CUdeviceptr block;
    size_t bytes;
    unsigned char mark;
};

static struct live live[LIVE];
static size_t live_count, live_bytes;

/* Mark the first and the last byte; an overlapping block would change them. */
static void allocate_one(const struct method *method, size_t bytes)
{
    struct live *new = &live[live_count++];

    *new = (struct live){.bytes = bytes, .mark = (unsigned char)next_random(256)};
    live_bytes += bytes;
    method->allocate(&new->block, bytes);
    CHECK_EQUAL(0, new->block % 512);
    if (method->whole && rounded(bytes, 512) >= method->whole)
        CHECK_EQUAL(0, new->block % (2 * MIB));
    CU(cuMemsetD8_v2(new->block, new->mark, 1));
    CU(cuMemsetD8_v2(new->block + bytes - 1, new->mark, 1));
}

static void free_one(const struct method *method, size_t at)
{
    struct live old = live[at];
    unsigned char first, last;

    CU(cuMemcpyDtoH_v2(&first, old.block, 1));
    CU(cuMemcpyDtoH_v2(&last, old.block + old.bytes - 1, 1));
    CHECK_EQUAL(old.mark, first);
    CHECK_EQUAL(old.mark, last);
    method->release(old.block);
    live_bytes -= old.bytes;
    live[at] = live[--live_count];
}

static void free_all(const struct method *method)
{
    while (live_count > 0)
        free_one(method, next_random((unsigned)live_count));
}

static void allocate_and_free_randomly(const struct method *method)
{
    for (unsigned i = 0; i < STEPS; i++) {
        size_t bytes =
            size_near(next_random(SHIFT_MAX + 1), offsets[next_random(OFFSETS)]);
        while (live_count == LIVE || live_bytes + bytes > LIVE_MIB * MIB ||
               (live_count > 0 && next_random(5) < 2))
            free_one(method, next_random((unsigned)live_count));
        allocate_one(method, bytes);
    }
    free_all(method);
}

/* Each size alone, beside a small block, and beside one of each other kind. */
static void allocate_pairs(const struct method *method)
{
    for (unsigned shift = 0; shift <= SHIFT_MAX; shift++)
        for (unsigned i = 0; i < OFFSETS; i++) {
            allocate_one(method, 512);
            allocate_one(method, size_near(shift, offsets[i]));
            free_one(method, live_count - 1);
            for (unsigned j = 0; j < 4; j++)
                allocate_one(method, j % 2 ? 2 * MIB : size_near(shift, offsets[i]));
            free_all(method);
        }
}

static void small_device(void)
{
    use_device(0);
    CHECK_EQUAL(0, driver.configure("memory=256MiB"));
}

/* --- device memory ---------------------------------------------------------------------- */

static void allocate_now(CUdeviceptr *block, size_t bytes)
{
    CU(cuMemAlloc_v2(block, bytes));
}

static void free_now(CUdeviceptr block)
{
    CU(cuMemFree_v2(block));
}

static const struct method now = {allocate_now, free_now, 2 << 20};

TEST(sizes_around_each_boundary_leave_the_device_unused)
{
    small_device();
    allocate_pairs(&now);
    check_unused();
    for (unsigned i = 0; i < RUNS; i++) {
        allocate_and_free_randomly(&now);
        check_unused();
    }
    CHECK_EQUAL(0, driver.configure(NULL));
}

/* --- pools ------------------------------------------------------------------------------ */

enum { STREAMS = 3 };

static CUmemoryPool pool;
static CUstream streams[STREAMS];

static void allocate_in_order(CUdeviceptr *block, size_t bytes)
{
    CUstream stream = streams[next_random(STREAMS)];

    CU(cuMemAllocFromPoolAsync(block, bytes, pool, stream));
    CU(cuStreamSynchronize(stream));
}

/* Either call may free a block of a pool. */
static void free_in_order(CUdeviceptr block)
{
    if (next_random(4) == 0)
        CU(cuMemFree_v2(block));
    else
        CU(cuMemFreeAsync(block, streams[next_random(STREAMS)]));
}

static const struct method in_order = {allocate_in_order, free_in_order, 0};

TEST(sizes_around_each_boundary_leave_a_pool_unused)
{
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    uint64_t in_use;

    small_device();
    CU(cuMemPoolCreate(&pool, &properties));
    for (unsigned i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    allocate_pairs(&in_order);
    allocate_and_free_randomly(&in_order);
    CU(cuCtxSynchronize());
    CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &in_use));
    CHECK_EQUAL(0, in_use);
    CU(cuMemPoolTrimTo(pool, 0));
    check_unused();
    for (unsigned i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, driver.configure(NULL));
}

/* --- graphs ----------------------------------------------------------------------------- */

TEST(sizes_around_each_boundary_leave_no_memory_of_graphs)
{
    CUdeviceptr neighbour;

    small_device();
    for (unsigned shift = 0; shift <= SHIFT_MAX; shift++)
        for (unsigned i = 0; i < OFFSETS; i++) {
            CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
                .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                .bytesize = size_near(shift, offsets[i]),
            };
            CUgraphNode node;
            CUgraph graph;
            CU(cuMemAlloc_v2(&neighbour, 512));
            CU(cuGraphCreate(&graph, 0));
            CU(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
            if (rounded(wanted.bytesize, 512) >= 2 * MIB)
                CHECK_EQUAL(0, wanted.dptr % (2 * MIB));
            CU(cuGraphDestroy(graph));
            CU(cuMemFree_v2(neighbour));
            check_unused();
        }
    CHECK_EQUAL(0, driver.configure(NULL));
}

/* --- host memory ------------------------------------------------------------------------ */

/* Blocks whose last page has one byte use as much of the limit as whole ones. */
TEST(sizes_of_managed_memory_count_in_pages_against_the_limit)
{
    enum { BLOCKS = 64 };
    CUdeviceptr blocks[BLOCKS], rest = 0, more;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages;
    int devices;

    small_device();
    CU(cuDeviceGetCount(&devices));
    pages = (size_t)sysconf(_SC_PHYS_PAGES) + DEVICE_MIB * MIB / page * (size_t)devices;
    for (unsigned i = 0; i < BLOCKS; i++)
        CU(cuMemAllocManaged(&blocks[i], (pages / BLOCKS - 1) * page + 1,
                             CU_MEM_ATTACH_GLOBAL));
    if (pages % BLOCKS)
        CU(cuMemAllocManaged(&rest, pages % BLOCKS * page, CU_MEM_ATTACH_GLOBAL));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&more, 1, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemFree_v2(rest));
    for (unsigned i = 0; i < BLOCKS; i++)
        CU(cuMemFree_v2(blocks[i]));
    CU(cuMemAllocManaged(&more, pages * page, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemFree_v2(more));
    CHECK_EQUAL(0, driver.configure(NULL));
}
