/* Test Numba's names: facts that facts.c cannot check on every core, and detected misuse.
 */
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char last_misuse[512]; /* the last misuse */
static int misuses;

static void record_misuse(void *data, const char *message)
{
    CHECK(data == last_misuse);
    snprintf(last_misuse, sizeof last_misuse, "%s", message);
    misuses++;
}

/* Return what was allocated. The test ends where there was no memory. */
static void *got(void *allocated)
{
    CHECK(allocated != NULL);
    return allocated;
}

/* Slabs by name, so that late releases find the same memory under sanitizers too. */
static void begin(void)
{
    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), TARN_NRT_SLABS));
    tarn_nrt_set_misuse_handler(record_misuse, last_misuse);
    last_misuse[0] = 0;
    misuses = 0;
}

static void end(void)
{
    tarn_nrt_set_misuse_handler(NULL, NULL);
    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), 0));
}

static tarn_runtime_stats stats(void)
{
    tarn_runtime_stats read = {.size = sizeof read};

    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &read));
    return read;
}

#define CHECK_MISUSE(text)                                             \
    do {                                                               \
        CHECK_EQUAL(1, misuses);                                       \
        if (!strstr(last_misuse, text))                                \
            fail_msg("\"%s\" does not say \"%s\"", last_misuse, text); \
        CHECK_MESSAGE(text);                                           \
        misuses = 0;                                                   \
    } while (0)

TEST(late_calls_have_different_messages)
{
    begin();
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    NRT_MemInfo_release(mi);
    NRT_MemInfo_release(mi);
    CHECK_MISUSE("release of MemInfo");
    NRT_MemInfo_acquire(mi);
    CHECK_MISUSE("acquire of MemInfo");
    CHECK_EQUAL(0, tarn_meminfo_count(mi));
    NRT_MemInfo_call_dtor(mi);
    CHECK_MISUSE("was freed before (runtime default)");
    NRT_MemInfo_destroy(mi);
    CHECK_MISUSE("destroy");
    NRT_dealloc(mi);
    CHECK_MISUSE("dealloc of MemInfo");
    CHECK(!tarn_meminfo_runtime(mi));
    CHECK_MESSAGE("is not a live MemInfo");
    void *raw = got(NRT_Allocate(10));
    NRT_Free(raw);
    NRT_Free(raw);
    CHECK_MISUSE("was freed before");
    CHECK(!NRT_Reallocate(raw, 20));
    CHECK_MISUSE("realloc of memory");
    end();
}

TEST(foreign_memory_is_rejected)
{
    static _Alignas(16) char others[128];

    begin();
    NRT_Free(others + 64);
    CHECK_MISUSE("is not a block of Tarn");
    NRT_MemInfo_release((NRT_MemInfo *)(void *)(others + 64));
    CHECK_MISUSE("release of MemInfo");
    NRT_MemInfo_init((NRT_MemInfo *)(void *)(others + 64), NULL, 0, NULL, NULL, NULL);
    CHECK_MISUSE("requires 48 bytes of NRT_Allocate()");
    end();
}

TEST(misuse_is_counted_by_the_instance)
{
    begin();
    uint64_t before = stats().misuses;
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    NRT_MemInfo_release(mi);
    NRT_MemInfo_release(mi);
    CHECK_EQUAL(before + 1, stats().misuses);
    end();
}

static void release_again(void *data, size_t size, void *info)
{
    (void)data;
    (void)size;
    tarn_meminfo_release(*(NRT_MemInfo **)info);
}

TEST(a_destructor_that_releases_its_own_block_is_caught)
{
    NRT_MemInfo *mi;

    begin();
    mi = got(NRT_MemInfo_new(last_misuse, 1, release_again, &mi));
    NRT_MemInfo_release(mi);
    CHECK_MISUSE("is being destroyed");
    CHECK_EQUAL(stats().mi_alloc, stats().mi_free);
    end();
}

TEST(only_varsize_blocks_change_their_size)
{
    begin();
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    CHECK(!NRT_MemInfo_varsize_alloc(mi, 20));
    CHECK_MISUSE("varsize_alloc: MemInfo");
    CHECK(!NRT_MemInfo_varsize_realloc(mi, 20));
    CHECK_MISUSE("has no variable size");
    NRT_MemInfo_release(mi);
    end();
}

