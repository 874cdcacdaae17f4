/* llvmlite.c -- the cases of llvmlite's own tests of its pass, in both modes. */
#include "ir.h"

static const tarn_prune_mode modes[] = {TARN_PRUNE_SOUND, TARN_PRUNE_LLVMLITE};
enum { MODES = 2 };

/* --- graphs --------------------------------------------------------------------------- */

/* Both modes leave `incref` without its incref, and each block of `decrefs` with one
 * decref less; everything else stays. `incref` is 0: both modes remove nothing. */
static void check_graph(const char *graph, char incref, const char *decrefs)
{
    for (int mode = 0; mode < MODES; mode++) {
        struct outcome outcome =
            prune_graph((tarn_prune_options){.mode = modes[mode]}, graph);
        for (const char *word = graph; *word;) {
            char name[2] = {*word, 0};
            size_t colon, length = word_length(word, &colon);
            unsigned taken = 0, released = 0;
            for (size_t i = 1; i < colon; i++) {
                taken += word[i] == '+';
                released += word[i] == '-';
            }
            CHECK_EQUAL(taken - (*word == incref),
                        count_in(outcome.text, name, "NRT_incref"));
            CHECK_EQUAL(released - (incref && strchr(decrefs, *word)),
                        count_in(outcome.text, name, "NRT_decref"));
            word += length + strspn(word + length, " ");
        }
        CHECK_EQUAL(incref ? 1 + strlen(decrefs) : 0, outcome.removed);
    }
}

/* The large graph of llvmlite's first case: from D, an immediate exit (F), and one behind
 * a loop (G, I) at H. The parameters are the differences of the cases. */
#define LARGE(b, h, i)                                           \
    "A:B B:CD" b " C: D+a:EF E:G F-a-a: G:HI I:GF" i " H-a:JK" h \
    " J:LM K: L:Z M:ZOP O:Z P:Z Z:"

TEST(a_fanout_with_a_loop_inside_is_removed)
{
    check_graph(LARGE("", "", ""), 'D', "HF");
}

TEST(a_decref_that_some_path_misses_keeps_the_incref)
{
    check_graph("A+a:BC B-a:C C-a:", 0, "");
}

TEST(an_exit_that_leads_to_another_exit_keeps_the_incref)
{
    check_graph(LARGE("", "F", ""), 0, "");
}

TEST(an_exit_that_leads_back_inside_keeps_the_incref)
{
    check_graph(LARGE("", "E", ""), 0, "");
}

TEST(a_path_in_past_the_incref_keeps_it)
{
    check_graph(LARGE("I", "", ""), 0, "");
}

TEST(a_path_back_to_before_the_incref_keeps_it)
{
    check_graph(LARGE("", "", "B"), 0, "");
}

TEST(a_path_out_without_a_decref_keeps_the_incref)
{
    check_graph(LARGE("", "", "M"), 0, "");
}

#define SMALL(c) "S:A A+a:BC B:C C-a:" c

TEST(a_diamond_is_removed)
{
    check_graph(SMALL(""), 'A', "C");
}

TEST(a_diamond_that_is_entered_from_behind_stays)
{
    check_graph(SMALL("B"), 0, "");
}

TEST(a_diamond_in_a_loop_is_removed)
{
    check_graph(SMALL("A"), 'A', "C");
}

TEST(a_diamond_with_blocks_behind_it_is_removed)
{
    check_graph(SMALL("D") " D:", 'A', "C");
}

TEST(a_diamond_in_a_longer_loop_is_removed)
{
    check_graph(SMALL("D") " D:A", 'A', "C");
}

TEST(a_diamond_that_is_entered_by_a_detour_from_behind_stays)
{
    check_graph(SMALL("D") " D:B", 0, "");
}

/* --- one shape at a time ---------------------------------------------------------------- */

static void check_shape(unsigned shape, uint64_t removed, const char *graph)
{
    for (int mode = 0; mode < MODES; mode++) {
        tarn_prune_options options = {.mode = modes[mode], .shapes = shape};
        struct outcome outcome = prune_graph(options, graph);
        const tarn_prune_report *report = &outcome.report;
        CHECK_EQUAL(removed, outcome.removed);
        CHECK_EQUAL(removed, shape == TARN_PRUNE_PER_BLOCK ? report->per_block
                             : shape == TARN_PRUNE_DIAMOND ? report->diamond
                             : shape == TARN_PRUNE_FANOUT  ? report->fanout
                                                           : report->fanout_raise);
    }
}

