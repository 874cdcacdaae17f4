/* prune.c -- test pruning in place, options, the definition of a refop, and moves. */
#include "ir.h"
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>

#define PAIR INCREF("%a") DECREF("%a")

static LLVMModuleRef parse(LLVMContextRef context, const char *text)
{
    LLVMModuleRef module;
    char *message = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");

    if (LLVMParseIRInContext(context, buffer, &module, &message))
        fail_msg("%s", message);
    return module;
}

static unsigned refops_of(LLVMModuleRef module)
{
    char *text = LLVMPrintModuleToString(module);
    unsigned count = count_of(text, "call void @NRT_");

    LLVMDisposeMessage(text);
    return count;
}

TEST(a_module_is_pruned_in_place_and_declarations_are_left_alone)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = parse(context, FUNCTION(PAIR "  ret void\n"));
    tarn_prune_report report;

    CHECK_OK(tarn_prune_module(module, NULL, &report));
    CHECK_EQUAL(0, refops_of(module));
    CHECK_EQUAL(1, report.functions);
    CHECK_EQUAL(1, report.functions_changed);
    CHECK_EQUAL(1, report.increfs);
    CHECK_EQUAL(1, report.decrefs);
    CHECK(report.peak_bytes > 0);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

TEST(one_function_is_pruned_and_the_others_are_not)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module =
        parse(context, DECLARED "define void @f(i8* %a) {\n" PAIR "  ret void\n}\n"
                                "define void @g(i8* %a) {\n" PAIR "  ret void\n}\n");

    CHECK_OK(tarn_prune_function(LLVMGetNamedFunction(module, "f"), NULL, NULL));
    CHECK_EQUAL(2, refops_of(module));
    CHECK_OK(tarn_prune_function(LLVMGetNamedFunction(module, "use"), NULL, NULL));
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

TEST(arguments_that_are_no_module_or_function_are_rejected)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_module(NULL, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_function(NULL, NULL, NULL));
}

TEST(a_block_without_an_end_is_rejected_by_the_name_of_its_function)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = parse(context, FUNCTION(PAIR "  ret void\n"));
    tarn_prune_report report = {.increfs = 77};

    LLVMAppendBasicBlockInContext(context, LLVMGetNamedFunction(module, "f"), "open");
    CHECK_STATUS(TARN_BAD_FORMAT, tarn_prune_module(module, NULL, &report));
    CHECK_MESSAGE("block 1 of function f has no terminator");
    CHECK_EQUAL(77, report.increfs);
    CHECK_EQUAL(2, refops_of(module));
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

