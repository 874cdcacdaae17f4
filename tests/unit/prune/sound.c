/* sound.c -- test the sound mode: cases that it rejects and llvmlite's pass accepts, the
 * reverse, and functions of a hundred thousand blocks. */
#include "ir.h"

/* The removals of each mode from a graph. */
static void check_modes(uint64_t sound, uint64_t llvmlite, const char *graph)
{
    tarn_prune_options options = {.mode = TARN_PRUNE_SOUND};

    CHECK_EQUAL(sound, prune_graph(options, graph).removed);
    options.mode = TARN_PRUNE_LLVMLITE;
    CHECK_EQUAL(llvmlite, prune_graph(options, graph).removed);
}

/* --- operations before a decref ----------------------------------------------------- */

TEST(a_use_behind_another_release_keeps_the_pair)
{
    check_modes(0, 2, "A+a:B B-b*a-a:");
}

TEST(a_load_behind_another_release_keeps_the_pair)
{
    const char *text = FUNCTION("A:\n" INCREF("%a") "  br label %B\nB:\n" DECREF(
        "%b") "  %x = load i8, i8* %a\n" DECREF("%a") "  ret void\n");

    CHECK_EQUAL(0, prune_soundly(text).removed);
}

TEST(another_release_with_nothing_in_between_does_not)
{
    check_modes(2, 2, "A+a:B B*a-b-a:");
}

TEST(what_cannot_touch_memory_does_not_count_as_a_use)
{
    check_modes(2, 2, "A+a:B B-b.-a:");
}

TEST(the_first_decref_of_a_block_may_have_uses_before_and_behind_it)
{
    check_modes(2, 2, "A+a:B B*a-a*a-b:");
}

TEST(a_pair_is_removed_once_the_release_before_its_decref_is)
{
    check_modes(4, 4, "A+b+a:B B-b*a-a:");
}

/* --- loops ------------------------------------------------------------------------------ */

TEST(an_incref_that_is_repeated_before_its_decref_stays)
{
    check_modes(0, 2, "A:B B+a:BC C-a:");
}

TEST(an_incref_that_is_repeated_by_a_longer_path_stays)
{
    check_modes(0, 2, "A:B B+a:CD C-a: D:B");
}

TEST(a_pair_inside_a_loop_is_removed)
{
    check_modes(2, 2, "A:B B+a:C C-a:BD D:");
}

TEST(decrefs_in_an_irreducible_loop_stay)
{
    check_modes(0, 0, "A+a:BC B-a:CD C-a:BD D:");
}

TEST(an_endless_path_keeps_no_pair)
{
    check_modes(2, 2, "A+a:BC B:B C-a:");
}

/* --- raises ----------------------------------------------------------------------------- */

TEST(a_raise_that_ends_the_function_forgives)
{
    check_modes(2, 2, "A+a:BC B-a: C!:D D:");
}

TEST(a_raise_with_a_release_behind_it_does_not)
{
    check_modes(0, 2, "A+a:BC B-a: C!:D D-b*a:");
    check_modes(0, 2, "A+a:BC B-a: C!:D D:EF E-b: F:");
    check_modes(3, 3, "A+a:BC B-a: C!:D D-a:"); /* D is an exit like any other */
}

TEST(a_release_behind_a_raise_counts_even_if_its_own_pair_goes)
{
    const char *graph = "A+a:BC B-a: C!:D D+b-b:";
    tarn_prune_options pairs = {.shapes = TARN_PRUNE_ALL & ~(unsigned)TARN_PRUNE_CARRIED};

    CHECK_EQUAL(2, prune_graph(pairs, graph).removed);
    check_modes(4, 4, graph); /* `a` is stored nowhere, and no release is left */
}

TEST(a_path_to_the_decref_through_another_raise_keeps_the_pair)
{
    check_modes(0, 2, "A:EB B+a:CD C!: D-a: E!:D");
}

TEST(a_decref_in_a_block_that_raises_needs_its_incref_too)
{
    check_modes(0, 2, "A:DB B+a:CD C!: D!-a:");
}

