/* starved.c -- test pruning with each host allocation failing in turn. */
#include "ir.h"
#include "starving.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>

void *__real_malloc(size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return starving_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return starving_fails() ? NULL : __real_realloc(block, bytes);
}

/* Several functions: a loop whose phi carries a reference, a diamond around a call of a body,
 * and many pairs in many blocks, so that all tables grow. */
static char *make_text(void)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    CHECK(out);
    fputs(
        DECLARED
        "declare void @callback()\n"
        "define internal void @reads(i8* %a) {\n" USE(
            "%a") "  ret void\n}\n"
                  "define i32 @walk(i8** %excinfo, i8* %head, i1 %c) {\n"
                  "entry:\n" INCREF(
                      "%head") "  br label %loop\n"
                               "loop:\n  %at = phi i8* [ %head, %entry ], [ %next, %loop "
                               "]\n"
                               "  %next = getelementptr i8, i8* %at, i64 8\n" INCREF(
                                   "%next")
                                   DECREF("%at") "  br i1 %c, label %loop, label %end\n"
                                                 "end:\n" DECREF(
                                                     "%next") "  ret i32 0\n}\n"
                                                              "define void @many(i8* %a, "
                                                              "i8* %b, i1 %c) {\nb0:\n",
        out);
    for (int i = 0; i < 300; i++)
        fprintf(
            out,
            INCREF("%%a") "  br i1 %%c, label %%x%d, label %%y%d\n"
                          "x%d:\n  call void @reads(i8* %%b)\n  br label %%y%d\n"
                          "y%d:\n" DECREF("%%a") USE(
                              "%%a") "  br label %%b%d\n"
                                     "b%d:\n" INCREF(
                                         "%%b") "  call void @callback()\n" DECREF("%%b"),
            i, i, i, i, i, i + 1, i + 1);
    fputs("  ret void\n}\n!0 = !{i1 true}\n", out);
    fclose(out);
    return text;
}

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

static uint64_t *count(void *data, const tarn_prune_kept *kept)
{
    CHECK(kept->message && kept->incref.block && kept->at.block);
    return data;
}

/* Prune with the nth allocation failing; false: fewer allocations were made. */
static bool prune_starved(const char *text, unsigned n, tarn_prune_options options)
{
    tarn_prune_report report = {.increfs = 77};
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = parse(context, text);
    char *before = LLVMPrintModuleToString(module), *message = NULL;

    has_failed = false;
    allocations_left = n;
    tarn_status status = tarn_prune_module(module, &options, &report);
    allocations_left = 0;
    CHECK_EQUAL(has_failed ? TARN_OUT_OF_MEMORY : TARN_OK, status);
    CHECK_EQUAL(has_failed, report.increfs == 77);
    CHECK(!LLVMVerifyModule(module, LLVMReturnStatusAction, &message));
    char *after = LLVMPrintModuleToString(module);
    if (has_failed)
        CHECK_MESSAGE("host memory");
    if (n == 1) /* nothing was pruned before it */
        CHECK_TEXT(before, after);
    CHECK_EQUAL(count_of(before, "@NRT_incref(") - count_of(after, "@NRT_incref("),
                count_of(before, "@NRT_decref(") - count_of(after, "@NRT_decref("));
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(before);
    LLVMDisposeMessage(after);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return has_failed;
}

TEST(each_failed_allocation_is_reported_and_the_module_stays_valid)
{
    char *text = make_text();

    for (int way = 0; way < 6; way++) { /* three modes, without counters and with them */
        uint64_t counter;
        tarn_prune_options options = {.mode = (tarn_prune_mode)(way % 3),
                                      .counter = way < 3 ? NULL : count,
                                      .explain_data = &counter};
        unsigned n = 1;
        while (prune_starved(text, n, options))
            n++;
        CHECK(n > 5);
    }
    free(text);
}

TEST(bytes_that_cannot_be_pruned_give_no_output)
{
    char *text = make_text();
    unsigned n = 1;

    for (has_failed = true; has_failed; n++) {
        char *out = text;
        size_t bytes = 77;
        tarn_prune_report report = {.increfs = 77};
        has_failed = false;
        allocations_left = n;
        tarn_status status =
            tarn_prune_bytes(text, strlen(text), "test", NULL, &report, &out, &bytes);
        allocations_left = 0;
        CHECK_EQUAL(has_failed ? TARN_OUT_OF_MEMORY : TARN_OK, status);
        CHECK_EQUAL(has_failed, out == text && bytes == 77 && report.increfs == 77);
        if (!has_failed)
            tarn_prune_free(out);
    }
    CHECK(n > 6);
    free(text);
}