TEST(options_that_mean_nothing_are_rejected)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = parse(context, FUNCTION(PAIR "  ret void\n"));
    tarn_prune_options shapes = {.shapes = 32}, mode = {.mode = (tarn_prune_mode)3},
                       raises = {.raise_metadata = 4};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_module(module, &shapes, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_module(module, &mode, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_module(module, &raises, NULL));
    CHECK_EQUAL(2, refops_of(module));
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

TEST(shapes_that_are_off_take_nothing)
{
    const char *diamond =
        FUNCTION("A:\n" INCREF("%a") "  br label %B\nB:\n" DECREF("%a") "  ret void\n");

    for (int mode = 0; mode < 2; mode++) {
        CHECK_EQUAL(
            0, prune_as((tarn_prune_mode)mode, TARN_PRUNE_PER_BLOCK, diamond).removed);
        CHECK_EQUAL(
            0, prune_as((tarn_prune_mode)mode, TARN_PRUNE_FANOUT_RAISE, diamond).removed);
        CHECK_EQUAL(2,
                    prune_as((tarn_prune_mode)mode, TARN_PRUNE_FANOUT, diamond).removed);
        CHECK_EQUAL(0, prune_as((tarn_prune_mode)mode, TARN_PRUNE_DIAMOND,
                                FUNCTION(PAIR "  ret void\n"))
                           .removed);
    }
}

TEST(a_function_that_is_not_to_be_optimized_is_left_alone)
{
    const char *text = DECLARED "define void @f(i8* %a) noinline optnone {\n" DECREF("%a")
        INCREF("%a") "  ret void\n}\n";

    for (int mode = 0; mode < 2; mode++) {
        struct outcome outcome = prune_as((tarn_prune_mode)mode, 0, text);
        CHECK_EQUAL(0, outcome.removed);
        CHECK_EQUAL(1, outcome.report.kept);
        CHECK(strstr(outcome.text, "NRT_decref(") <
                  strstr(outcome.text, "NRT_incref(ptr %a") ||
              strstr(outcome.text, "void @NRT_decref(i8* %a") <
                  strstr(outcome.text, "void @NRT_incref(i8* %a"));
    }
}

/* --- refops ------------------------------------------------------------------------- */

/* An argument and a result with these names: llvmlite's pass takes their calls for refops. */
TEST(a_pointer_that_has_the_name_may_call_anything)
{
    const char *text =
        "declare void @NRT_incref(i8*)\ndeclare void @NRT_decref(i8*)\n"
        "define void @f(i8* %a, void (i8*)* %NRT_incref,"
        " void (i8*)** %p) {\n"
        "  %NRT_decref = load void (i8*)*, void (i8*)** %p\n"
        "  %x = load i8*, i8** undef\n"
        "  call void %NRT_incref(i8* %a)\n"
        "  call void %NRT_decref(i8* %a)\n" INCREF(
            "%x") "  call void %NRT_incref(i8* %x)\n" DECREF("%x") "  ret void\n}\n";

    CHECK_EQUAL(0, prune_soundly(text).removed);
    CHECK_EQUAL(4, prune_as(TARN_PRUNE_LLVMLITE, 0, text).removed);
}

TEST(a_refop_may_have_a_body)
{
    CHECK_EQUAL(2, prune_soundly("declare void @NRT_incref(i8*)\n"
                                 "define void @NRT_decref(i8* %a) {\n  ret void\n}\n"
                                 "define void @f(i8* %a) {\n" INCREF("%a")
                                     DECREF("%a") "  ret void\n}\n")
                       .removed);
}

TEST(calls_that_only_look_like_refops_are_none)
{
    struct outcome outcome =
        prune_soundly("declare void @NRT_incref()\ndeclare i32 @NRT_decref(i8*)\n"
                      "define i32 @f(i8* %a) {\n  call void @NRT_incref()\n"
                      "  %x = call i32 @NRT_decref(i8* %a)\n  ret i32 %x\n}\n");

    CHECK_EQUAL(0, outcome.report.increfs);
    CHECK_EQUAL(0, outcome.report.decrefs);
}

TEST(a_refop_may_have_more_arguments_than_one)
{
    CHECK_EQUAL(2, prune_soundly("declare void @NRT_incref(i8*, i8*)\n"
                                 "declare void @NRT_decref(i8*, i8*)\n"
                                 "define void @f(i8* %a, i8* %b) {\n"
                                 "  call void @NRT_incref(i8* %a, i8* %b)\n"
                                 "  call void @NRT_decref(i8* %a, i8* null)\n"
                                 "  ret void\n}\n")
                       .removed);
}

/* --- moves -------------------------------------------------------------------------- */

/* The order of the calls of a function without blocks: `+`, `-`, `u`. */
static void check_order(const char *wanted, tarn_prune_mode mode, const char *text)
{
    char order[64];
    size_t length = 0;
    struct outcome outcome = prune_as(mode, TARN_PRUNE_DIAMOND, text);
    const char *at = strstr(outcome.text, "define");

    while ((at = strstr(at, "call void @")) != NULL) {
        at += strlen("call void @");
        order[length++] = strncmp(at, "NRT_incref", 10) == 0   ? '+'
                          : strncmp(at, "NRT_decref", 10) == 0 ? '-'
                                                               : 'u';
    }
    order[length] = 0;
    CHECK_TEXT(wanted, order);
}

TEST(decrefs_move_to_the_end_of_a_block_with_an_incref)
{
    for (int mode = 0; mode < 2; mode++) {
        check_order(
            "+u--", (tarn_prune_mode)mode,
            FUNCTION(DECREF("%a") INCREF("%b") DECREF("%b") USE("%a") "  ret void\n"));
        check_order("-u", (tarn_prune_mode)mode,
                    FUNCTION(DECREF("%a") USE("%b") "  ret void\n"));
    }
}

TEST(a_decref_that_moves_keeps_its_line_of_the_source)
{
    struct outcome outcome = prune_soundly(
        DECLARED
        "define void @f(i8* %a, i8* %b) !dbg !4 {\n"
        "  call void @NRT_decref(i8* %a), !dbg !5\n"
        "  call void @NRT_incref(i8* %b), !dbg !6\n  ret void, !dbg !6\n}\n"
        "!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!2}\n"
        "!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: "
        "FullDebug)\n"
        "!1 = !DIFile(filename: \"a.py\", directory: \"/\")\n"
        "!2 = !{i32 2, !\"Debug Info Version\", i32 3}\n"
        "!3 = !DISubroutineType(types: !{null})\n"
        "!4 = distinct !DISubprogram(name: \"f\", scope: !1, file: !1, line: 1, type: !3,"
        " unit: !0, spFlags: DISPFlagDefinition)\n"
        "!5 = !DILocation(line: 5, scope: !4)\n!6 = !DILocation(line: 6, scope: !4)\n");
    const char *decref = strstr(outcome.text, "call void @NRT_decref");
    const char *incref = strstr(outcome.text, "call void @NRT_incref");
    const char *five = strstr(outcome.text, "!DILocation(line: 5");
    char number[8];

    CHECK(incref < decref && five);
    /* The decref's `!dbg !N` is the one with line 5. */
    while (*five != '\n')
        five--;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(five + 1, " "), five + 1);
    CHECK(strncmp(strstr(decref, "!dbg ") + 5, number, strlen(number)) == 0);
}

#if LLVM_VERSION_MAJOR >= 18
TEST(nothing_is_put_between_a_call_that_must_be_a_tail_call_and_the_ret)
{
    check_order("+-u", TARN_PRUNE_SOUND,
                DECLARED "define void @f(i8* %a) {\n" DECREF("%a")
                    INCREF("%a") "  musttail call void @use(i8* %a)\n  ret void\n}\n");
}
#endif

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 25 };

static void *prune_in_thread(void *data)
{
    uint64_t *removed = data;
    const char *text = FUNCTION(
        "A:\n" PAIR INCREF("%a") "  br label %B\nB:\n" DECREF("%a") "  ret void\n");

    for (int round = 0; round < ROUNDS; round++) {
        tarn_prune_report report;
        char *out;
        size_t bytes;
        if (tarn_prune_bytes(text, strlen(text), NULL, NULL, &report, &out, &bytes) !=
            TARN_OK)
            return NULL;
        *removed += report.per_block + report.diamond;
        tarn_prune_free(out);
    }
    return NULL;
}

TEST(threads_prune_at_once_and_each_has_its_own_numbers)
{
    pthread_t threads[THREADS];
    uint64_t removed[THREADS] = {0};

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, prune_in_thread, &removed[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(4 * ROUNDS, removed[i]);
    }
}
