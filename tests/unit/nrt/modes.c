/* Test debug modes: the misuse that each of them detects, and the behaviour that it does
 * not change. */
#define _GNU_SOURCE
#include "test.h"
#include "captured_stderr.h"

static char last_misuse[512];
static int misuses;

static void record_misuse(void *data, const char *message)
{
    (void)data;
    snprintf(last_misuse, sizeof last_misuse, "%s", message);
    misuses++;
}

static tarn_runtime *make_runtime(unsigned modes)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("modes", &runtime));
    CHECK_OK(tarn_runtime_set_modes(runtime, modes));
    tarn_nrt_set_misuse_handler(record_misuse, NULL);
    misuses = 0;
    return runtime;
}

static void drop_runtime(tarn_runtime *runtime)
{
    CHECK_OK(tarn_runtime_release(runtime));
    tarn_nrt_set_misuse_handler(NULL, NULL);
}

static unsigned char *allocate(tarn_runtime *runtime, size_t bytes, tarn_meminfo **out)
{
    tarn_meminfo_options options = {.size = sizeof options, .bytes = bytes};

    CHECK_OK(tarn_meminfo_allocate(runtime, &options, out));
    return tarn_meminfo_data(*out);
}

TEST(modes_have_names)
{
    unsigned modes;

    CHECK_OK(tarn_nrt_modes_parse("poison,guard,quarantine,sites", &modes));
    CHECK_EQUAL(15, modes);
    CHECK_OK(tarn_nrt_modes_parse("trace,abort unpooled,report,slabs,", &modes));
    CHECK_EQUAL(16 + 32 + 64 + 128 + 256, modes);
    CHECK_OK(tarn_nrt_modes_parse("", &modes));
    CHECK_EQUAL(0, modes);
    modes = 7;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_nrt_modes_parse("poison,gard", &modes));
    CHECK_MESSAGE("unknown mode gard");
    CHECK_EQUAL(7, modes);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_runtime_set_modes(tarn_runtime_default(), 1 << 20));
    CHECK_MESSAGE("unknown bits");
}

TEST(poison_fills_at_both_ends)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_POISON | TARN_NRT_SLABS);
    tarn_meminfo *meminfo;
    unsigned char *data = allocate(runtime, 700, &meminfo);

    CHECK_EQUAL(0xCB, data[0]);
    CHECK_EQUAL(0xCB, data[699]);
    tarn_meminfo_release(meminfo);
    drop_runtime(runtime);
}

TEST(guards_see_bytes_written_past_the_end)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_GUARD);
    tarn_meminfo *meminfo;

    for (size_t bytes = 0; bytes < 3000; bytes += 333) {
        unsigned char *data = allocate(runtime, bytes, &meminfo);
        memset(data, 1, bytes);
        data[bytes] = 0;
        tarn_meminfo_release(meminfo);
        CHECK_EQUAL(1, misuses);
        CHECK(strstr(last_misuse,
                     "0 red-zone bytes before its data and 1 after it changed"));
        misuses = 0;
    }
    drop_runtime(runtime);
}

TEST(guards_see_bytes_written_before_the_beginning)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_GUARD);
    tarn_meminfo *meminfo;
    unsigned char *data = allocate(runtime, 100, &meminfo);

    data[-1] = 0;
    data[-2] = 0;
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(1, misuses);
    CHECK(strstr(last_misuse, "2 red-zone bytes before its data and 0 after"));
    data = allocate(runtime, 100, &meminfo);
    memset(data - 16, 0, 16); /* and with it the address of the data */
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(2, misuses);
    drop_runtime(runtime);
}

TEST(guards_leave_whole_blocks_alone)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_GUARD | TARN_NRT_POISON);
    tarn_meminfo *meminfo;

    for (size_t alignment = 1; alignment < 600; alignment = alignment * 2 + 1) {
        tarn_meminfo_options options = {
            .size = sizeof options, .bytes = 100, .alignment = alignment};
        CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
        CHECK_EQUAL(0, (uintptr_t)tarn_meminfo_data(meminfo) % alignment);
        memset(tarn_meminfo_data(meminfo), 1, 100);
        tarn_meminfo_release(meminfo);
    }
    CHECK_EQUAL(0, misuses);
    drop_runtime(runtime);
}

TEST(quarantine_catches_a_late_release_of_any_block)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_QUARANTINE);

    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 7 + 1) {
        tarn_meminfo *meminfo, *other;
        allocate(runtime, bytes, &meminfo);
        tarn_meminfo_release(meminfo);
        allocate(runtime, bytes, &other);
        CHECK(other != meminfo);
        tarn_meminfo_release(meminfo);
        CHECK_EQUAL(1, misuses);
        CHECK(strstr(last_misuse, "was freed before (runtime modes)"));
        misuses = 0;
        tarn_meminfo_release(other);
    }
    drop_runtime(runtime);
}

/* Not under ASan, which ends the program at the write, as it should. */
#ifndef __SANITIZE_ADDRESS__
TEST(quarantine_sees_bytes_written_after_the_end)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_QUARANTINE);
    tarn_meminfo *meminfo;
    unsigned char *data = allocate(runtime, 100, &meminfo);

    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(0xDE, data[0]);
    data[99] = 1;
    CHECK(tarn_runtime_trim(runtime) >= 100);
    CHECK_EQUAL(1, misuses);
    CHECK(strstr(last_misuse, "a block of 100 bytes of runtime modes was written to"));
    drop_runtime(runtime);
}
#endif

