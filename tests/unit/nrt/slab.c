/* Test small blocks: separate, aligned, passed between threads, and released. */
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MANY = 3000, PASSED = 20000 };

static tarn_runtime *make_runtime(void)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("slab", &runtime));
    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_SLABS));
    return runtime;
}

static tarn_meminfo *allocate(tarn_runtime *runtime, size_t bytes, size_t alignment)
{
    tarn_meminfo_options options = {
        .size = sizeof options, .bytes = bytes, .alignment = alignment};
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
    CHECK_EQUAL(0, (uintptr_t)tarn_meminfo_data(meminfo) % (alignment ? alignment : 16));
    return meminfo;
}

static uint64_t chunk_bytes(tarn_runtime *runtime)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
    return stats.bytes_chunks;
}

TEST(blocks_of_all_sizes_do_not_overlap)
{
    static tarn_meminfo *blocks[MANY];
    tarn_runtime *runtime = make_runtime();

    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = allocate(runtime, i % 1300, (size_t)16 << i % 4);
        memset(tarn_meminfo_data(blocks[i]), (int)(i % 251), i % 1300);
    }
    for (size_t i = 0; i < MANY; i++) {
        const unsigned char *data = tarn_meminfo_data(blocks[i]);
        for (size_t j = 0; j < i % 1300; j++)
            CHECK_EQUAL(i % 251, data[j]);
        CHECK_EQUAL(1, tarn_meminfo_count(blocks[i]));
        tarn_meminfo_release(blocks[i]);
    }
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(a_freed_block_serves_the_next)
{
    tarn_runtime *runtime = make_runtime();
    tarn_meminfo *one = allocate(runtime, 64, 0);

    tarn_meminfo_release(one);
    for (int i = 0; i < 1000; i++) {
        tarn_meminfo *next = allocate(runtime, 64, 0);
        CHECK(next == one);
        tarn_meminfo_release(next);
    }
    CHECK_OK(tarn_runtime_release(runtime));
}

/* Without debug modes: the fast paths. */
TEST(blocks_around_the_largest_small_one_come_and_go)
{
    tarn_runtime_stats before = {.size = sizeof before}, after = {.size = sizeof after};

    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), 0));
    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &before));
    for (int round = 0; round < 3; round++)
        for (unsigned align = 0; align <= 256; align = align ? align * 2 : 1)
            for (size_t bytes = 1000; bytes < 1200; bytes += 11) {
                NRT_MemInfo *one = NRT_MemInfo_alloc_aligned(bytes, align);
                NRT_MemInfo *other = NRT_MemInfo_alloc_aligned(bytes, align);
                CHECK(one != NULL && other != NULL);
                memset(NRT_MemInfo_data(one), 1, bytes);
                memset(NRT_MemInfo_data(other), 2, bytes);
                CHECK_EQUAL(1, *((char *)NRT_MemInfo_data(one) + bytes - 1));
                NRT_MemInfo_release(one);
                NRT_MemInfo_release(other);
            }
    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &after));
    CHECK_EQUAL(before.bytes_live, after.bytes_live);
    CHECK_EQUAL(after.alloc - before.alloc, after.free - before.free);
}

TEST(trim_frees_unused_chunks)
{
    static tarn_meminfo *blocks[MANY];
    tarn_runtime *runtime = make_runtime();

    for (int i = 0; i < MANY; i++)
        blocks[i] = allocate(runtime, 64, 0);
    uint64_t full = chunk_bytes(runtime);
    CHECK(full >= MANY * 128);
    for (int i = 1; i < MANY; i++)
        tarn_meminfo_release(blocks[i]);
    CHECK_EQUAL(full, chunk_bytes(runtime));
    size_t trimmed = tarn_runtime_trim(runtime);
    CHECK_EQUAL(full - trimmed, chunk_bytes(runtime));
    CHECK(chunk_bytes(runtime) < full / 4);
    CHECK(chunk_bytes(runtime) > 0);
    memset(tarn_meminfo_data(blocks[0]), 1, 64);
    for (int i = 1; i < MANY; i++)
        blocks[i] = allocate(runtime, 64, 0);
    for (int i = 0; i < MANY; i++)
        tarn_meminfo_release(blocks[i]);
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, chunk_bytes(runtime));
    CHECK_OK(tarn_runtime_release(runtime));
}

/* Header and MemInfo are 64 bytes, and chunks add a twentieth of a byte for themselves.
 * The check runs when the last chunk is full. */
TEST(memory_costs_64_bytes_a_block)
{
    enum { AT_LEAST = 100000, MOST = 120000 };
    static tarn_meminfo *blocks[MOST];
    tarn_runtime *runtime = make_runtime();
    uint64_t full, count = 0;

    do {
        full = chunk_bytes(runtime);
        CHECK(count < MOST);
        blocks[count++] = allocate(runtime, 64, 0);
    } while (count < AT_LEAST || chunk_bytes(runtime) == full);
    CHECK(full >= (count - 1) * 128);
    CHECK(full < (count - 1) * 128 + count / 20);
    for (uint64_t i = 0; i < count; i++)
        tarn_meminfo_release(blocks[i]);
    CHECK_OK(tarn_runtime_release(runtime));
}

