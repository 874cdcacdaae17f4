/* device_test.c -- test the device runtime on host threads instead of a GPU's.
 *
 * Under the thread sanitizer it checks the fences too. A destructor reads the writes of
 * other threads before their releases, with no other order between them.
 */
#define _POSIX_C_SOURCE 200809L /* pthread_barrier_t */
#include "device_host.h"
#include "test.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 16, BLOCKS = 500 };

static struct device_statistics statistics;

static void count_from_zero(void)
{
    memset(&statistics, 0, sizeof statistics);
    statistics.enabled = true;
    device.count_in(&statistics);
}

static void check_counts(unsigned long long alloc, unsigned long long meminfos)
{
    CHECK_EQUAL(alloc, statistics.alloc);
    CHECK_EQUAL(alloc, statistics.free);
    CHECK_EQUAL(meminfos, statistics.mi_alloc);
    CHECK_EQUAL(meminfos, statistics.mi_free);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- the last reference ----------------------------------------------------------------- */

struct shared {
    struct device_meminfo *block[BLOCKS];
    int ends[BLOCKS];  /* written by destructors alone */
    int marks[BLOCKS]; /* bytes that the destructor found set */
    pthread_barrier_t begin;
    bool busy; /* take and drop more references meanwhile */
};

struct worker {
    pthread_t thread;
    struct shared *shared;
    unsigned number;
};

/* The data are one byte per thread; `info` is the place to record the end. */
static void note_end(void *data, size_t size, void *info)
{
    struct shared *shared = *(struct shared **)info;
    size_t which = *(size_t *)((char *)info + sizeof(void *));
    const unsigned char *marks = data;

    shared->ends[which]++;
    for (size_t i = 0; i < size; i++)
        shared->marks[which] += marks[i];
}

/* A plain write, then the release: without fences nothing orders it with the end. */
static void *release_all(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;

    pthread_barrier_wait(&shared->begin);
    for (size_t i = 0; i < BLOCKS; i++) {
        struct device_meminfo *mi = shared->block[i];
        ((unsigned char *)mi->data)[worker->number] = 1;
        for (int more = 0; shared->busy && more < 3; more++) {
            device.incref(mi);
            device.decref(mi);
        }
        device.decref(mi);
    }
    return NULL;
}

struct note {
    struct shared *shared;
    size_t which;
};

static void make_blocks(struct shared *shared, struct note *notes)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        notes[i] = (struct note){shared, i};
        void *data = device.allocate(THREADS);
        shared->block[i] = device.make(data, THREADS, note_end, &notes[i]);
        memset(data, 0, THREADS);
        for (int more = 1; more < THREADS; more++)
            device.incref(shared->block[i]);
        CHECK_EQUAL(THREADS, shared->block[i]->count);
    }
}