TEST(raw_memory_becomes_a_meminfo)
{
    tarn_runtime_stats before = stats();
    NRT_MemInfo *mi = got(NRT_Allocate(48));
    int value = 0;

    NRT_MemInfo_init(mi, &value, 4, NULL, &value, NULL);
    CHECK_EQUAL(1, NRT_MemInfo_refcount(mi));
    CHECK(NRT_MemInfo_data(mi) == &value);
    CHECK(NRT_MemInfo_parent(mi) == &value);
    CHECK_EQUAL(4, NRT_MemInfo_size(mi));
    CHECK_EQUAL(before.mi_alloc + 1, stats().mi_alloc);
    CHECK_EQUAL(before.alloc + 1, stats().alloc);
    NRT_MemInfo_release(mi);
    CHECK_EQUAL(before.mi_free + 1, stats().mi_free);
    CHECK_EQUAL(before.free + 1, stats().free);
}

TEST(dealloc_counts_the_block_and_destroy_the_meminfo_too)
{
    tarn_runtime_stats before = stats();

    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    NRT_MemInfo_destroy(mi);
    CHECK_EQUAL(before.mi_free + 1, stats().mi_free);
    mi = got(NRT_Allocate(48));
    NRT_MemInfo_init(mi, NULL, 0, NULL, NULL, NULL);
    NRT_dealloc(mi);
    CHECK_EQUAL(before.mi_free + 1, stats().mi_free);
    CHECK_EQUAL(before.free + 2, stats().free);
}

TEST(reallocate_keeps_the_contents)
{
    char *raw = got(NRT_Reallocate(NULL, 10));

    memcpy(raw, "123456789", 10);
    for (size_t size = 10; size < 200000; size = size * 3 / 2 + 1) {
        raw = got(NRT_Reallocate(raw, size));
        CHECK_EQUAL(0, memcmp(raw, "123456789", 9));
        memset(raw + 9, 7, size - 9);
    }
    raw = got(NRT_Reallocate(raw, 10));
    CHECK_EQUAL(0, memcmp(raw, "123456789", 9));
    tarn_runtime_stats before = stats();
    CHECK(!NRT_Reallocate(raw, SIZE_MAX - 8));
    CHECK(!NRT_Reallocate(raw, (size_t)1 << 61));
    CHECK_EQUAL(0, memcmp(raw, "123456789", 9));
    CHECK_EQUAL(before.bytes_live, stats().bytes_live);
    raw = NRT_Reallocate(raw, 0);
    CHECK(raw);
    NRT_Free(raw);
}

static size_t given, taken;

static void *give(size_t size, void *opaque)
{
    given++;
    return opaque ? NULL : malloc(size);
}

static void take(void *ptr, void *opaque)
{
    (void)opaque;
    taken++;
    free(ptr);
}

TEST(raw_memory_returns_to_its_external_allocator)
{
    static NRT_ExternalAllocator allocator = {give, NULL, take, NULL};

    given = taken = 0;
    char *raw = got(NRT_Allocate_External(100, &allocator));
    memset(raw, 4, 100);
    raw = got(NRT_Reallocate(raw, 1000));
    CHECK_EQUAL(4, raw[99]);
    CHECK_EQUAL(2, given);
    CHECK_EQUAL(1, taken);
    NRT_Free(raw);
    CHECK_EQUAL(2, taken);
    NRT_MemInfo *mi = got(NRT_Allocate_External(48, &allocator));
    NRT_MemInfo_init(mi, NULL, 0, NULL, NULL, &allocator);
    NRT_MemInfo_release(mi);
    CHECK_EQUAL(3, taken);
}

TEST(a_failing_external_allocator_is_null_and_a_message)
{
    static NRT_ExternalAllocator allocator = {give, NULL, take, &allocator};

    CHECK(!NRT_MemInfo_alloc_external(100, &allocator));
    CHECK_MESSAGE("runtime default cannot allocate 100 bytes");
    CHECK(!NRT_Allocate_External(100, &allocator));
}

TEST(a_meminfo_reports_its_fields)
{
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    char wanted[64], dumped[64] = "";
    FILE *file = got(tmpfile());

    NRT_MemInfo_acquire(mi);
    NRT_MemInfo_dump(mi, file);
    snprintf(wanted, sizeof wanted, "MemInfo %p refcount 2\n", (void *)mi);
    CHECK_EQUAL(0, fseek(file, 0, SEEK_SET));
    CHECK(fgets(dumped, sizeof dumped, file));
    CHECK_TEXT(wanted, dumped);
    fclose(file);
    CHECK(tarn_meminfo_runtime(mi) == tarn_runtime_default());
    CHECK_EQUAL((size_t)-1, NRT_MemInfo_refcount(NULL));
    NRT_MemInfo_release(mi);
    NRT_MemInfo_release(mi);
    mi = got(NRT_MemInfo_new(NULL, 0, NULL, NULL));
    CHECK_EQUAL((size_t)-1, NRT_MemInfo_refcount(mi));
    NRT_MemInfo_release(mi);
}

