/* bytes.c -- test modules as bytes: formats, and the messages of rejected modules. */
#include "ir.h"
#include <llvm-c/Core.h>

#define GOOD FUNCTION("  call void @NRT_incref(i8* %a)\n" DECREF("%a") "  ret void\n")

static void check_rejected(const char *says, const void *ir, size_t bytes)
{
    char untouched, *out = &untouched;
    size_t out_bytes = 77;
    tarn_prune_report report = {.increfs = 77};

    CHECK_STATUS(TARN_BAD_FORMAT,
                 tarn_prune_bytes(ir, bytes, "name", NULL, &report, &out, &out_bytes));
    CHECK_MESSAGE(says);
    CHECK(out == &untouched);
    CHECK_EQUAL(77, out_bytes);
    CHECK_EQUAL(77, report.increfs);
}

static void check_text_rejected(const char *says, const char *text)
{
    check_rejected(says, text, strlen(text));
}

/* The module of GOOD as bitcode. */
static char *good_bitcode(size_t *bytes)
{
    tarn_prune_options options = {.format = TARN_PRUNE_BITCODE};
    char *out;

    CHECK_OK(tarn_prune_bytes(GOOD, strlen(GOOD), NULL, &options, NULL, &out, bytes));
    return out;
}

TEST(text_comes_back_as_text_and_bitcode_as_bitcode)
{
    size_t bytes, again_bytes;
    char *bitcode = good_bitcode(&bytes), *again;
    tarn_prune_options options = {.format = TARN_PRUNE_TEXT};

    CHECK(memcmp(bitcode, "BC\xc0\xde", 4) == 0);
    CHECK_OK(tarn_prune_bytes(bitcode, bytes, NULL, NULL, NULL, &again, &again_bytes));
    CHECK(memcmp(again, "BC\xc0\xde", 4) == 0);
    tarn_prune_free(again);
    CHECK_OK(
        tarn_prune_bytes(bitcode, bytes, NULL, &options, NULL, &again, &again_bytes));
    CHECK(strstr(again, "define void @f"));
    CHECK(!strstr(again, "call void @NRT_"));
    tarn_prune_free(again);
    tarn_prune_free(bitcode);
}

TEST(the_name_is_the_modules)
{
    CHECK(strstr(prune_soundly(GOOD).text, "; ModuleID = 'test'"));
}

TEST(text_that_is_no_ir_is_rejected_with_its_place)
{
    check_text_rejected("name:2:3: error: ", "define void @f() {\n  bad stuff\n}\n");
    check_text_rejected("name:1:1: error: ", "\x01\x02\x03\x04");
    check_text_rejected("is empty", "");
}

TEST(ir_that_the_verifier_rejects_is_rejected_with_its_function)
{
    check_text_rejected("in function late: Instruction does not dominate all uses",
                        DECLARED
                        "define void @early() {\n  ret void\n}\n"
                        "define i32 @late(i32 %p) {\nA:\n  br label %C\nB:\n"
                        "  %x = add i32 %p, 1\n  br label %C\nC:\n  ret i32 %x\n}\n");
}

TEST(truncated_bitcode_is_rejected)
{
    size_t bytes;
    char *bitcode = good_bitcode(&bytes);

    check_rejected("name: error: ", bitcode, 64);
    check_rejected("name: error: ", bitcode, bytes / 2 & ~(size_t)3);
    check_rejected("name: error: ", bitcode, 4);
    tarn_prune_free(bitcode);
}

TEST(bitcode_of_a_newer_llvm_is_rejected)
{
    check_text_rejected("name:1:",
                        "define void @f() nofuture_attribute {\n  ret void\n}\n");
    check_text_rejected("name:2:", "define void @f() {\n  newop i32 1\n  ret void\n}\n");
}

TEST(bytes_that_are_trusted_are_not_verified)
{
    tarn_prune_options options = {.trusted = true};

    CHECK_EQUAL(2, prune_with(GOOD, options).removed);
}

TEST(wrong_arguments_are_rejected)
{
    tarn_prune_options options = {.format = (tarn_prune_format)3};
    char *out = NULL;
    size_t bytes;

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_prune_bytes(NULL, 1, NULL, NULL, NULL, &out, &bytes));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_prune_bytes(GOOD, 1, NULL, NULL, NULL, NULL, &bytes));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_prune_bytes(GOOD, 1, NULL, NULL, NULL, &out, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_bytes(GOOD, strlen(GOOD), NULL,
                                                         &options, NULL, &out, &bytes));
    tarn_prune_free(NULL);
}

TEST(the_version_is_llvms)
{
    char text[32];
    unsigned major, minor, patch;

    CHECK_EQUAL(3, sscanf(tarn_prune_llvm_version(), "%u.%u.%u", &major, &minor, &patch));
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
    CHECK(strncmp(text, tarn_prune_llvm_version(), strlen(text)) == 0);
}
