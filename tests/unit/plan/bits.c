/* Test the set of small numbers beside a plain array. */
#include "works.h"
#include "plan/bits.h"

static uint32_t next_of(const bool *has, size_t count, uint32_t from)
{
    for (size_t i = from; i < count; i++)
        if (has[i])
            return (uint32_t)i;
    return TARN__BITS_NONE;
}

static uint32_t previous_of(const bool *has, uint32_t from)
{
    for (size_t i = (size_t)from + 1; i-- > 0;)
        if (has[i])
            return (uint32_t)i;
    return TARN__BITS_NONE;
}

static void check_beside_an_array(size_t count, uint64_t seed)
{
    bool *has = calloc(count, sizeof *has);
    struct tarn__bits bits;

    CHECK(has && tarn__bits_init(&bits, count));
    for (int i = 0; i < 3000; i++) {
        uint32_t member = (uint32_t)tarn__random_below(&seed, count);
        has[member] = i % 1000 < 600 && !has[member];
        if (has[member])
            tarn__bits_add(&bits, member);
        else
            tarn__bits_remove(&bits, member);
        uint32_t from = (uint32_t)tarn__random_below(&seed, count);
        CHECK_EQUAL(has[from], tarn__bits_has(&bits, from));
        CHECK_EQUAL(next_of(has, count, from), tarn__bits_next(&bits, from));
        CHECK_EQUAL(previous_of(has, from), tarn__bits_previous(&bits, from));
    }
    tarn__bits_clear(&bits);
    CHECK_EQUAL(TARN__BITS_NONE, tarn__bits_next(&bits, 0));
    tarn__bits_free(&bits);
    free(has);
}

TEST(the_set_is_that_of_an_array)
{
    static const size_t counts[] = {1, 63, 64, 65, 128, 4095, 4096, 4097, 20000, 300000};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_beside_an_array(counts[i], i + 1);
}
