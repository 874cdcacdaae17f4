/* Test options of callers that were built with an older or a newer version. */
#include "test.h"
#include "base/options.h"

struct known {
    size_t size;
    int first, second;
};

struct longer {
    struct known known;
    uint64_t later[2];
};

TEST(options_of_an_older_caller_are_read_with_zeros_behind_them)
{
    struct known given = {.first = 1, .second = 2}, out = {.second = 9};

    given.size = offsetof(struct known, second);
    CHECK_OK(tarn__options_read("it", &given, sizeof(size_t), &out, sizeof out));
    CHECK_EQUAL(sizeof out, out.size);
    CHECK_EQUAL(1, out.first);
    CHECK_EQUAL(0, out.second);
    CHECK_OK(tarn__options_read("it", NULL, sizeof(size_t), &out, sizeof out));
    CHECK_EQUAL(sizeof out, out.size);
    CHECK_EQUAL(0, out.first);
}

TEST(options_of_a_newer_caller_are_read_if_no_unknown_field_is_set)
{
    struct longer given = {.known = {sizeof given, 1, 2}};
    struct known out = {.first = 7};

    given.later[1] = 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__options_read("it", &given, sizeof(size_t), &out, sizeof out));
    CHECK_MESSAGE("it: options.size is 32");
    CHECK_EQUAL(7, out.first);
    given.later[1] = 0;
    CHECK_OK(tarn__options_read("it", &given, sizeof(size_t), &out, sizeof out));
    CHECK_EQUAL(2, out.second);
}

TEST(options_without_a_size_are_rejected_unread)
{
    struct known given = {.size = 0};

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__options_check("it", &given, sizeof given, sizeof given));
    CHECK_MESSAGE("it: options.size is 0, at least 16 is required");
    given.size = SIZE_MAX; /* no code reads that far */
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__options_check("it", &given, sizeof given, sizeof given));
    CHECK_MESSAGE("that this libtarn knows");
}
