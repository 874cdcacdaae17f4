/* Test the accounting of a log: peaks, sites, and inconsistent rows. */
#define _GNU_SOURCE
#include "text.h"

struct complaints {
    char text[2048]; /* "line: what\n" for each */
};

static void complain(void *data, uint64_t line, const char *what)
{
    struct complaints *complaints = data;
    size_t used = strlen(complaints->text);

    snprintf(complaints->text + used, sizeof complaints->text - used, "%u: %s\n",
             (unsigned)line, what);
}

static tarn_trace_accounting *accounting_of(const char *content,
                                            struct complaints *complaints)
{
    struct text text = text_of(content);
    tarn_trace_accounting *accounting;

    memset(complaints, 0, sizeof *complaints);
    CHECK_OK(
        tarn_trace_accounting_create("a.csv", NULL, complain, complaints, &accounting));
    CHECK_OK(tarn_trace_read("a.csv", text_read, &text, NULL, tarn_trace_accounting_add,
                             accounting, NULL));
    text_free(&text);
    return accounting;
}

TEST(accounting_counts_peaks_and_live_blocks)
{
    struct complaints complaints;
    tarn_trace_summary summary;
    tarn_trace_accounting *accounting =
        accounting_of(RMM_HEADER "1,00:00:01.000000,allocate,0x10,100,0\n"
                                 "1,00:00:02.000000,allocate,0x20,50,0x7\n"
                                 "2,00:00:03.000000,free,0x10,100,0\n"
                                 "2,00:00:03.000000,allocate,0x10,20,0\n"
                                 "2,00:00:03.000000,allocate,0x11,20,0\n"
                                 "2,00:00:04.000000,allocate failure,(nil),9999,0\n"
                                 "2,00:00:05.500000,free,0x20,50,0xffffffffffffffff\n",
                      &complaints);

    tarn_trace_accounting_summary(accounting, &summary);
    CHECK_TEXT("", complaints.text);
    CHECK_EQUAL(7, summary.events);
    CHECK_EQUAL(4, summary.allocations);
    CHECK_EQUAL(2, summary.frees);
    CHECK_EQUAL(1, summary.failures);
    CHECK_EQUAL(150, summary.peak_live_bytes);
    CHECK_EQUAL(3, summary.peak_live_blocks);
    CHECK_EQUAL(40, summary.end_live_bytes);
    CHECK_EQUAL(2, summary.end_live_blocks);
    CHECK_EQUAL(190, summary.total_bytes);
    CHECK_EQUAL(2, summary.threads);
    CHECK_EQUAL(3, summary.streams);
    CHECK_EQUAL(0, summary.devices);
    CHECK_EQUAL(0, summary.problems);
    CHECK(summary.duration_ns == 4500000000u);
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_names_invalid_rows)
{
    struct complaints complaints;
    tarn_trace_summary summary;
    tarn_trace_accounting *accounting =
        accounting_of(NBEP7_HEADER "Free,0,0x10,0,8,0,0,0,1,1,0,\n"
                                   "Alloc,0,0x10,0,8,0,0,1,1,1,0,\n"
                                   "Alloc,0,0x10,0,9,0,0,2,1,1,0,\n"
                                   "Free,0,0x10,0,8,0,0,1,1,1,0,\n"
                                   "Free,0,0x10,0,9,0,0,0,1,1,0,\n"
                                   "Alloc,1,0x20,0,4,9,8,1,2,1,0,\n"
                                   "Free,0,0x20,0,0,0,0,0,3,3,0,\n"
                                   "Alloc,0,0x0,0,4,0,0,1,3,3,0,\n"
                                   "Alloc,0,0x0,0,0,0,0,1,3,3,0,\n"
                                   "Free,0,0x0,0,0,0,0,1,3,3,0,\n"
                                   "Alloc Failure,0,0x5,0,4,0,0,1,3,3,0,\n",
                      &complaints);

    CHECK_TEXT("2: free of 0x10, which is not live\n"
               "4: allocation at 0x10, which is live since line 3\n"
               "5: free of 0x10 with 8 bytes, which was allocated with 9 in line 4\n"
               "6: free of 0x10, which is not live\n"
               "7: the end time is 1000000000 ns before the start time\n"
               "7: 9 bytes free of 8\n"
               "8: free of 0x20 on device 0, which was allocated on device 1 in line 7\n"
               "9: allocation of 4 bytes at address 0\n"
               "12: failed allocation with the address 0x5\n",
               complaints.text);
    tarn_trace_accounting_summary(accounting, &summary);
    CHECK_EQUAL(9, summary.problems);
    CHECK_EQUAL(2, summary.unmatched_frees);
    CHECK_EQUAL(1, summary.double_allocations);
    CHECK_EQUAL(0, summary.end_live_blocks);
    CHECK_EQUAL(0, summary.threads);
    CHECK_EQUAL(2, summary.devices);
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_handles_midnight_in_both_directions)
{
    struct complaints complaints;
    tarn_trace_summary summary;
    tarn_trace_accounting *accounting =
        accounting_of(RMM_HEADER "1,23:59:59.000000,allocate,0x10,100,0\n"
                                 "1,00:00:01.000000,allocate,0x20,100,0\n"
                                 "2,23:59:59.900000,allocate,0x30,100,0\n"
                                 "1,00:00:02.000000,free,0x20,100,0\n",
                      &complaints);

    tarn_trace_accounting_summary(accounting, &summary);
    CHECK(summary.duration_ns == 3000000000u);
    tarn_trace_accounting_release(accounting);
}