TEST(per_block_takes_a_pair)
{
    check_shape(TARN_PRUNE_PER_BLOCK, 2, "A+a-a:");
}

TEST(per_block_takes_as_many_pairs_as_there_are)
{
    check_shape(TARN_PRUNE_PER_BLOCK, 4, "A+a+a+a-a-a:");
}

TEST(per_block_leaves_other_values_alone)
{
    check_shape(TARN_PRUNE_PER_BLOCK, 2, "A+a+a-a-b:");
    struct outcome outcome = prune_graph((tarn_prune_options){0}, "A+a+a-a-b:");
    CHECK_EQUAL(1,
                count_of(outcome.text, "* %b)\n") + count_of(outcome.text, "ptr %b)\n"));
}

TEST(per_block_takes_a_decref_that_comes_first)
{
    check_shape(TARN_PRUNE_PER_BLOCK, 4, "A+a-a-a-b+a:");
}

TEST(per_block_takes_refops_on_null_one_by_one)
{
    for (int mode = 0; mode < MODES; mode++)
        CHECK_EQUAL(3, prune_as(modes[mode], TARN_PRUNE_PER_BLOCK,
                                FUNCTION(DECREF("null") DECREF("null") INCREF("null")
                                             DECREF("%a") "  ret void\n"))
                           .report.per_block);
}

TEST(diamond_takes_a_straight_line)
{
    check_shape(TARN_PRUNE_DIAMOND, 2, "A+a:B B-a:");
}

TEST(diamond_takes_a_diamond)
{
    check_shape(TARN_PRUNE_DIAMOND, 2, "A+a:BC B:D C:D D-a:");
}

TEST(diamond_rejects_a_decref_on_the_path)
{
    check_shape(TARN_PRUNE_DIAMOND, 0, "A+a:BC B:D C-a:D D-a:");
}

TEST(diamond_allows_an_incref_on_the_path)
{
    check_shape(TARN_PRUNE_DIAMOND, 2, "A+a:BC B+a:D C:D D-a:");
}

TEST(diamond_takes_two_pairs)
{
    check_shape(TARN_PRUNE_DIAMOND, 4, "A+a+a:BC B:D C:D D-a-a:");
}

TEST(fanout_takes_one_incref_and_two_decrefs)
{
    check_shape(TARN_PRUNE_FANOUT, 3, "A+a:BC B-a: C-a:");
}

TEST(fanout_rejects_one_decref_behind_another)
{
    check_shape(TARN_PRUNE_FANOUT, 0, "A+a:BC B-a: C-a:B");
}

#define TWICE "A+a+a:BC B-a-a-a: C-a-a:"

TEST(fanout_takes_two_increfs_and_leaves_a_decref_over)
{
    check_shape(TARN_PRUNE_FANOUT, 6, TWICE);
}

TEST(fanout_of_llvmlite_gives_up_at_its_limit_and_ours_does_not)
{
    tarn_prune_options options = {
        .mode = TARN_PRUNE_LLVMLITE, .shapes = TARN_PRUNE_FANOUT, .subgraph_limit = 1};
    struct outcome limited = prune_graph(options, TWICE);

    CHECK_EQUAL(0, limited.removed);
    CHECK(limited.report.gave_up > 0);
    options.mode = TARN_PRUNE_SOUND;
    CHECK_EQUAL(6, prune_graph(options, TWICE).removed);
}

/* --- paths that raise --------------------------------------------------------------- */

TEST(fanout_raise_forgives_the_decref_where_it_raises)
{
    check_shape(TARN_PRUNE_FANOUT_RAISE, 2, "A+a:BC B-a: C!:");
}

TEST(fanout_raise_wants_a_decref_somewhere)
{
    check_shape(TARN_PRUNE_FANOUT_RAISE, 0, "A+a:BC B!: C!:");
}

TEST(fanout_raise_wants_a_raise_somewhere)
{
    check_shape(TARN_PRUNE_FANOUT_RAISE, 0, "A+a:BC B-a: C-a:");
}

TEST(fanout_raise_allows_a_ret_that_all_paths_share)
{
    check_shape(TARN_PRUNE_FANOUT_RAISE, 2, "A+a:BC B-a:D C!:D D:");
}

TEST(fanout_raise_removes_fanouts_that_share_a_raise)
{
    /* A case of llvmlite's tests: one of two increfs is removed before the second branch,
     * the other behind it. A third one is taken on one of its paths. */
    check_shape(TARN_PRUNE_FANOUT_RAISE, 7, "A+a+a:BC B-a:DE C!: D-a: E+a:FC F-a-a:");
}

