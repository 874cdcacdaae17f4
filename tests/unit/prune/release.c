/* release.c -- test which calls keep a pair that stands around them. */
#include "ir.h"
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>

/* A function with a pair around a call. `%x` is no parameter. */
#define BEFORE_CALL(name) \
    "define void @" name  \
    "(i8** %p, void (i8*)* %f) {\n  %x = load i8*, i8** %p\n" INCREF("%x")
#define BEHIND_CALL USE("%x") DECREF("%x") "  ret void\n}\n"
#define AROUND(name, call) BEFORE_CALL(name) call BEHIND_CALL

static uint64_t removed_from(const char *declared, const char *call)
{
    char text[4096];

    snprintf(text, sizeof text, "%s%s%s%s%s", DECLARED, declared, BEFORE_CALL("f"), call,
             BEHIND_CALL);
    return prune_soundly(text).removed;
}

TEST(a_call_that_may_release_keeps_the_pair_around_it)
{
    CHECK_EQUAL(0, removed_from("declare void @any()\n", "  call void @any()\n"));
    CHECK_EQUAL(0, removed_from("", "  call void %f(i8* %x)\n"));
    CHECK_EQUAL(0, removed_from("", "  call void asm sideeffect \"\", \"\"()\n"));
    CHECK_EQUAL(0, removed_from("declare void @NRT_MemInfo_release(i8*)\n",
                                "  call void @NRT_MemInfo_release(i8* %x)\n"));
    CHECK_EQUAL(0, removed_from("declare i32 @numba_list_setitem(i8*)\n",
                                "  %i = call i32 @numba_list_setitem(i8* %x)\n"));
    CHECK_EQUAL(0, removed_from("declare void @NRT_Fre()\ndeclare void @NRT_Freed()\n",
                                "  call void @NRT_Fre()\n"));
    CHECK_EQUAL(0, removed_from("declare void @NRT_Fre()\ndeclare void @NRT_Freed()\n",
                                "  call void @NRT_Freed()\n"));
}

TEST(a_call_that_writes_nothing_keeps_no_pair)
{
    CHECK_EQUAL(2,
                removed_from("declare void @any() readnone\n", "  call void @any()\n"));
    CHECK_EQUAL(2,
                removed_from("declare void @any() readonly\n", "  call void @any()\n"));
    CHECK_EQUAL(2,
                removed_from("declare void @any()\n", "  call void @any() readonly\n"));
    CHECK_EQUAL(2, removed_from("", "  call void %f(i8* %x) readnone\n"));
}

TEST(intrinsics_and_numbas_helpers_keep_no_pair)
{
    CHECK_EQUAL(2, removed_from("declare void @llvm.memset.p0i8.i64(i8*, i8, i64, i1)\n",
                                "  call void @llvm.memset.p0i8.i64(i8* %x, i8 0, i64 8,"
                                " i1 false)\n"));
    CHECK_EQUAL(2, removed_from("declare i8* @NRT_MemInfo_alloc_safe_aligned(i64, i32)\n",
                                "  %n = call i8* @NRT_MemInfo_alloc_safe_aligned(i64 8,"
                                " i32 8)\n"));
    CHECK_EQUAL(2, removed_from("declare double @sin(double)\n",
                                "  %s = call double @sin(double 1.0)\n"));
    CHECK_EQUAL(2, removed_from("declare void @acos()\n", "  call void @acos()\n"));
}

TEST(a_function_of_the_module_releases_as_its_body_does)
{
    CHECK_EQUAL(
        2, removed_from("define void @any() {\n  ret void\n}\n", "  call void @any()\n"));
    CHECK_EQUAL(2, removed_from("define linkonce_odr void @any() {\n  ret void\n}\n",
                                "  call void @any()\n"));
    CHECK_EQUAL(
        0, removed_from("define void @any(i8* %q) {\n" DECREF("%q") "  ret void\n}\n",
                        "  call void @any(i8* %x)\n"));
    CHECK_EQUAL(0, removed_from("declare void @outside()\n"
                                "define void @any() {\n  call void @outside()\n"
                                "  ret void\n}\n",
                                "  call void @any()\n"));
}

TEST(a_body_that_the_linker_may_replace_proves_nothing)
{
    CHECK_EQUAL(0, removed_from("define weak void @any() {\n  ret void\n}\n",
                                "  call void @any()\n"));
    CHECK_EQUAL(0, removed_from("define linkonce void @any() {\n  ret void\n}\n",
                                "  call void @any()\n"));
    CHECK_EQUAL(0, removed_from("define void @body() {\n  ret void\n}\n"
                                "@any = alias void (), void ()* @body\n",
                                "  call void @any()\n"));
}

#define RECURSION(end)                                                       \
    "define void @even(i8* %q) {\n  call void @odd(i8* %q)\n  ret void\n}\n" \
    "define void @odd(i8* %q) {\n  call void @even(i8* %q)\n"                \
    "  call void @last(i8* %q)\n  ret void\n}\n"                             \
    "define void @last(i8* %q) {\n" end "  ret void\n}\n"