TEST(quarantine_keeps_at_most_its_limit)
{
    tarn_runtime *runtime = make_runtime(TARN_NRT_QUARANTINE);
    tarn_runtime_stats stats = {.size = sizeof stats};

    tarn_runtime_set_quarantine(runtime, 10000);
    for (int i = 0; i < 100; i++) {
        tarn_meminfo *meminfo;
        allocate(runtime, 1000, &meminfo);
        tarn_meminfo_release(meminfo);
        CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
        CHECK(stats.bytes_quarantine <= 10000);
    }
    CHECK(stats.bytes_quarantine >= 8000);
    CHECK_EQUAL(0, stats.bytes_live);
    tarn_runtime_set_quarantine(runtime, 0);
    CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
    CHECK_EQUAL(0, stats.bytes_quarantine);
    drop_runtime(runtime);
}

TEST(modes_apply_to_blocks_allocated_while_they_are_on)
{
    tarn_runtime *runtime = make_runtime(0);
    tarn_meminfo *plain, *guarded;
    unsigned char *data;

    allocate(runtime, 20, &plain);
    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_GUARD | TARN_NRT_QUARANTINE));
    CHECK_EQUAL(TARN_NRT_GUARD | TARN_NRT_QUARANTINE, tarn_runtime_modes(runtime));
    data = allocate(runtime, 20, &guarded);
    CHECK_OK(tarn_runtime_set_modes(runtime, 0));
    data[20] = 0;
    tarn_meminfo_release(plain);
    CHECK_EQUAL(0, misuses);
    tarn_meminfo_release(guarded);
    CHECK_EQUAL(1, misuses);
    drop_runtime(runtime);
}

TEST(raw_memory_that_becomes_a_meminfo_has_its_modes_too)
{
    static const unsigned sets[] = {TARN_NRT_POISON, TARN_NRT_GUARD, TARN_NRT_QUARANTINE,
                                    TARN_NRT_POISON | TARN_NRT_GUARD |
                                        TARN_NRT_QUARANTINE | TARN_NRT_SITES};
    tarn_runtime *runtime = tarn_runtime_default();
    char value[100] = "";

    tarn_nrt_set_misuse_handler(record_misuse, NULL);
    misuses = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        CHECK_OK(tarn_runtime_set_modes(runtime, sets[i]));
        NRT_MemInfo *mi = NRT_Allocate(48);
        CHECK(mi != NULL);
        NRT_MemInfo_init(mi, value, sizeof value, NULL, NULL, NULL);
        NRT_MemInfo_release(mi);
        CHECK_EQUAL(0, value[0]);
        CHECK_EQUAL(0, misuses);
        mi = NRT_Allocate_External(48, _nrt_get_sample_external_allocator());
        CHECK(mi != NULL);
        NRT_MemInfo_init(mi, value, sizeof value, NULL, NULL,
                         _nrt_get_sample_external_allocator());
        NRT_MemInfo_release(mi);
        CHECK_EQUAL(0, misuses);
    }
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, misuses);
    CHECK_OK(tarn_runtime_set_modes(runtime, 0));
    tarn_nrt_set_misuse_handler(NULL, NULL);
}

static void release_twice(void)
{
    tarn_meminfo *meminfo;

    tarn_nrt_set_misuse_handler(NULL, NULL);
    tarn_runtime_set_modes(tarn_runtime_default(), TARN_NRT_ABORT | TARN_NRT_QUARANTINE);
    meminfo = NRT_MemInfo_alloc(10);
    NRT_MemInfo_release(meminfo);
    NRT_MemInfo_release(meminfo);
}

TEST(abort_ends_the_process_with_a_message)
{
    CHECK_EQUAL(-6, child_status(release_twice, 1));
    CHECK(strstr(captured_stderr, "tarn: nrt: release of MemInfo"));
}

static void count_aloud(void)
{
    tarn_meminfo *meminfo;

    tarn_runtime_set_modes(tarn_runtime_default(), TARN_NRT_TRACE);
    meminfo = NRT_MemInfo_alloc(10);
    NRT_MemInfo_acquire(meminfo);
    NRT_MemInfo_release(meminfo);
    NRT_MemInfo_release(meminfo);
    NRT_Free(NRT_Allocate(5));
    nrt_debug_print("%d and done\n", 7);
}

TEST(trace_reports_events)
{
    CHECK_EQUAL(0, child_status(count_aloud, 1));
    const char *trace_lines = captured_stderr;
    CHECK(strstr(trace_lines, "tarn: nrt: new 0x"));
    CHECK(strstr(trace_lines, ", 10 bytes\ntarn: nrt: acquire 0x"));
    CHECK(strstr(trace_lines, ", count before: 1\ntarn: nrt: release 0x"));
    CHECK(strstr(trace_lines, ", count before: 2\n"));
    CHECK(strstr(trace_lines, "tarn: nrt: end 0x"));
    CHECK(strstr(trace_lines, "tarn: nrt: raw 0x"));
    CHECK(strstr(trace_lines, "7 and done"));
}
