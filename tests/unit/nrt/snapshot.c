/* Test leak reports: the sites of live blocks, between two times and at exit. */
#define _GNU_SOURCE
#include "test.h"
#include "captured_stderr.h"
#include <pthread.h>
#include <stdatomic.h>

static tarn_runtime *make_runtime(void)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("leaky", &runtime));
    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_SITES));
    return runtime;
}

/* Two sites that allocate: each call of these two is a site of its own. */
static __attribute__((noinline)) tarn_meminfo *here(tarn_runtime *runtime, size_t bytes)
{
    tarn_meminfo_options options = {.size = sizeof options, .bytes = bytes};
    tarn_meminfo *meminfo = NULL;

    CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
    return meminfo;
}

static __attribute__((noinline)) tarn_meminfo *there(tarn_runtime *runtime,
                                                     const char *where)
{
    tarn_meminfo_options options = {.size = sizeof options, .bytes = 5, .label = where};
    tarn_meminfo *meminfo = NULL;

    CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
    return meminfo;
}

static tarn_nrt_snapshot *take(tarn_runtime *runtime)
{
    tarn_nrt_snapshot *snapshot;

    CHECK_OK(tarn_nrt_snapshot_take(runtime, &snapshot));
    return snapshot;
}

static tarn_nrt_site site(const tarn_nrt_snapshot *snapshot, size_t index)
{
    tarn_nrt_site got;

    CHECK_OK(tarn_nrt_snapshot_site(snapshot, index, &got));
    return got;
}