static void check_site(const tarn_trace_site *site, const char *location, uint64_t peak,
                       uint64_t live, uint64_t total)
{
    CHECK_TEXT(location, site->location);
    CHECK_EQUAL(peak, site->peak_bytes);
    CHECK_EQUAL(live, site->live_bytes);
    CHECK_EQUAL(total, site->total_bytes);
}

TEST(accounting_has_the_share_of_each_site_in_the_peak)
{
    struct complaints complaints;
    tarn_trace_site sites[3];
    tarn_trace_accounting *accounting =
        accounting_of(NBEP7_HEADER "Alloc,0,0x10,0,100,0,0,1,1,1,0,a.py:1\n"
                                   "Alloc,0,0x20,0,50,0,0,1,1,1,0,b.py:2\n"
                                   "Free,0,0x10,0,100,0,0,1,1,1,0,<gc>\n"
                                   "Alloc,0,0x10,0,60,0,0,1,1,1,0,b.py:2\n"
                                   "Alloc,0,0x30,0,45,0,0,1,1,1,0,c.py:3\n"
                                   "Free,0,0x20,0,50,0,0,1,1,1,0,<exit>\n"
                                   "Alloc,0,0x40,0,7,0,0,1,1,1,0,a.py:1\n",
                      &complaints);

    /* The peak is 155, on line 6: 110 of it belong to b.py and 45 to c.py. */
    CHECK_EQUAL(3, tarn_trace_accounting_sites(accounting, TARN_SITES_BY_PEAK, 3, sites));
    check_site(&sites[0], "b.py:2", 110, 60, 110);
    check_site(&sites[1], "c.py:3", 45, 45, 45);
    check_site(&sites[2], "a.py:1", 0, 7, 107);
    CHECK_EQUAL(2, sites[2].allocations);
    CHECK_EQUAL(1, sites[2].live_blocks);
    CHECK_EQUAL(3, tarn_trace_accounting_sites(accounting, TARN_SITES_BY_LIVE, 2, sites));
    CHECK_TEXT("b.py:2", sites[0].location);
    CHECK_TEXT("c.py:3", sites[1].location);
    CHECK_EQUAL(3,
                tarn_trace_accounting_sites(accounting, TARN_SITES_BY_TOTAL, 2, sites));
    CHECK_TEXT("b.py:2", sites[0].location);
    CHECK_TEXT("a.py:1", sites[1].location);
    CHECK_EQUAL(3, tarn_trace_accounting_sites(accounting, TARN_SITES_BY_TOTAL, 0, NULL));
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_merges_sites_beyond_its_limit)
{
    tarn_trace_accounting *accounting;
    tarn_trace_site site;
    char location[32];

    CHECK_OK(tarn_trace_accounting_create("a.csv", NULL, NULL, NULL, &accounting));
    for (unsigned i = 0; i < 65536 + 10; i++) {
        tarn_trace_event event = {.address = i + 1, .bytes = 1, .location = location};
        snprintf(location, sizeof location, "a.py:%u", i);
        CHECK_OK(tarn_trace_accounting_add(accounting, &event, i + 2));
    }
    CHECK_EQUAL(65537,
                tarn_trace_accounting_sites(accounting, TARN_SITES_BY_LIVE, 1, &site));
    CHECK_TEXT("<other>", site.location);
    CHECK_EQUAL(10, site.live_blocks);
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_keeps_to_its_limit_on_live_rows)
{
    tarn_trace_limits limits = {.live_rows = 3};
    tarn_trace_accounting *accounting;
    tarn_trace_event event = {.bytes = 1};

    CHECK_OK(tarn_trace_accounting_create("a.csv", &limits, NULL, NULL, &accounting));
    for (event.address = 1; event.address <= 3; event.address++)
        CHECK_OK(tarn_trace_accounting_add(accounting, &event, event.address));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_trace_accounting_add(accounting, &event, 4));
    CHECK_MESSAGE("a.csv:4: more than 3 live blocks");
    tarn_trace_accounting_release(accounting);

    CHECK_OK(tarn_trace_accounting_create("a.csv", &limits, NULL, NULL, &accounting));
    event.action = TARN_ACTION_FREE;
    for (event.stream = 0; event.stream < 3; event.stream++)
        CHECK_OK(tarn_trace_accounting_add(accounting, &event, event.stream));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_trace_accounting_add(accounting, &event, 4));
    CHECK_MESSAGE("a.csv:4: more than 3 streams");
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_rejects_live_bytes_beyond_64_bits_and_caps_totals)
{
    tarn_trace_accounting *accounting;
    tarn_trace_summary summary;
    tarn_trace_event event = {.address = 1, .bytes = UINT64_MAX};

    CHECK_OK(tarn_trace_accounting_create("a.csv", NULL, NULL, NULL, &accounting));
    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 2));
    event.action = TARN_ACTION_FREE;
    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 3));
    event.action = TARN_ACTION_ALLOCATE;
    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 4));
    tarn_trace_accounting_summary(accounting, &summary);
    CHECK(summary.total_bytes == UINT64_MAX);
    event.address = 2;
    event.bytes = 1;
    CHECK_STATUS(TARN_BAD_FORMAT, tarn_trace_accounting_add(accounting, &event, 5));
    CHECK_MESSAGE("a.csv:5: 1 bytes more exceed 2^64");
    tarn_trace_accounting_release(accounting);
    tarn_trace_accounting_release(NULL);
}