TEST(recursion_releases_only_if_something_in_it_does)
{
    CHECK_EQUAL(2, removed_from(RECURSION(USE("%q")), "  call void @even(i8* %x)\n"));
    CHECK_EQUAL(0, removed_from(RECURSION(DECREF("%q")), "  call void @even(i8* %x)\n"));
}

TEST(a_long_chain_of_calls_is_followed_to_its_end)
{
    enum { FUNCTIONS = 5000 };
    char *text;
    size_t bytes;

    for (int releases = 0; releases < 2; releases++) {
        FILE *out = open_memstream(&text, &bytes);
        fputs(DECLARED "declare void @outside()\n" AROUND("f", "  call void @g0()\n"),
              out);
        for (int i = 0; i < FUNCTIONS; i++)
            fprintf(out, "define void @g%d() {\n  call void @g%d()\n  ret void\n}\n", i,
                    i + 1);
        fprintf(out, "define void @g%d() {\n%s  ret void\n}\n", FUNCTIONS,
                releases ? "  call void @outside()\n" : "");
        fclose(out);
        CHECK_EQUAL(releases ? 0 : 2, prune_soundly(text).removed);
        free(text);
    }
}

TEST(one_option_assumes_that_no_call_releases)
{
    const char *text =
        DECLARED "declare void @any()\n" AROUND("f", "  call void @any()\n");

    CHECK_EQUAL(0, prune_soundly(text).removed);
    CHECK_EQUAL(2, prune_as(TARN_PRUNE_ASSUME_CALLS_KEEP, 0, text).removed);
    CHECK_EQUAL(2, prune_as(TARN_PRUNE_LLVMLITE, 0, text).removed);
}

#define ANY DECLARED "declare void @any()\n"
#define CALL_ANY "  call void @any()\n"

TEST(a_pair_before_or_behind_the_call_goes)
{
    CHECK_EQUAL(4, prune_soundly(ANY "define void @f(i8** %p) {\n"
                                     "  %x = load i8*, i8** %p\n" INCREF("%x") USE("%x")
                                         DECREF("%x") CALL_ANY INCREF("%x") DECREF("%x")
                                             USE("%x") "  ret void\n}\n")
                       .removed);
}

TEST(a_parameter_is_held_by_the_caller)
{
    CHECK_EQUAL(2, prune_soundly(ANY "define void @f(i8* %x) {\n" INCREF("%x")
                                     CALL_ANY USE("%x") DECREF("%x") "  ret void\n}\n")
                       .removed);
    CHECK_EQUAL(2, prune_soundly(
                       ANY "define void @f(i8* %x) {\n" INCREF("%x") CALL_ANY
                       "  br label %end\nend:\n" CALL_ANY DECREF("%x") "  ret void\n}\n")
                       .removed);
}

#define RELEASE DECLARED "declare void @NRT_MemInfo_release(i8*)\n"
#define CALL_RELEASE "  call void @NRT_MemInfo_release(i8* %x)\n"

TEST(a_parameter_is_not_held_where_the_function_releases_it)
{
    CHECK_EQUAL(0,
                prune_soundly(RELEASE "define void @f(i8* %x) {\n" INCREF("%x")
                                  CALL_RELEASE USE("%x") DECREF("%x") "  ret void\n}\n")
                    .removed);
    CHECK_EQUAL(0, prune_soundly(RELEASE "define void @f(i8* %x) {\n" INCREF(
                                     "%x") "  br label %end\n"
                                           "end:\n" CALL_RELEASE USE("%x")
                                               DECREF("%x") "  ret void\n}\n")
                       .removed);
    CHECK_EQUAL(2, prune_soundly(RELEASE "define void @f(i8* %x) {\n" INCREF("%x")
                                     INCREF("%x") CALL_RELEASE USE("%x") DECREF("%x")
                                         DECREF("%x") "  ret void\n}\n")
                       .removed);
}

TEST(an_invoked_decref_may_release_a_parameter)
{
    const char *text = DECLARED
        "declare i32 @personality(...)\n"
        "define void @f(i8* %x, i8* %y) personality i32 (...)* @personality {\n" INCREF(
            "%x") "  invoke void @NRT_decref(i8* %y) to label %good unwind label %pad\n"
                  "good:\n" USE("%x") DECREF(
                      "%x") "  ret void\n"
                            "pad:\n  %l = landingpad { i8*, i32 } cleanup\n" DECREF(
                                "%x") "  resume { i8*, i32 } %l\n}\n";

    CHECK_EQUAL(0, prune_soundly(text).removed);
    CHECK_EQUAL(3, prune_as(TARN_PRUNE_ASSUME_CALLS_KEEP, 0, text).removed);
}

/* The last of the references stays: nothing else keeps the object. */
TEST(a_second_reference_of_the_function_keeps_the_object)
{
    CHECK_EQUAL(2, prune_soundly(ANY "define void @f(i8** %p) {\n"
                                     "  %x = load i8*, i8** %p\n" INCREF("%x")
                                         INCREF("%x") CALL_ANY DECREF("%x") USE("%x")
                                             DECREF("%x") "  ret void\n}\n")
                       .removed);
    CHECK_EQUAL(2, prune_soundly(
                       ANY "define void @f(i8** %p) {\n"
                           "  %x = load i8*, i8** %p\n" INCREF(
                               "%x") "  br label %in\nin:\n" INCREF("%x") CALL_ANY
                       "  br label %out\nout:\n" DECREF(
                           "%x") "  br label %end\nend:\n" DECREF("%x") "  ret void\n}\n")
                       .removed);
}