TEST(a_snapshot_names_places_by_bytes)
{
    tarn_runtime *runtime = make_runtime();
    tarn_meminfo *blocks[] = {here(runtime, 100), there(runtime, "here.py:7"),
                              here(runtime, 200), there(runtime, "here.py:7")};
    tarn_nrt_snapshot *snapshot = take(runtime);
    char text[256];

    CHECK_EQUAL(2, tarn_nrt_snapshot_sites(snapshot));
    CHECK_EQUAL(2, site(snapshot, 0).blocks);
    CHECK_EQUAL(300, site(snapshot, 0).bytes);
    CHECK(!site(snapshot, 0).label);
    CHECK_EQUAL(10, site(snapshot, 1).bytes);
    CHECK_TEXT("here.py:7", site(snapshot, 1).label);
    CHECK(strstr(tarn_nrt_describe(site(snapshot, 0).address, text, sizeof text),
                 "unit-nrt-snapshot"));
    tarn_nrt_site got;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_nrt_snapshot_site(snapshot, 2, &got));
    CHECK_MESSAGE("index 2, but the snapshot has 2");
    tarn_nrt_snapshot_release(snapshot);
    for (int i = 0; i < 4; i++)
        tarn_meminfo_release(blocks[i]);
    snapshot = take(runtime);
    CHECK_EQUAL(0, tarn_nrt_snapshot_sites(snapshot));
    tarn_nrt_snapshot_release(snapshot);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(a_difference_shows_new_and_freed_blocks)
{
    tarn_runtime *runtime = make_runtime();
    tarn_meminfo *early = here(runtime, 100), *stays = there(runtime, "a");
    tarn_nrt_snapshot *before = take(runtime), *after, *difference;

    tarn_meminfo_release(early);
    tarn_meminfo *late = there(runtime, "b"), *later = there(runtime, "b");
    after = take(runtime);
    CHECK_OK(tarn_nrt_snapshot_difference(before, after, &difference));
    CHECK_EQUAL(2, tarn_nrt_snapshot_sites(difference));
    CHECK_TEXT("b", site(difference, 0).label);
    CHECK_EQUAL(2, site(difference, 0).blocks);
    CHECK_EQUAL(10, site(difference, 0).bytes);
    CHECK_EQUAL(-1, site(difference, 1).blocks);
    CHECK_EQUAL(-100, site(difference, 1).bytes);
    tarn_nrt_snapshot_release(difference);
    CHECK_OK(tarn_nrt_snapshot_difference(after, after, &difference));
    CHECK_EQUAL(0, tarn_nrt_snapshot_sites(difference));
    tarn_nrt_snapshot_release(difference);
    tarn_nrt_snapshot_release(before);
    tarn_nrt_snapshot_release(after);
    tarn_meminfo_release(stays);
    tarn_meminfo_release(late);
    tarn_meminfo_release(later);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(the_label_of_the_thread_is_used_where_a_block_has_none)
{
    tarn_runtime *runtime = make_runtime();

    CHECK(!tarn_nrt_set_label("of the thread"));
    tarn_meminfo *meminfo = here(runtime, 10);
    tarn_nrt_snapshot *snapshot = take(runtime);
    CHECK_TEXT("of the thread", site(snapshot, 0).label);
    CHECK_TEXT("of the thread", tarn_nrt_set_label(NULL));
    tarn_nrt_snapshot_release(snapshot);
    tarn_meminfo_release(meminfo);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(blocks_of_before_are_a_place_of_their_own)
{
    tarn_runtime *runtime = make_runtime();

    CHECK_OK(tarn_runtime_set_modes(runtime, 0));
    tarn_meminfo *before = here(runtime, 1000);
    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_SITES));
    tarn_meminfo *after = here(runtime, 10);
    tarn_nrt_snapshot *snapshot = take(runtime);
    CHECK_EQUAL(2, tarn_nrt_snapshot_sites(snapshot));
    CHECK(!site(snapshot, 0).address && !site(snapshot, 0).label);
    CHECK_EQUAL(1000, site(snapshot, 0).bytes);
    CHECK_EQUAL(10, site(snapshot, 1).bytes);
    tarn_nrt_snapshot_release(snapshot);
    tarn_meminfo_release(before);
    tarn_meminfo_release(after);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(raw_memory_and_new_sizes_are_followed)
{
    tarn_runtime *runtime = tarn_runtime_default();
    tarn_nrt_snapshot *before, *after, *difference;

    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_SITES));
    before = take(runtime);
    NRT_MemInfo *mi = NRT_MemInfo_new_varsize(100);
    CHECK(mi != NULL);
    NRT_MemInfo_varsize_realloc(mi, 5000);
    NRT_MemInfo_varsize_realloc(mi, 6000);
    after = take(runtime);
    CHECK_OK(tarn_nrt_snapshot_difference(before, after, &difference));
    int64_t bytes = 0, blocks = 0;
    for (size_t i = 0; i < tarn_nrt_snapshot_sites(difference); i++) {
        bytes += site(difference, i).bytes;
        blocks += site(difference, i).blocks;
    }
    CHECK_EQUAL(6000, bytes);
    CHECK_EQUAL(2, blocks);
    tarn_nrt_snapshot_release(before);
    tarn_nrt_snapshot_release(after);
    tarn_nrt_snapshot_release(difference);
    NRT_MemInfo_release(mi);
    CHECK_OK(tarn_runtime_set_modes(runtime, 0));
}

/* Each of these calls is a site. Sites that exceed the table's probes must not be lost,
 * only unknown. */
TEST(many_places_are_all_counted)
{
    enum { PLACES = 2000 };
    static char text[PLACES];
    static tarn_meminfo *blocks[PLACES];
    tarn_runtime *runtime = make_runtime();

    for (int i = 0; i < PLACES; i++)
        blocks[i] = there(runtime, &text[i]);
    tarn_nrt_snapshot *snapshot = take(runtime);
    int64_t bytes = 0;
    for (size_t i = 0; i < tarn_nrt_snapshot_sites(snapshot); i++)
        bytes += site(snapshot, i).bytes;
    CHECK_EQUAL(PLACES * 5, bytes);
    CHECK(tarn_nrt_snapshot_sites(snapshot) > PLACES * 9 / 10);
    tarn_nrt_snapshot_release(snapshot);
    for (int i = 0; i < PLACES; i++)
        tarn_meminfo_release(blocks[i]);
    CHECK_OK(tarn_runtime_release(runtime));
}