TEST(a_raise_may_be_reached_past_the_incref)
{
    check_modes(2, 2, "A:BC B+a:CD C!: D-a:");
}

/* --- references of other owners ----------------------------------------------------- */

#define STORE "  store i8* %a, i8** @kept\n"
#define KEEPING(body) FUNCTION(body) "@kept = external global i8*\n"

/* One path releases the reference. The other takes a second one for another owner,
 * releases its own, and raises. */
#define SHIFTED(store)                                                        \
    KEEPING(INCREF("%a") "  br i1 %c0, label %B, label %C\nB:\n" INCREF("%a") \
                store DECREF("%a") "  br label %R\nR:\n" RAISE                \
                                   "  ret void\nC:\n" DECREF("%a") "  ret void\n")

TEST(a_reference_that_others_keep_when_a_path_raises_stays_theirs)
{
    CHECK_EQUAL(0, prune_soundly(SHIFTED(STORE)).report.fanout_raise);
    CHECK_EQUAL(2, prune_as(TARN_PRUNE_LLVMLITE, 0, SHIFTED(STORE)).report.fanout_raise);
    /* Only a callee that received it can have it, and a callee counts for itself. */
    CHECK_EQUAL(2, prune_soundly(SHIFTED(USE("%a"))).report.fanout_raise);
    /* The owner does not matter if nothing raises any more. */
    CHECK_EQUAL(
        2, prune_soundly(
               KEEPING(INCREF("%a") "  br i1 %c0, label %B, label %C\nB:\n" RAISE
                                    "  ret void\nC:\n" STORE DECREF("%a") "  ret void\n"))
               .report.fanout_raise);
}

/* Two references at the head, one more behind the first raise, two decrefs. */
#define AGAIN(store)                                                \
    KEEPING(INCREF("%a") INCREF("%a") store                         \
            "  br i1 %c0, label %R, label %B\nB:\n" INCREF(         \
                "%a") "  br i1 %c1, label %R, label %C\nR:\n" RAISE \
                      "  ret void\nC:\n" DECREF("%a") DECREF("%a") "  ret void\n")

TEST(decrefs_are_paired_with_the_last_incref)
{
    struct outcome outcome = prune_soundly(AGAIN(STORE));

    CHECK_EQUAL(4, outcome.report.fanout_raise);
    CHECK_EQUAL(0, count_in(outcome.text, "B", "@NRT_incref"));
    outcome = prune_as(TARN_PRUNE_LLVMLITE, 0, AGAIN(STORE));
    CHECK_EQUAL(1, count_in(outcome.text, "B", "@NRT_incref"));
}

TEST(a_cast_that_is_stored_is_the_same_reference)
{
#define CAST "  %x = bitcast i8* %a to i64*\n  store i64* %x, i64** @kept\n"
    const char *text = FUNCTION(
        INCREF("%a") "  br i1 %c0, label %B, label %C\nB:\n" INCREF("%a")
            CAST DECREF("%a") "  br label %R\nR:\n" RAISE "  ret void\nC:\n" DECREF(
                "%a") "  ret void\n") "@kept = external global i64*\n";

    CHECK_EQUAL(0, prune_soundly(text).report.fanout_raise);
}

/* --- blocks without a predecessor --------------------------------------------------- */

TEST(what_is_never_reached_is_left_alone_and_does_not_disturb)
{
    check_modes(2, 2, "A+a:B B-a: C-b:B D+a:E E-b:");
}

/* --- two pairs with the same decref ------------------------------------------------- */

TEST(of_two_increfs_the_one_with_more_paths_behind_it_gets_the_decref)
{
    check_modes(4, 4, "A+a:BC B-a: C+a:DE D-a: E-a:");
}

/* --- size ----------------------------------------------------------------------------------- */