/* The second decref belongs to the second object of that name, or to a new reference. */
TEST(a_reference_that_is_taken_later_keeps_nothing_now)
{
    CHECK_EQUAL(
        0, prune_soundly(ANY "define void @f(i8** %p, i1 %c) {\nentry:\n"
                             "  br label %loop\nloop:\n"
                             "  %x = load i8*, i8** %p\n" INCREF("%x") CALL_ANY DECREF(
                                 "%x") "  br i1 %c, label %loop, label %end\nend:\n"
                                       "  ret void\n}\n")
               .removed);
    CHECK_EQUAL(2, prune_soundly(ANY "define void @f(i8** %p) {\n"
                                     "  %x = load i8*, i8** %p\n" INCREF("%x")
                                         CALL_ANY DECREF("%x") CALL_ANY INCREF("%x")
                                             DECREF("%x") "  ret void\n}\n")
                       .removed);
}

/* One path releases both references. On the other one `%p` takes one over, and `more` says
 * what becomes of it. */
static uint64_t removed_beside(const char *merge, const char *more)
{
    char text[2048];

    snprintf(text, sizeof text,
             ANY "@kept = external global i8*\n"
                 "define void @f(i8** %%l, i1 %%c) {\nentry:\n"
                 "  %%x = load i8*, i8** %%l\n" INCREF("%%x")
                     INCREF("%%x") "  br i1 %%c, label %%two, label %%give\n"
                                   "two:\n" DECREF("%%x") DECREF(
                                       "%%x") "  ret void\n"
                                              "give:\n  %%p = %s\n%s  call void @any()\n"
                                              "  br label %%last\nlast:\n" USE("%%x")
                                                  DECREF("%%x") "  ret void\n}\n",
             merge, more);
    return prune_soundly(text).removed;
}

TEST(a_reference_that_a_phi_gives_away_keeps_nothing)
{
    const char *phi = "phi i8* [ %x, %entry ]",
               *select = "select i1 %c, i8* null, i8* %x";
    const char *store = "  store i8* %p, i8** @kept\n";

    CHECK_EQUAL(0, removed_beside(phi, store));
    CHECK_EQUAL(0, removed_beside(select, store));
    CHECK_EQUAL(0, removed_beside(phi, "  %q = select i1 %c, i8* %p, i8* null\n"));
    CHECK_EQUAL(3, removed_beside(phi, ""));
    CHECK_EQUAL(3, removed_beside(phi, USE("%p")));
    CHECK_EQUAL(3, removed_beside(select, "  %v = load i8, i8* %p\n"));
}

TEST(one_function_alone_is_pruned_without_reading_other_bodies)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module;
    const char *text = DECLARED "define void @any() {\n  ret void\n}\n" AROUND(
        "f", "  call void @any()\n")
        AROUND("g", "  call void @llvm.donothing()\n") "declare void @llvm.donothing()\n";
    tarn_prune_report report;
    char *message = NULL;

    CHECK(!LLVMParseIRInContext(
        context, LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test"),
        &module, &message));
    CHECK_OK(tarn_prune_function(LLVMGetNamedFunction(module, "f"), NULL, &report));
    CHECK_EQUAL(0, report.per_block);
    CHECK_OK(tarn_prune_function(LLVMGetNamedFunction(module, "g"), NULL, &report));
    CHECK_EQUAL(2, report.per_block);
    CHECK_OK(tarn_prune_module(module, NULL, &report));
    CHECK_EQUAL(2, report.per_block);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

/* --- why ----------------------------------------------------------------------------- */

static tarn_prune_rule rule;
static char instruction[128];

static void listen(void *data, const tarn_prune_kept *kept)
{
    (void)data;
    rule = kept->rule;
    snprintf(instruction, sizeof instruction, "%s", kept->at.instruction);
}

static void check_reason(const char *text)
{
    rule = TARN_PRUNE_NO_SHAPE;
    prune_with(text, (tarn_prune_options){.explain = listen});
    CHECK_EQUAL(TARN_PRUNE_RELEASING_CALL, rule);
    CHECK_TEXT("call void @any()", instruction);
}

TEST(the_reason_names_the_call)
{
    check_reason(ANY AROUND("f", CALL_ANY));
    check_reason(ANY "define void @f(i8** %p) {\n  %x = load i8*, i8** %p\n" INCREF(
        "%x") "  br label %end\nend:\n" CALL_ANY DECREF("%x") "  ret void\n}\n");
    check_reason(ANY
                 "define void @f(i8** %p, i1 %c) {\n  %x = load i8*, i8** %p\n" INCREF(
                     "%x") "  br i1 %c, label %in, label %end\nin:\n" CALL_ANY
                           "  br label %end\nend:\n" DECREF("%x") "  ret void\n}\n");
}