static bool name_anything(void *data, const void *address, char *out, size_t bytes)
{
    (void)address;
    snprintf(out, bytes, "named by %s", (const char *)data);
    return true;
}

TEST(a_symbolizer_comes_first)
{
    static char me[] = "me";
    char text[64];

    CHECK_TEXT("0x10", tarn_nrt_describe((void *)(uintptr_t)0x10, text, sizeof text));
    CHECK(
        strstr(tarn_nrt_describe((void *)(uintptr_t)tarn_nrt_describe, text, sizeof text),
               "tarn_nrt_describe+0x0 (libtarn.so"));
    tarn_nrt_set_symbolizer(name_anything, me);
    CHECK_TEXT("named by me", tarn_nrt_describe(text, text, sizeof text));
    tarn_nrt_set_symbolizer(NULL, NULL);
}

static void leave_something(void)
{
    tarn_runtime *runtime = make_runtime();

    tarn_runtime_set_modes(runtime, TARN_NRT_SITES | TARN_NRT_EXIT_REPORT);
    here(runtime, 1234);
    there(runtime, "there.py:8");
}

TEST(live_blocks_are_reported_at_exit)
{
    /* LeakSanitizer has its own message for it, and its own exit code. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    child_status(leave_something, 0);
    CHECK(strstr(captured_stderr,
                 "tarn: nrt: at exit runtime leaky: 1239 bytes in 2 live blocks, "
                 "from 2 sites\n"));
    CHECK(strstr(captured_stderr, "      1234 bytes        1 blocks  "));
    CHECK(strstr(captured_stderr, "there.py:8  ("));
}

TEST(a_difference_is_printed_with_signs)
{
    tarn_runtime *runtime = make_runtime();
    tarn_nrt_snapshot *before = take(runtime), *after, *difference;
    tarn_meminfo *meminfo = there(runtime, "x.py:1");
    char text[512] = "";
    FILE *file = fmemopen(text, sizeof text, "w");

    after = take(runtime);
    CHECK_OK(tarn_nrt_snapshot_difference(before, after, &difference));
    tarn_nrt_snapshot_print(difference, file);
    fclose(file);
    CHECK(strstr(text, "runtime leaky: +5 bytes in +1 blocks more, from 1 sites\n"));
    CHECK(strstr(text, "        +5 bytes       +1 blocks  x.py:1"));
    tarn_nrt_snapshot_release(before);
    tarn_nrt_snapshot_release(after);
    tarn_nrt_snapshot_release(difference);
    tarn_meminfo_release(meminfo);
    CHECK_OK(tarn_runtime_release(runtime));
}

/* --- a symbolizer that is removed while it runs --- */

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

static bool stay_and_name(void *data, const void *address, char *out, size_t bytes)
{
    stay();
    return name_anything(data, address, out, bytes);
}

static void *describe(void *unused)
{
    char text[64] = "";

    (void)unused;
    CHECK_TEXT("named by it", tarn_nrt_describe(text, text, sizeof text));
    return NULL;
}

static void *take_symbolizer_away(void *unused)
{
    (void)unused;
    tarn_nrt_set_symbolizer(NULL, NULL);
    CHECK(atomic_load(&visit.has_left)); /* its data may be freed now */
    return NULL;
}

TEST(symbolizer_that_is_taken_away_is_left_by_all_threads)
{
    static char it[] = "it";
    pthread_t threads[2];

    tarn_nrt_set_symbolizer(stay_and_name, it);
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, describe, NULL));
    while (!atomic_load(&visit.is_inside))
        usleep(500);
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, take_symbolizer_away, NULL));
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&visit.may_leave, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
}