/* Blocks that were never allocated serve every thread, and are returned with the released
 * ones. */
TEST(a_chunk_that_is_not_all_cut_is_shared_and_trimmed)
{
    static tarn_meminfo *blocks[MANY];
    tarn_runtime *runtime = make_runtime();

    for (int i = 0; i < MANY; i++)
        blocks[i] = allocate(runtime, 300, 0);
    uint64_t full = chunk_bytes(runtime);
    for (int i = 0; i < MANY; i++)
        tarn_meminfo_release(blocks[i]);
    tarn_meminfo *live = allocate(runtime, 300, 0);
    size_t trimmed = tarn_runtime_trim(runtime);
    CHECK(trimmed > 0 && trimmed < full);
    CHECK_EQUAL(full - trimmed, chunk_bytes(runtime));
    for (int i = 0; i < MANY; i++) {
        blocks[i] = allocate(runtime, 300, 0);
        memset(tarn_meminfo_data(blocks[i]), i % 251, 300);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(i % 251, ((unsigned char *)tarn_meminfo_data(blocks[i]))[299]);
        tarn_meminfo_release(blocks[i]);
    }
    tarn_meminfo_release(live);
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, chunk_bytes(runtime));
    CHECK_OK(tarn_runtime_release(runtime));
}

/* One thread allocates blocks, another releases them. The chunks stay small, because the
 * blocks return to their thread. */
struct belt {
    tarn_runtime *runtime;
    _Atomic(tarn_meminfo *) places[256]; /* NULL: free */
};

static void *take_off(void *data)
{
    struct belt *belt = data;

    for (int i = 0; i < PASSED; i++) {
        tarn_meminfo *meminfo;
        while (!(meminfo = atomic_exchange(&belt->places[i % 256], NULL)))
            sched_yield();
        if (*(int *)tarn_meminfo_data(meminfo) != i)
            abort();
        tarn_meminfo_release(meminfo);
    }
    return NULL;
}

TEST(blocks_that_other_threads_free_are_reused)
{
    static struct belt belt;
    pthread_t thread;

    belt.runtime = make_runtime();
    CHECK_EQUAL(0, pthread_create(&thread, NULL, take_off, &belt));
    for (int i = 0; i < PASSED; i++) {
        tarn_meminfo *meminfo = allocate(belt.runtime, 64, 0);
        *(int *)tarn_meminfo_data(meminfo) = i;
        while (atomic_load(&belt.places[i % 256]))
            sched_yield();
        atomic_store(&belt.places[i % 256], meminfo);
    }
    pthread_join(thread, NULL);
    CHECK(chunk_bytes(belt.runtime) < 256 * 1024);
    CHECK_OK(tarn_runtime_release(belt.runtime));
}

/* Chunks are returned while other threads split theirs and pass lists on; no chunk
 * contains a live block. */
static void *churn(void *data)
{
    enum { HELD = 300, TURNS = 6000 };
    tarn_meminfo *held[HELD] = {NULL};

    for (size_t i = 0; i < TURNS; i++) {
        tarn_meminfo **place = &held[i * 7 % HELD];
        unsigned char *bytes = *place ? tarn_meminfo_data(*place) : NULL;
        if (bytes && (bytes[0] != bytes[99] || bytes[0] == 0))
            abort();
        tarn_meminfo_release(*place);
        *place = allocate(data, 100 + i % 3 * 100, 0);
        memset(tarn_meminfo_data(*place), 1 + (int)(i % 251), 100);
    }
    for (size_t i = 0; i < HELD; i++)
        tarn_meminfo_release(held[i]);
    return NULL;
}

TEST(chunks_are_trimmed_while_others_allocate)
{
    tarn_runtime *runtime = make_runtime();
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, churn, runtime));
    for (int i = 0; i < 200; i++) {
        tarn_runtime_trim(runtime);
        sched_yield();
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, chunk_bytes(runtime));
    CHECK_OK(tarn_runtime_release(runtime));
}

/* --- allocators ---------------------------------------------------------------------- */

struct pocket {
    size_t out;
    size_t limit; /* of calls */
};

static void *pocket_malloc(size_t size, void *opaque)
{
    struct pocket *pocket = opaque;

    if (pocket->limit == 0)
        return NULL;
    pocket->limit--;
    pocket->out++;
    return malloc(size);
}

static void *pocket_realloc(void *ptr, size_t size, void *opaque)
{
    struct pocket *pocket = opaque;

    if (pocket->limit == 0)
        return NULL;
    pocket->limit--;
    return realloc(ptr, size);
}

static void pocket_free(void *ptr, void *opaque)
{
    ((struct pocket *)opaque)->out--;
    free(ptr);
}

