/* Test sums and roundings near the largest numbers. */
#include "test.h"
#include "base/size.h"

TEST(sizes_round_up)
{
    size_t out = 1;

    CHECK(tarn__size_round_up(0, 256, &out));
    CHECK_EQUAL(0, out);
    CHECK(tarn__size_round_up(257, 256, &out));
    CHECK_EQUAL(512, out);
}

TEST(sizes_do_not_wrap_and_leave_the_output_unchanged)
{
    size_t out = 5;

    CHECK(!tarn__size_round_up(SIZE_MAX - 10, 256, &out));
    CHECK(!tarn__size_add(SIZE_MAX, 1, &out));
    CHECK_EQUAL(5, out);
}