/* Sanitizers make reading the text slow; a tenth of it is enough for them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MANY = 5000 };
#else
enum { MANY = 50000 };
#endif

static struct outcome prune_written(void (*write)(FILE *, int), int count)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    fputs(DECLARED "define void @f" ARGUMENTS " {\n", out);
    write(out, count);
    fputs("}\n!0 = !{i1 true}\n", out);
    fclose(out);
    struct outcome outcome = prune_soundly(text);
    free(text);
    return outcome;
}

static tarn_prune_report report_of_all(void (*write)(FILE *, int), int count)
{
    struct outcome outcome = prune_written(write, count);

    CHECK_EQUAL(0, outcome.report.gave_up);
    return outcome.report;
}

/* count increfs in a row of diamonds, and all the decrefs at the end. */
static void write_diamonds(FILE *out, int count)
{
    fputs("  br label %h0\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out,
                "h%d:\n" INCREF("%%a") "  br i1 %%c0, label %%l%d, label %%r%d\n"
                                       "l%d:\n  br label %%h%d\nr%d:\n  br label %%h%d\n",
                i, i, i, i, i + 1, i, i + 1);
    fprintf(out, "h%d:\n", count);
    for (int i = 0; i < count; i++)
        fputs(DECREF("%a"), out);
    fputs("  ret void\n", out);
}

/* Nested pairs: each decref is between the operations of the surrounding pair. */
static void write_nest(FILE *out, int count)
{
    fputs("  br label %h0\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out,
                "h%d:\n  %%v%d = getelementptr i8, i8* %%a, i64 %d\n" INCREF(
                    "%%v%d") "  br label %%h%d\n",
                i, i, i, i, i + 1);
    fprintf(out, "h%d:\n  br label %%t%d\n", count, count - 1);
    for (int i = count - 1; i >= 0; i--)
        fprintf(out, "t%d:\n" DECREF("%%v%d") "  br label %%t%d\n", i, i, i - 1);
    fputs("t-1:\n  ret void\n", out);
}

/* One incref, and an exit with a decref at each of count tests. */
static void write_ladder(FILE *out, int count)
{
    fputs(INCREF("%a") "  br label %s0\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out,
                "s%d:\n  br i1 %%c0, label %%x%d, label %%s%d\nx%d:\n" DECREF(
                    "%%a") "  ret void\n",
                i, i, i + 1, i);
    fprintf(out, "s%d:\n" DECREF("%%a") "  ret void\n", count);
}

/* The same with raises instead of decrefs, and an incref at each test. */
static void write_checks(FILE *out, int count)
{
    fputs("  br label %s0\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out,
                "s%d:\n" INCREF("%%a") "  br i1 %%c0, label %%x%d, label %%s%d\nx%d:\n%s"
                                       "  ret void\n",
                i, i, i + 1, i, RAISE);
    fprintf(out, "s%d:\n", count);
    for (int i = 0; i < count; i++)
        fputs(DECREF("%a"), out);
    fputs("  ret void\n", out);
}

/* The same of a value that is stored before: each pair walks all paths behind it. */
static void write_stored_checks(FILE *out, int count)
{
    fputs("  store i8* %a, i8** %excinfo\n", out);
    write_checks(out, count);
}

TEST(a_row_of_diamonds_is_removed)
{
    CHECK_EQUAL(2 * (MANY / 2), report_of_all(write_diamonds, MANY / 2).diamond);
}

TEST(nested_pairs_are_removed_at_any_depth)
{
    CHECK_EQUAL(2 * MANY, report_of_all(write_nest, MANY).diamond);
}

TEST(a_fanout_with_fifty_thousand_exits_is_removed)
{
    CHECK_EQUAL(MANY + 2, report_of_all(write_ladder, MANY).fanout);
}

TEST(fifty_thousand_increfs_before_raises_are_removed)
{
    CHECK_EQUAL(2 * MANY, report_of_all(write_checks, MANY).fanout_raise);
}

TEST(walks_for_stored_values_end_at_the_limit_of_steps)
{
    struct outcome few = prune_written(write_stored_checks, 1000);
    struct outcome many = prune_written(write_stored_checks, 6000);

    CHECK_EQUAL(0, few.report.gave_up);
    CHECK_EQUAL(2 * 1000, few.report.fanout_raise);
    CHECK(many.report.gave_up > 0);
    CHECK(many.report.fanout_raise > 0 && many.report.fanout_raise < 2 * 6000);
}