TEST(a_small_block_returns_to_the_allocator_it_came_from)
{
    tarn_runtime *runtime = make_runtime();
    struct pocket pocket = {0, 1000};
    NRT_ExternalAllocator allocator = {pocket_malloc, NULL, pocket_free, &pocket};

    tarn_meminfo *before = allocate(runtime, 64, 0);
    CHECK_OK(tarn_runtime_set_allocator(runtime, &allocator));
    tarn_meminfo *during = allocate(runtime, 64, 0);
    CHECK_EQUAL(1, pocket.out);
    tarn_meminfo_release(before);
    tarn_meminfo *other = allocate(runtime, 64, 0);
    CHECK(other != before); /* the one of libc */
    CHECK_OK(tarn_runtime_set_allocator(runtime, NULL));
    CHECK(allocate(runtime, 64, 0) == before);
    tarn_meminfo_release(during);
    tarn_meminfo_release(other);
    tarn_meminfo_release(before);
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, pocket.out);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(an_allocator_needs_a_malloc_and_a_free)
{
    NRT_ExternalAllocator allocator = {pocket_malloc, NULL, NULL, NULL};

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_runtime_set_allocator(tarn_runtime_default(), &allocator));
    CHECK_MESSAGE("malloc or free is NULL");
}

TEST(allocators_are_numbered_once_and_limited)
{
    static struct pocket pockets[20];
    tarn_runtime *runtime = make_runtime();

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 15; i++) {
            NRT_ExternalAllocator allocator = {pocket_malloc, NULL, pocket_free,
                                               &pockets[i]};
            CHECK_OK(tarn_runtime_set_allocator(runtime, &allocator));
        }
    NRT_ExternalAllocator more = {pocket_malloc, NULL, pocket_free, &pockets[15]};
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_runtime_set_allocator(runtime, &more));
    CHECK_MESSAGE("has used 16 allocators, which is the maximum");
    CHECK_OK(tarn_runtime_release(runtime));
}

/* --- every allocation fails once ----------------------------------------------------- */

/* The operations of a program; all of them are undone, whatever failed. */
static void use_all(tarn_runtime *runtime)
{
    const NRT_api_functions *api = tarn_runtime_api(runtime);
    tarn_meminfo *blocks[40] = {NULL};

    for (size_t i = 0; i < 40; i++) {
        tarn_meminfo_options options = {
            .size = sizeof options, .bytes = i * 97, .alignment = i * 3};
        if (i % 3 == 0)
            blocks[i] = api->allocate(i * 50);
        else if (i % 3 == 1)
            blocks[i] = api->manage_memory(&options, NULL);
        else if (tarn_meminfo_allocate(runtime, &options, &blocks[i]) != TARN_OK)
            blocks[i] = NULL;
    }
    for (size_t i = 0; i < 40; i++)
        tarn_meminfo_release(blocks[i]);
}

static void fail_each(unsigned modes)
{
    struct pocket pocket = {0, 0};
    NRT_ExternalAllocator allocator = {pocket_malloc, pocket_realloc, pocket_free,
                                       &pocket};
    tarn_runtime_stats stats = {.size = sizeof stats};
    size_t successes = 0;

    do {
        tarn_runtime *runtime = make_runtime();
        CHECK_OK(tarn_runtime_set_modes(runtime, modes));
        CHECK_OK(tarn_runtime_set_allocator(runtime, &allocator));
        pocket.limit = successes++;
        use_all(runtime);
        CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
        CHECK_EQUAL(stats.alloc, stats.free);
        CHECK_EQUAL(0, stats.bytes_live);
        CHECK_OK(tarn_runtime_release(runtime));
        CHECK_EQUAL(0, pocket.out);
    } while (stats.failed);
    CHECK(successes > 10);
}

TEST(nothing_is_lost_whichever_allocation_fails)
{
    fail_each(TARN_NRT_SLABS);
    fail_each(TARN_NRT_UNPOOLED);
    fail_each(TARN_NRT_GUARD | TARN_NRT_QUARANTINE | TARN_NRT_SITES);
}

/* The same through the default instance, for functions that work on it alone. */
TEST(varsize_loses_nothing_whichever_allocation_fails)
{
    static struct pocket pocket;
    NRT_ExternalAllocator allocator = {pocket_malloc, pocket_realloc, pocket_free,
                                       &pocket};
    tarn_runtime *runtime = tarn_runtime_default();
    tarn_runtime_stats stats = {.size = sizeof stats};

    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_UNPOOLED));
    CHECK_OK(tarn_runtime_set_allocator(runtime, &allocator));
    for (size_t successes = 0; successes < 8; successes++) {
        pocket.limit = successes;
        NRT_MemInfo *mi = NRT_MemInfo_new_varsize(10);
        if (mi) {
            memset(NRT_MemInfo_data(mi), 6, 10);
            NRT_MemInfo_varsize_realloc(mi, 5000);
            void *old = NRT_MemInfo_data(mi);
            CHECK_EQUAL(6, *(char *)old);
            if (NRT_MemInfo_varsize_alloc(mi, 20))
                NRT_MemInfo_varsize_free(mi, old);
            NRT_MemInfo_release(mi);
        }
        CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
        CHECK_EQUAL(stats.alloc, stats.free);
        CHECK_EQUAL(0, pocket.out);
    }
    CHECK_OK(tarn_runtime_set_allocator(runtime, NULL));
    CHECK_OK(tarn_runtime_set_modes(runtime, 0));
}
