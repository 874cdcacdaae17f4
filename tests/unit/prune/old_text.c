/* old_text.c -- test the pruner of Numba before 0.52: its removals, its moves, and the
 * pairs that it misses. */
#define _GNU_SOURCE
#include "ir.h"
#include <time.h>

/* Pass one block of a function to the pruner, and get one. */
static void check(const char *wanted, uint64_t removed, const char *block)
{
    static const char head[] =
        "declare void @NRT_incref(i8*)\n\ndefine void @f() {\nentry:\n";
    char text[2048], all[2048], *out;
    size_t bytes;
    uint64_t count = 77;

    snprintf(text, sizeof text, "%s%s}\n", head, block);
    snprintf(all, sizeof all, "%s%s}", head, wanted);
    CHECK_OK(tarn_prune_old_text(text, strlen(text), &out, &bytes, &count));
    CHECK_TEXT(all, out);
    CHECK_EQUAL(strlen(all), bytes);
    CHECK_EQUAL(removed, count);
    tarn_prune_free(out);
}

TEST(pairs_of_a_block_are_removed)
{
    check("  ret void\n", 2, INCREF("%a") DECREF("%a") "  ret void\n");
    check("  ret void\n", 2, DECREF("%a") INCREF("%a") "  ret void\n");
}

TEST(decrefs_move_behind_the_last_refop)
{
    check(INCREF("%b") "  x\n" INCREF("%c") DECREF("%a") "  ret void\n", 0,
          DECREF("%a") INCREF("%b") "  x\n" INCREF("%c") "  ret void\n");
    check("  x\n" DECREF("%a") DECREF("%b") "  y\n", 0,
          DECREF("%a") "  x\n" DECREF("%b") "  y\n");
}

TEST(the_last_incref_is_paired_with_the_first_decref)
{
    check(INCREF("%a") "  x\n", 2, INCREF("%a") "  x\n" INCREF("%a") DECREF("%a"));
    check("  x\n" DECREF("%a"), 2, INCREF("%a") "  x\n" DECREF("%a") DECREF("%a"));
}

TEST(other_blocks_are_other_worlds)
{
    check(INCREF("%a") "next:\n" DECREF("%a"), 0, INCREF("%a") "next:\n" DECREF("%a"));
    check(INCREF("%a") "\"q.1\":\n" DECREF("%a"), 0,
          INCREF("%a") "\"q.1\":\n" DECREF("%a"));
    check(INCREF("%a") "; <label>:7\n" DECREF("%a"), 0,
          INCREF("%a") "; <label>:7\n" DECREF("%a"));
    check(INCREF("%a") "12:     ; preds = %0\n" DECREF("%a"), 0,
          INCREF("%a") "12:     ; preds = %0\n" DECREF("%a"));
}

TEST(a_label_with_a_space_in_it_is_not_seen)
{
    check("\"a b\":\n", 2, INCREF("%a") "\"a b\":\n" DECREF("%a"));
}

TEST(arguments_are_compared_as_text)
{
    check("  call void @NRT_incref(ptr nonnull %a)\n  call void @NRT_decref(ptr %a)\n", 0,
          "  call void @NRT_incref(ptr nonnull %a)\n  call void @NRT_decref(ptr %a)\n");
    check("", 2,
          "  tail call void @NRT_incref(ptr %a), !dbg !1\n  call void @NRT_decref(ptr "
          "%a)\n");
    check("  musttail call void @NRT_incref(ptr %a)\n" DECREF("%a"), 0,
          "  musttail call void @NRT_incref(ptr %a)\n" DECREF("%a"));
}

TEST(only_the_null_of_typed_pointers_is_null)
{
    check("", 2, DECREF("null") INCREF("null"));
    check("  call void @NRT_decref(ptr null)\n", 0,
          "  call void @NRT_decref(ptr null)\n");
}

TEST(empty_lines_of_a_function_are_removed)
{
    check("  x\nnext:\n  y\n", 0, "  x\n\nnext:\n\n  y\n");
}

TEST(a_module_that_does_not_know_increfs_is_left_as_it_is)
{
    const char *text = "define void @f() {\n" DECREF("%a") "\n  x\n" DECREF("%b") "}\n\n";
    char *out;
    size_t bytes;

    CHECK_OK(tarn_prune_old_text(text, strlen(text), &out, &bytes, NULL));
    CHECK_TEXT(text, out);
    tarn_prune_free(out);
    CHECK_OK(tarn_prune_old_text(NULL, 0, &out, &bytes, NULL));
    CHECK_EQUAL(0, bytes);
    tarn_prune_free(out);
}

TEST(wrong_arguments_are_rejected)
{
    char *out;
    size_t bytes;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_old_text(NULL, 1, &out, &bytes, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_old_text("x", 1, NULL, &bytes, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prune_old_text("x", 1, &out, NULL, NULL));
}

/* Arguments, and their table slots under FNV-1a, the previous hash. */
enum { NAMES = 2000, PLACES = 4096 };

static unsigned fnv_place(const char *text)
{
    uint64_t hash = 1469598103934665603u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return (unsigned)(hash ^ hash >> 32) % PLACES;
}

/* An argument for each number below 2^24. */
static void name(unsigned number, char out[16])
{
    memcpy(out, "i8* %aaaaaa", 12);
    for (char *at = out + 5; number; number /= 16)
        *at++ = (char)('a' + number % 16);
}

/* CPU time of pruning a function of many increfs; all arguments hash to one slot if
 * `prepared`. */
static double prune_many(bool prepared)
{
    static char text[NAMES * 64];
    size_t at = (size_t)sprintf(text, "declare void @NRT_incref(i8*)\n\n"
                                      "define void @f() {\nentry:\n"),
           bytes;
    struct timespec before, after;
    char *out;

    for (unsigned i = 0, number = 0; i < NAMES; number++) {
        char argument[16];
        name(number, argument);
        if (prepared && fnv_place(argument) != 0)
            continue;
        at += (size_t)sprintf(text + at, "  call void @NRT_incref(%s)\n", argument);
        i++;
    }
    at += (size_t)sprintf(text + at, "  ret void\n}\n");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    CHECK_OK(tarn_prune_old_text(text, at, &out, &bytes, NULL));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    tarn_prune_free(out);
    return (double)(after.tv_sec - before.tv_sec) +
           1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

TEST(arguments_that_were_prepared_for_a_known_hash_take_no_longer)
{
    double usual = prune_many(false), prepared = prune_many(true);

    CHECK(prepared < 5 * usual); /* 15 times, with that hash */
}