/* A raise in C, as text, and the metadata of its mark. */
#define RAISING(raise, mark)                                                         \
    DECLARED "define void @f" ARGUMENTS                                              \
             " {\nA:\n" INCREF("%a") "  br i1 %c0, label %B, label %C\nB:\n" DECREF( \
                 "%a") "  ret void\nC:\n" raise "}\n!0 = !{" mark "}\n"

static void check_mark(uint64_t removed, const char *text)
{
    for (int mode = 0; mode < MODES; mode++)
        CHECK_EQUAL(removed, prune_as(modes[mode], 0, text).report.fanout_raise);
}

TEST(fanout_raise_wants_the_names_of_the_mark)
{
    check_mark(2, RAISING(RAISE "  ret void\n", "i1 true"));
    check_mark(0, RAISING("  store i8* null, i8** %excinfo, !numba_exception !0\n"
                          "  ret void\n",
                          "i1 true"));
    check_mark(0, RAISING("  %x = alloca i8*\n"
                          "  store i8* null, i8** %x, !numba_exception_output !0\n"
                          "  ret void\n",
                          "i1 true"));
}

TEST(fanout_raise_does_not_mind_what_the_mark_says)
{
    check_mark(2, RAISING(RAISE "  ret void\n", "i32 1"));
}

#define MARKED_RET(mark) RAISING("  ret void, !ret_is_raise !0\n", mark)

TEST(the_mark_of_older_numbas_is_used_if_it_is_requested)
{
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE};

    CHECK_EQUAL(0, prune_with(MARKED_RET("i1 true"), options).removed);
    options.raise_metadata = TARN_PRUNE_RAISE_RET;
    CHECK_EQUAL(2, prune_with(MARKED_RET("i1 true"), options).removed);
    CHECK_EQUAL(0, prune_with(MARKED_RET("i1 false"), options).removed);
    CHECK_EQUAL(0, prune_with(MARKED_RET("i1 true, i1 true"), options).removed);
    CHECK_EQUAL(0, prune_with(RAISING(RAISE "  ret void\n", "i1 true"), options).removed);
    CHECK_EQUAL(2, prune_soundly(MARKED_RET("i1 true")).removed);
}

TEST(with_the_old_mark_alone_it_is_the_pass_of_then)
{
    /* A path to the raise that has not passed the incref: newer versions do not search
     * back there. */
    const char *text = FUNCTION("  br i1 %c0, label %B, label %R\nB:\n" INCREF(
        "%a") "  br i1 %c1, label %C, label %R\nC:\n" DECREF("%a") "  ret void\nR:\n  "
                                                                   "ret void, "
                                                                   "!ret_is_raise !0\n");
    const char *optnone =
        DECLARED "define void @f(i8* %a) noinline optnone {\n" INCREF("%a")
            DECREF("%a") "  ret void\n}\n";
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE,
                                  .raise_metadata = TARN_PRUNE_RAISE_RET};

    CHECK_EQUAL(0, prune_with(text, options).removed);
    CHECK_EQUAL(2, prune_with(optnone, options).removed);
    options.raise_metadata |= TARN_PRUNE_RAISE_STORE;
    CHECK_EQUAL(2, prune_with(text, options).removed);
    CHECK_EQUAL(0, prune_with(optnone, options).removed);
}

/* --- the order of operations -------------------------------------------------------- */

#define NEAR "A+a:Bx B:C C:D D:E E:F F:G G:H H:I I:J J:K K:L L:M M:N N:O x-a:"

TEST(llvmlite_looks_no_more_than_fifteen_blocks_far)
{
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE};

    CHECK_EQUAL(3, prune_graph(options, NEAR " O-a:").removed);
    struct outcome outcome = prune_graph(options, NEAR " O:P P-a:");
    CHECK_EQUAL(0, outcome.removed);
    CHECK(outcome.report.gave_up > 0);
    options.mode = TARN_PRUNE_SOUND;
    outcome = prune_graph(options, NEAR " O:P P-a:");
    CHECK_EQUAL(3, outcome.removed);
    CHECK_EQUAL(0, outcome.report.gave_up);
}

TEST(llvmlite_drops_the_other_increfs_of_a_block_that_failed)
{
    /* %b would match, but %a comes first and meets a decref that is not its own. */
    const char *graph = "A+a+b:BC B-b: C-b:";
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE};

    CHECK_EQUAL(0, prune_graph(options, graph).removed);
    options.mode = TARN_PRUNE_SOUND;
    CHECK_EQUAL(3, prune_graph(options, graph).removed);
}
