/* Test plan files: written, read, damaged, forged. */
#define _GNU_SOURCE
#include "../trace/text.h"
#include "works.h"
#include "plan/file.h"
#include <errno.h>

static struct text written(const tarn_plan *plan)
{
    struct text text = {.bytes = NULL};

    CHECK_OK(tarn_plan_write(plan, "a.plan", text_write, &text));
    return text;
}

static tarn_status read_text(struct text *text, tarn_plan **out)
{
    text->at = 0;
    return tarn_plan_read("a.plan", text_read, text, out);
}

/* Repair the checksum of a changed file. */
static void repair(struct text *text)
{
    unsigned char *bytes = (unsigned char *)text->bytes;
    uint64_t sum =
        tarn__file_checksum(TARN__FILE_CHECKSUM_START, bytes, TARN__FILE_CHECKSUM_AT);

    sum = tarn__file_checksum(sum, bytes + TARN__FILE_HEADER_BYTES,
                              text->count - TARN__FILE_HEADER_BYTES);
    for (int i = 0; i < 8; i++)
        bytes[TARN__FILE_CHECKSUM_AT + i] = (unsigned char)(sum >> 8 * i);
}

static void rejects(struct text *text, tarn_status status, const char *message)
{
    tarn_plan *plan = NULL;

    CHECK_STATUS(status, read_text(text, &plan));
    CHECK_MESSAGE(message);
    CHECK(plan == NULL);
}

TEST(a_plan_that_is_written_reads_the_same)
{
    for (int i = 0; i < KINDS; i += 2) {
        tarn_plan *plan = laid_out(&kinds[i], 2, i % 4 ? 4 : 1, NULL), *copy;
        struct text text = written(plan);
        tarn_plan_summary one = {.size = sizeof one}, other = {.size = sizeof other};
        CHECK_EQUAL(64 + 28 * plan->count, text.count);
        text.portion = i % 3 ? 1000 + (size_t)i : 0;
        CHECK_OK(read_text(&text, &copy));
        CHECK(memcmp(plan->slots, copy->slots, plan->count * sizeof *plan->slots) == 0);
        CHECK_OK(tarn_plan_summarize(plan, &one));
        CHECK_OK(tarn_plan_summarize(copy, &other));
        CHECK(memcmp(&one, &other, sizeof one) == 0);
        tarn_plan_release(copy);
        tarn_plan_release(plan);
        text_free(&text);
    }
}

static struct text small_file(void)
{
    struct work work = work_begin(1, 1);
    uint32_t first = get(&work, 1000, 0);

    get(&work, 5000, 0);
    drop(&work, first);
    get(&work, 100, 0);
    tarn_plan *plan = work_end(&work);
    CHECK_OK(tarn__make_layout(plan, NULL));
    struct text text = written(plan);
    tarn_plan_release(plan);
    return text;
}

TEST(every_truncated_file_is_rejected)
{
    struct text text = small_file();
    size_t whole = text.count;
    tarn_plan *plan = NULL;

    for (text.count = 0; text.count < whole; text.count++)
        CHECK_STATUS(TARN_BAD_FORMAT, read_text(&text, &plan));
    CHECK_MESSAGE("a.plan: the plan ends after 2 of 3 blocks");
    text.count = 40;
    rejects(&text, TARN_BAD_FORMAT,
            "a.plan: the plan ends after 40 bytes of its header of 64");
    text.count = 7;
    rejects(&text, TARN_BAD_FORMAT, "a.plan: not a plan of Tarn");
    text.count = whole;
    CHECK(text_write(&text, "x", 1));
    rejects(&text, TARN_BAD_FORMAT, "a.plan: more bytes follow the last block");
    text_free(&text);
}

TEST(every_damaged_byte_is_found)
{
    struct text text = small_file();
    tarn_plan *plan = NULL;

    for (size_t i = 0; i < text.count; i++) {
        text.bytes[i] ^= 0x41;
        CHECK(read_text(&text, &plan) != TARN_OK);
        text.bytes[i] ^= 0x41;
    }
    CHECK_OK(read_text(&text, &plan));
    tarn_plan_release(plan);
    text_free(&text);
}

/* A file with the right checksum is read as a valid plan, or rejected. */
TEST(no_forged_file_is_read_as_an_invalid_plan)
{
    struct text text = small_file();
    uint64_t seed = 5;
    unsigned valid = 0;

    for (int i = 0; i < 20000; i++) {
        tarn_plan *plan = NULL;
        size_t at = 16 + (size_t)tarn__random_below(&seed, text.count - 16);
        char kept = text.bytes[at];
        text.bytes[at] = (char)tarn__random_below(&seed, 5);
        repair(&text);
        if (read_text(&text, &plan) == TARN_OK) {
            CHECK_OK(tarn__check_plan("p", plan));
            valid++;
            tarn_plan_release(plan);
        }
        text.bytes[at] = kept;
    }
    CHECK(valid > 100);
    text_free(&text);
}

TEST(forged_headers_are_rejected_with_their_numbers)
{
    struct text text = small_file();

    text.bytes[8] = 2;
    rejects(&text, TARN_NOT_SUPPORTED,
            "a.plan: a plan of version 2, this library reads 1");
    text.bytes[8] = 1;
    text.bytes[13] = 4;
    rejects(&text, TARN_NOT_SUPPORTED, "a.plan: a plan with quanta of 1024 bytes");
    text.bytes[13] = 2;
    text.bytes[22] = 1;
    rejects(&text, TARN_BAD_FORMAT,
            "a.plan: a plan of 281474976710659 blocks, the maximum is 268435456");
    text.bytes[22] = 0;
    text.bytes[18] = 8; /* half a million blocks, of which there are three */
    rejects(&text, TARN_BAD_FORMAT, "a.plan: the plan ends after 3 of 524291 blocks");
    text.bytes[18] = 0;
    text.bytes[44]++;
    repair(&text);
    rejects(&text, TARN_BAD_FORMAT, "a.plan: a height of 13 quanta where");
    text_free(&text);
}

static bool fail_to_write(void *data, const char *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    errno = ENOSPC;
    return --*(int *)data > 0;
}

static long fail_to_read(void *data, char *buffer, size_t capacity)
{
    (void)data;
    (void)buffer;
    (void)capacity;
    errno = EIO;
    return -1;
}

TEST(failed_reads_and_writes_are_reported)
{
    tarn_plan *plan = laid_out(&kinds[1], 2, 4, NULL), *copy = NULL;

    for (int calls = 1; calls < 4; calls++) {
        int left = calls;
        CHECK_STATUS(TARN_SYSTEM_FAILURE,
                     tarn_plan_write(plan, "a.plan", fail_to_write, &left));
        CHECK_MESSAGE("a.plan: cannot write: No space left on device");
    }
    CHECK_STATUS(TARN_SYSTEM_FAILURE,
                 tarn_plan_read("a.plan", fail_to_read, NULL, &copy));
    CHECK_MESSAGE("a.plan: cannot read: Input/output error");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_read("a", NULL, NULL, &copy));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_write(plan, "a", NULL, NULL));
    CHECK(copy == NULL);
    tarn_plan_release(plan);
}