#define NBEP7_ROW(action, address, bytes, second, location) \
    action ",0," address ",0," bytes ",0,0,1," second "," second ",0," location "\n"

TEST(accounting_counts_what_only_the_exit_frees_as_held_until_exit)
{
    struct complaints complaints;
    tarn_trace_summary summary;
    tarn_trace_site site;
    tarn_trace_accounting *accounting = accounting_of(
        NBEP7_HEADER NBEP7_ROW("Alloc", "0x10", "100", "1", "a.py:1")
            NBEP7_ROW("Alloc", "0x20", "200", "2", "a.py:1")
                NBEP7_ROW("Alloc", "0x30", "400", "3", "a.py:3")
                    NBEP7_ROW("Alloc", "0x40", "800", "4", "a.py:4")
                        NBEP7_ROW("Free", "0x40", "0", "5", "<gc>")
                            NBEP7_ROW("Free", "0x10", "0", "6", "<exit>")
                                NBEP7_ROW("Free", "0x20", "0", "7", "<gc>")
                                    NBEP7_ROW("Alloc", "0x50", "1600", "8", "a.py:8")
                                        NBEP7_ROW("Free", "0x30", "0", "9", "a.py:9"),
        &complaints);

    tarn_trace_accounting_summary(accounting, &summary);
    CHECK(summary.has_exit);
    CHECK_EQUAL(300, summary.held_bytes);
    CHECK_EQUAL(2, summary.held_blocks);
    CHECK_EQUAL(1600, summary.end_live_bytes);
    CHECK_EQUAL(4, tarn_trace_accounting_sites(accounting, TARN_SITES_BY_HELD, 1, &site));
    CHECK_TEXT("a.py:1", site.location);
    CHECK_EQUAL(300, site.held_bytes);
    CHECK_EQUAL(2, site.held_blocks);
    CHECK_EQUAL(5000000000, site.held_age_ns);
    tarn_trace_accounting_release(accounting);
}

TEST(accounting_begins_the_exit_with_its_mark)
{
    struct complaints complaints;
    tarn_trace_summary summary;
    tarn_trace_event event = {
        .action = TARN_ACTION_ALLOCATE, .address = 1, .bytes = 8, .location = "a"};
    tarn_trace_accounting *accounting = accounting_of(RMM_HEADER, &complaints);

    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 1));
    event.address = 2;
    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 2));
    CHECK_OK(tarn_trace_accounting_mark(accounting, "begin of an epoch", 3));
    tarn_trace_accounting_summary(accounting, &summary);
    CHECK(!summary.has_exit);
    CHECK_EQUAL(16, summary.held_bytes); /* live at the end */
    CHECK_OK(tarn_trace_accounting_mark(accounting, "<exit>", 3));
    event.action = TARN_ACTION_FREE; /* the program's own, at "a" */
    CHECK_OK(tarn_trace_accounting_add(accounting, &event, 3));
    tarn_trace_accounting_summary(accounting, &summary);
    CHECK(summary.has_exit);
    CHECK_EQUAL(8, summary.held_bytes);
    CHECK_EQUAL(1, summary.held_blocks);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_accounting_mark(NULL, "<exit>", 0));
    tarn_trace_accounting_release(accounting);
}
