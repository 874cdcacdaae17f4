/* explain.c -- test that each rule reports its reason and its location. */
#include "ir.h"

/* The last report, and the number of reports. */
struct explanation {
    unsigned count;
    tarn_prune_rule rule;
    char function[16], value[64], incref[16], at[16], instruction[128], file[32];
    unsigned line, column, at_line;
};

static void listen(void *data, const tarn_prune_kept *kept)
{
    struct explanation *explanation = data;

    explanation->count++;
    explanation->rule = kept->rule;
    CHECK(strlen(kept->message) > 5);
    snprintf(explanation->function, sizeof explanation->function, "%s", kept->function);
    snprintf(explanation->value, sizeof explanation->value, "%s", kept->value);
    snprintf(explanation->incref, sizeof explanation->incref, "%s", kept->incref.block);
    snprintf(explanation->at, sizeof explanation->at, "%s", kept->at.block);
    snprintf(explanation->instruction, sizeof explanation->instruction, "%s",
             kept->at.instruction);
    snprintf(explanation->file, sizeof explanation->file, "%s", kept->incref.file);
    explanation->line = kept->incref.line;
    explanation->column = kept->incref.column;
    explanation->at_line = kept->at.line;
    CHECK(strstr(kept->incref.instruction, "@NRT_incref"));
}

static struct explanation explain(tarn_prune_options options, const char *text)
{
    struct explanation explanation = {0};

    options.explain = listen;
    options.explain_data = &explanation;
    uint64_t kept = prune_with(text, options).report.kept;
    CHECK_EQUAL(kept, explanation.count);
    return explanation;
}

static struct explanation explain_graph(tarn_prune_options options, const char *graph)
{
    char *text = ir_of(graph);
    struct explanation explanation = explain(options, text);

    free(text);
    return explanation;
}

/* In this mode one incref stays, with that reason at that block. */
static void check_mode(tarn_prune_mode mode, tarn_prune_rule rule, const char *at,
                       const char *graph)
{
    struct explanation explanation =
        explain_graph((tarn_prune_options){.mode = mode}, graph);

    CHECK_EQUAL(1, explanation.count);
    CHECK_EQUAL(rule, explanation.rule);
    CHECK_TEXT(at, explanation.at);
    CHECK_TEXT("f", explanation.function);
}

static void check(tarn_prune_rule rule, const char *at, const char *graph)
{
    check_mode(TARN_PRUNE_SOUND, rule, at, graph);
    check_mode(TARN_PRUNE_LLVMLITE, rule, at, graph);
}

TEST(a_release_beside_the_incref_is_named)
{
    check(TARN_PRUNE_DECREF_BESIDE, "%A", "A+a-b:B B-a:");
}

TEST(a_release_on_the_path_is_named)
{
    check(TARN_PRUNE_OTHER_DECREF, "%B", "A+a:B B-b:C C-a:");
}

TEST(a_use_behind_another_release_is_named)
{
    struct explanation explanation =
        explain_graph((tarn_prune_options){0}, "A+a:B B-b*a-a:");

    CHECK_EQUAL(TARN_PRUNE_USED_IN_BETWEEN, explanation.rule);
    CHECK_TEXT("%B", explanation.at);
    CHECK_TEXT("%A", explanation.incref);
    CHECK(strstr(explanation.instruction, "call void @use"));
    CHECK(strstr(explanation.value, "%a"));
}

TEST(a_path_without_a_decref_is_named)
{
    check(TARN_PRUNE_NOT_RELEASED, "%C", "A+a:BC B-a: C:");
}

TEST(a_path_back_is_named)
{
    check(TARN_PRUNE_TAKEN_AGAIN, "%B", "A:B B+a:CD C:BE D-a: E-a:");
}

TEST(a_path_past_the_incref_is_named)
{
    const char *graph = "A:BC B+a:C C-a:";

    check_mode(TARN_PRUNE_SOUND, TARN_PRUNE_NOT_TAKEN, "%C", graph);
    /* This one searches back to the entry. */
    check_mode(TARN_PRUNE_LLVMLITE, TARN_PRUNE_NOT_TAKEN, "%A", graph);
}

TEST(a_path_from_decref_to_decref_is_named)
{
    check(TARN_PRUNE_RELEASED_AGAIN, "%B", "A+a:BC B-a:C C-a:");
}

TEST(an_unreachable_decref_is_named)
{
    check_mode(TARN_PRUNE_SOUND, TARN_PRUNE_NOT_REACHED, "%B", "A: B+a:C C-a:");
}

TEST(a_release_behind_a_raise_is_named)
{
    check_mode(TARN_PRUNE_SOUND, TARN_PRUNE_RELEASED_AFTER_RAISE, "%C",
               "A+a:BC B-a: C!:D D-b:");
}