TEST(the_memsys_counters_are_what_numba_expects)
{
    CHECK_EQUAL(0, NRT_MemSys_stats_enabled());
    CHECK_EQUAL(0x41414141, NRT_MemSys_get_stats_alloc());
    NRT_MemSys_enable_stats();
    size_t before = NRT_MemSys_get_stats_alloc();
    NRT_MemInfo *one = got(NRT_MemInfo_alloc(1));
    CHECK_EQUAL(before + 1, NRT_MemSys_get_stats_alloc());
    NRT_MemSys_disable_stats();
    NRT_MemInfo *other = got(NRT_MemInfo_alloc(1));
    CHECK_EQUAL(0x41414141, NRT_MemSys_get_stats_mi_alloc());
    NRT_MemSys_enable_stats();
    CHECK_EQUAL(before + 1, NRT_MemSys_get_stats_alloc());
    NRT_MemSys_enable_stats();
    NRT_MemInfo_release(one);
    NRT_MemInfo_release(other);
    CHECK_EQUAL(NRT_MemSys_get_stats_free(), NRT_MemSys_get_stats_mi_free());
    NRT_MemSys_disable_stats();
    NRT_MemSys_disable_stats();
    NRT_MemSys_init();
    NRT_MemSys_enable_stats();
    CHECK_EQUAL(0, NRT_MemSys_get_stats_alloc());
    CHECK_EQUAL(0, NRT_MemSys_get_stats_free());
    NRT_MemSys_disable_stats();
}

static int allocator_calls;

static void *counting_malloc(size_t size)
{
    allocator_calls++;
    return malloc(size);
}

TEST(the_allocator_changes_while_blocks_are_live)
{
    NRT_MemSys_enable_stats();
    NRT_MemInfo *small = got(NRT_MemInfo_alloc(10));
    NRT_MemInfo *large = got(NRT_MemInfo_alloc(10000));
    NRT_MemSys_set_allocator(counting_malloc, realloc, free);
    NRT_MemInfo *ours = got(NRT_MemInfo_alloc(10000));
    CHECK_EQUAL(1, allocator_calls);
    NRT_MemInfo_release(small);
    NRT_MemInfo_release(large);
    NRT_MemInfo_release(ours);
    NRT_MemSys_set_allocator(NULL, realloc, free);
    CHECK_MESSAGE("the allocator is unchanged");
    NRT_MemInfo_release(NRT_MemInfo_alloc(10000));
    CHECK_EQUAL(2, allocator_calls);
    NRT_MemSys_init();
    NRT_MemInfo_release(NRT_MemInfo_alloc(10000));
    CHECK_EQUAL(2, allocator_calls);
    tarn_runtime_trim(tarn_runtime_default());
}

TEST(the_sample_allocator_is_an_allocator)
{
    NRT_ExternalAllocator *sample = _nrt_get_sample_external_allocator();
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc_external(100, sample));

    CHECK(NRT_MemInfo_external_allocator(mi) == sample);
    NRT_MemInfo_release(mi);
    void *raw = sample->realloc(sample->malloc(1, NULL), 2, NULL);
    sample->free(raw, NULL);
}

/* --- a misuse handler that is removed while it runs --- */

static struct {
    atomic_bool is_inside, may_leave, has_left;
} visit;

static void stay(void)
{
    atomic_store(&visit.is_inside, true);
    while (!atomic_load(&visit.may_leave))
        usleep(500);
    atomic_store(&visit.has_left, true);
}

static void stay_and_record(void *data, const char *message)
{
    (void)data, (void)message;
    stay();
}

static void *release_twice(void *mi)
{
    NRT_MemInfo_release(mi);
    NRT_MemInfo_release(mi);
    return NULL;
}

static void *take_handler_away(void *unused)
{
    (void)unused;
    tarn_nrt_set_misuse_handler(record_misuse, last_misuse);
    CHECK(atomic_load(&visit.has_left)); /* its data may be freed now */
    return NULL;
}

TEST(misuse_handler_that_is_replaced_is_left_by_all_threads)
{
    pthread_t threads[2];

    begin();
    tarn_nrt_set_misuse_handler(stay_and_record, NULL);
    NRT_MemInfo *mi = got(NRT_MemInfo_alloc(10));
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, release_twice, mi));
    while (!atomic_load(&visit.is_inside))
        usleep(500);
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, take_handler_away, NULL));
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&visit.may_leave, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(0, misuses);
    release_twice(got(NRT_MemInfo_alloc(10)));
    CHECK_MISUSE("release of MemInfo");
    end();
}