static void released_by_all(bool busy, bool in_step)
{
    struct shared *shared = calloc(1, sizeof *shared);
    struct note *notes = calloc(BLOCKS, sizeof *notes);
    struct worker workers[THREADS];
    void *data[BLOCKS];

    count_from_zero();
    shared->busy = busy;
    make_blocks(shared, notes);
    for (size_t i = 0; i < BLOCKS; i++)
        data[i] = shared->block[i]->data;
    pthread_barrier_init(&shared->begin, NULL, THREADS);
    device_lockstep(in_step ? THREADS : 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = shared, .number = i};
        CHECK_EQUAL(0,
                    pthread_create(&workers[i].thread, NULL, release_all, &workers[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    device_lockstep(0);

    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_EQUAL(1, shared->ends[i]);
        CHECK_EQUAL(THREADS, shared->marks[i]);
        device.free(data[i]);
    }
    check_counts(2 * BLOCKS, BLOCKS);
    pthread_barrier_destroy(&shared->begin);
    free(notes);
    free(shared);
}

TEST(one_of_sixteen_releasing_threads_ends_a_block)
{
    released_by_all(false, false);
}

/* This fails if a release decrements and then reads: all threads see 0. */
TEST(one_lane_of_a_releasing_warp_ends_a_block)
{
    released_by_all(false, true);
}

TEST(references_taken_meanwhile_keep_a_block)
{
    released_by_all(true, false);
}

TEST(no_meminfo_is_nothing_to_count)
{
    device.incref(NULL);
    device.decref(NULL);
}

/* --- sizes and alignments --------------------------------------------------------------- */

TEST(sizes_that_wrap_are_rejected)
{
    const unsigned alignments[] = {0, 1, 16, 64, 4096, 1u << 31, ~0u};

    count_from_zero();
    for (size_t below = 0; below < 64; below++)
        for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
            CHECK(!device.alloc_aligned(SIZE_MAX - below, alignments[i]));
            CHECK(!device.alloc_safe_aligned(SIZE_MAX - below, alignments[i]));
        }
    CHECK(!device.alloc(SIZE_MAX));
    CHECK(!device.alloc_dtor(SIZE_MAX, note_end));
    CHECK(!device.varsize(SIZE_MAX));
    check_counts(0, 0);
}

TEST(data_lie_where_they_should_and_are_theirs)
{
    const unsigned alignments[] = {0, 1, 2, 3, 7, 8, 16, 24, 64, 100, 4096};

    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        for (size_t size = 0; size < 70; size++) {
            struct device_meminfo *mi = device.alloc_aligned(size, alignments[i]);
            CHECK_EQUAL(0, (uintptr_t)mi->data % (alignments[i] ? alignments[i] : 16));
            CHECK((char *)mi->data >= (char *)(mi + 1) && mi->size == size);
            CHECK(device.data(mi) == mi->data);
            memset(mi->data, 1, size);
            CHECK_EQUAL(1, mi->count);
            device.decref(mi);
        }
    CHECK_EQUAL(0, device_heap_live());
}

TEST(a_block_of_no_bytes_is_one)
{
    void *block = device.allocate(0);

    CHECK(block);
    device.free(block);
    device.free(NULL);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- destructors -------------------------------------------------------------------------- */

static struct {
    int calls;
    void *data, *info;
    size_t size;
    unsigned char first; /* of the data, at that time */
} seen;

static void see(void *data, size_t size, void *info)
{
    seen.calls++;
    seen.data = data;
    seen.size = size;
    seen.info = info;
    seen.first = size ? *(unsigned char *)data : 0;
}

static void forget(void)
{
    memset(&seen, 0, sizeof seen);
}

TEST(a_destructor_gets_what_it_was_set_up_with)
{
    unsigned char data[4] = {9};
    int mine;

    forget();
    device.decref(device.make(data, sizeof data, see, &mine));
    CHECK_EQUAL(1, seen.calls);
    CHECK(seen.data == data && seen.size == 4 && seen.info == &mine && seen.first == 9);

    forget();
    struct device_meminfo *mi = device.alloc_dtor(24, see);
    void *place = mi->data;
    memset(place, 3, 24);
    device.decref(mi);
    CHECK(seen.calls == 1 && seen.data == place && seen.size == 24 && seen.first == 3);
    CHECK(!seen.info); /* as on CPUs */
    device.decref(device.alloc_dtor(24, NULL));
    CHECK_EQUAL(0, device_heap_live());
}

TEST(safe_blocks_are_filled)
{
    struct device_meminfo *mi = device.alloc_safe(300);
    const unsigned char *data = mi->data;

    CHECK(data[0] == 0xCB && data[255] == 0xCB);
    device.decref(mi);

    mi = device.alloc_safe_aligned(3, 64);
    data = mi->data;
    CHECK((uintptr_t)data % 64 == 0 && data[0] == 0xCB && data[2] == 0xCB);
    device.decref(mi);

    forget();
    device.decref(device.alloc_dtor_safe(8, see));
    CHECK(seen.calls == 1 && seen.size == 8 && seen.first == 0xCB && !seen.info);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- data of variable size ---------------------------------------------------------- */

TEST(elements_are_looked_after_before_their_memory_goes)
{
    forget();
    struct device_meminfo *mi = device.varsize_dtor(16, see);
    void *data = mi->data;
    memset(data, 5, 16);
    device.decref(mi);
    CHECK(seen.calls == 1 && seen.data == data && seen.size == 16 && seen.first == 5);
    CHECK(!seen.info);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- kinds of blocks ---------------------------------------------------------------------- */

static void allocate_other(void *mi)
{
    device.varsize_alloc(mi, 8);
}

static void reallocate(void *mi)
{
    device.varsize_realloc(mi, 8);
}

static void free_other(void *mi)
{
    device.varsize_free(mi, NULL);
}

static void check_kind_is_checked(struct device_meminfo *mi, bool is_varsize)
{
    static void (*const calls[])(void *) = {allocate_other, reallocate, free_other};
    static const char *const names[] = {"varsize_alloc", "varsize_realloc",
                                        "varsize_free"};
    struct device_meminfo before = {0};
    void *data = NULL;

    if (mi) {
        before = *mi;
        data = mi->data;
    }
    for (size_t i = 0; i < 3; i++) {
        const char *message = device_stops(calls[i], mi);
        if (is_varsize) {
            CHECK_TEXT("", message);
            continue;
        }
        CHECK(strstr(message, names[i]) && strstr(message, "has no variable size"));
        CHECK(!mi || memcmp(&before, mi, sizeof before) == 0);
    }
    if (is_varsize)
        device.free(data);
}

TEST(functions_for_variable_sizes_stop_at_other_blocks)
{
    unsigned char data[64] = {0};

    struct device_meminfo *blocks[] = {
        device.alloc(0),
        device.alloc(100),
        device.alloc_aligned(1, 1),
        device.alloc_dtor(8, see),
        device.alloc_safe(64),
        device.alloc_safe_aligned(64, 64),
        device.alloc_dtor_safe(8, see),
        device.make(data, sizeof data, see, NULL),
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        check_kind_is_checked(blocks[i], false);
        device.decref(blocks[i]);
    }
    check_kind_is_checked(NULL, false);
    CHECK_EQUAL(0, device_heap_live());
}

TEST(functions_for_variable_sizes_accept_their_blocks)
{
    struct device_meminfo *mi = device.varsize(4);

    check_kind_is_checked(mi, true);
    device.decref(mi);
    mi = device.varsize_dtor(4, see);
    check_kind_is_checked(mi, true);
    device.decref(mi);
    CHECK_EQUAL(0, device_heap_live());
}

TEST(data_keep_what_fits_when_their_size_changes)
{
    struct device_meminfo *mi = device.varsize(4);

    count_from_zero();
    memcpy(mi->data, "abc", 4);
    CHECK(device.varsize_realloc(mi, 100) == mi->data && mi->size == 100);
    CHECK_TEXT("abc", mi->data);
    CHECK(device.varsize_realloc(mi, 2) == mi->data && mi->size == 2);
    CHECK(!memcmp(mi->data, "ab", 2));
    CHECK(statistics.alloc == 2 && statistics.free == 2);

    void *old = mi->data;
    CHECK(device.varsize_alloc(mi, 8) == mi->data && mi->data != old && mi->size == 8);
    device.varsize_free(mi, old);
    CHECK(mi->data);
    device.varsize_free(mi, mi->data);
    CHECK(!mi->data);
    CHECK(device.varsize_realloc(mi, 3) == mi->data && mi->data);
    device.decref(mi);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- no memory ---------------------------------------------------------------------------- */

TEST(an_allocation_that_failed_is_none_and_loses_nothing)
{
    count_from_zero();
    device_heap_limit(0);
    CHECK(!device.alloc(8) && !device.alloc_aligned(8, 64) && !device.alloc_safe(8));
    CHECK(!device.allocate(8) && !device.make(NULL, 0, NULL, NULL) && !device.varsize(8));
    device_heap_limit(1); /* for the data, not for the MemInfo */
    CHECK(!device.varsize_dtor(8, see));
    device_heap_limit(-1);
    check_counts(1, 0);
}

TEST(data_stay_when_there_are_no_others)
{
    struct device_meminfo *mi = device.varsize(4);
    void *data = mi->data;

    memcpy(data, "abc", 4);
    device_heap_limit(0);
    CHECK(!device.varsize_alloc(mi, 8) && !device.varsize_realloc(mi, 8));
    device_heap_limit(-1);
    CHECK(mi->data == data && mi->size == 4);
    CHECK_TEXT("abc", data);
    device.decref(mi);
    CHECK_EQUAL(0, device_heap_live());
}

/* --- statistics --------------------------------------------------------------------------- */

TEST(nothing_is_counted_while_statistics_are_off)
{
    device.count_in(NULL);
    device.decref(device.alloc(8));
    count_from_zero();
    statistics.enabled = false;
    device.decref(device.varsize(8));
    check_counts(0, 0);
    statistics.enabled = true;
    device.decref(device.varsize(8));
    check_counts(2, 1);
}