TEST(a_transferred_reference_is_named)
{
    struct explanation explanation = explain(
        (tarn_prune_options){0},
        FUNCTION(INCREF("%a") "  br i1 %c0, label %B, label %C\nB:\n" INCREF(
            "%a") "  store i8* %a, i8** %excinfo\n" DECREF("%a") "  br label "
                                                                 "%R\nR:\n" RAISE "  ret "
                                                                 "void\nC:\n" DECREF(
                                                                     "%a") "  ret "
                                                                           "void\n"));

    CHECK_EQUAL(TARN_PRUNE_OWNERSHIP_TRANSFERRED, explanation.rule);
    CHECK_TEXT("%B", explanation.at);
}

TEST(a_shape_that_is_off_is_named)
{
    for (int mode = 0; mode < 2; mode++) {
        tarn_prune_options options = {.mode = (tarn_prune_mode)mode,
                                      .shapes = TARN_PRUNE_PER_BLOCK};
        CHECK_EQUAL(TARN_PRUNE_NO_SHAPE, explain_graph(options, "A+a:B B-a:").rule);
    }
}

TEST(an_attribute_is_named)
{
    const char *text = DECLARED "define void @f(i8* %a) noinline optnone {\n" INCREF("%a")
        DECREF("%a") "  ret void\n}\n";

    for (int mode = 0; mode < 2; mode++)
        CHECK_EQUAL(
            TARN_PRUNE_NOT_OPTIMIZED,
            explain((tarn_prune_options){.mode = (tarn_prune_mode)mode}, text).rule);
}

TEST(decrefs_that_went_with_others_are_named)
{
    check(TARN_PRUNE_FEWER_DECREFS, "", "A+a+a-a:");
}

TEST(a_limit_is_named)
{
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE, .subgraph_limit = 1};

    CHECK_EQUAL(TARN_PRUNE_TOO_LARGE, explain_graph(options, "A+a:BC B-a: C-a:").rule);
}

TEST(a_path_of_more_than_fifteen_blocks_is_named)
{
    /* A to N are fourteen, then an end; with O the ends are the sixteenth. */
    const char *fifteen = "A+a:B B:C C:D D:E E:F F:G G:H H:I I:J J:K K:L L:M M:N N:PQ "
                          "P-a: Q-a:";
    const char *sixteen = "A+a:B B:C C:D D:E E:F F:G G:H H:I I:J J:K K:L L:M M:N N:O "
                          "O:PQ P-a: Q-a:";
    tarn_prune_options options = {.mode = TARN_PRUNE_LLVMLITE};

    CHECK_EQUAL(3, prune_graph(options, fifteen).report.fanout);
    check_mode(TARN_PRUNE_LLVMLITE, TARN_PRUNE_TOO_DEEP, "%P", sixteen);
    struct outcome deep = prune_graph(options, sixteen);
    CHECK_EQUAL(0, deep.removed);
    CHECK_EQUAL(2, deep.report.gave_up); /* once without raises, once with them */
    options.mode = TARN_PRUNE_SOUND;
    CHECK_EQUAL(3, prune_graph(options, sixteen).report.fanout);
}

TEST(blocks_without_a_name_have_the_number_that_ir_prints)
{
    struct explanation explanation = explain(
        (tarn_prune_options){0},
        DECLARED "define void @f(i1 %0, i8* %1) {\n  %3 = add i32 1, 2\n" INCREF(
            "%1") "  br i1 %0, label %4, label %5\n4:\n" DECREF("%1") "  ret void\n5:\n"
                                                                      "  ret void\n}\n");

    CHECK_TEXT("%2", explanation.incref);
    CHECK_TEXT("%5", explanation.at);
    CHECK_EQUAL(0, explanation.line);
    CHECK_TEXT("", explanation.file);
}

TEST(the_source_line_is_reported_where_it_is_known)
{
    struct explanation explanation = explain(
        (tarn_prune_options){0}, DECLARED
        "define void @f(i8* %a, i1 %c) !dbg !4 {\n"
        "  call void @NRT_incref(i8* %a), !dbg !5\n"
        "  br i1 %c, label %B, label %C, !dbg !5\nB:\n" DECREF(
            "%a") "  ret void, !dbg !5\nC:\n  ret void, !dbg !6\n}\n"
                  "!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!2}\n"
                  "!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1,"
                  " emissionKind: FullDebug)\n!1 = !DIFile(filename: \"a.py\", "
                  "directory: \"/\")\n"
                  "!2 = !{i32 2, !\"Debug Info Version\", i32 3}\n"
                  "!3 = !DISubroutineType(types: !{null})\n"
                  "!4 = distinct !DISubprogram(name: \"f\", scope: !1, file: !1, line: 1,"
                  " type: !3, unit: !0, spFlags: DISPFlagDefinition)\n"
                  "!5 = !DILocation(line: 5, column: 3, scope: !4)\n"
                  "!6 = !DILocation(line: 6, scope: !4)\n");

    CHECK_TEXT("a.py", explanation.file);
    CHECK_EQUAL(5, explanation.line);
    CHECK_EQUAL(3, explanation.column);
    CHECK_EQUAL(6, explanation.at_line);
}

TEST(an_incref_with_no_decref_of_its_value_is_no_pair)
{
    CHECK_EQUAL(
        0, prune_soundly(FUNCTION(INCREF("%a") DECREF("%b") "  ret void\n")).report.kept);
}
