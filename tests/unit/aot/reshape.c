/* Test a reshape without a copy against a loop over all items. */
#include "test.h"
#include <stdbool.h>
#include <stdlib.h>
#include <tarn/aot.h>

enum { ITEM = 8, MOST = 4 };

struct array {
    intptr_t nd, shape[MOST], strides[MOST];
};

static intptr_t items_of(const struct array *array)
{
    intptr_t items = 1;

    for (intptr_t i = 0; i < array->nd; i++)
        items *= array->shape[i];
    return items;
}

/* The offset of item number `n`, counted in C's or Fortran's order. */
static intptr_t offset_of(const struct array *array, intptr_t n, int fortran)
{
    intptr_t offset = 0;

    for (intptr_t k = 0; k < array->nd; k++) {
        intptr_t i = fortran ? k : array->nd - 1 - k;
        offset += n % array->shape[i] * array->strides[i];
        n /= array->shape[i];
    }
    return offset;
}

static bool same_items(const struct array *a, const struct array *b, int fortran)
{
    for (intptr_t n = 0; n < items_of(a); n++) {
        if (offset_of(a, n, fortran) != offset_of(b, n, fortran))
            return false;
    }
    return true;
}

/* Check whether any strides work. An axis' stride is the distance to its second item, so
 * there is one candidate. */
static bool possible(const struct array *from, struct array *to, int fortran)
{
    intptr_t step = 1;

    for (intptr_t k = 0; k < to->nd; k++) {
        intptr_t i = fortran ? k : to->nd - 1 - k;
        to->strides[i] = to->shape[i] > 1 ? offset_of(from, step, fortran) : 0;
        step *= to->shape[i];
    }
    return same_items(from, to, fortran);
}

/* Any shape of at most 4 axes; strides as of a slice of something, some of them 0 or
 * negative. */
static struct array random_array(void)
{
    struct array array = {.nd = rand() % (MOST + 1)};
    intptr_t stride = ITEM * (1 + rand() % 2);

    for (intptr_t i = array.nd - 1; i >= 0; i--) {
        array.shape[i] = 1 + rand() % 4;
        array.strides[i] = stride;
        if (rand() % 8 == 0)
            array.strides[i] = rand() % 2 ? 0 : -stride;
        stride *= array.shape[i] * (rand() % 4 == 0 ? 2 : 1);
    }
    if (array.nd > 1 && rand() % 3 == 0) { /* as after a transpose */
        intptr_t shape = array.shape[0], strides = array.strides[0];
        array.shape[0] = array.shape[1], array.strides[0] = array.strides[1];
        array.shape[1] = shape, array.strides[1] = strides;
    }
    return array;
}

/* A shape of as many items, mostly. */
static struct array random_shape(intptr_t items)
{
    struct array array = {.nd = 1 + rand() % MOST};

    for (intptr_t i = 0; i < array.nd; i++) {
        intptr_t length = 1 + rand() % 12;
        array.shape[i] = items % length == 0 ? length : 1;
        items /= array.shape[i];
    }
    array.shape[rand() % array.nd] *= items;
    return array;
}

TEST(reshape_finds_strides_wherever_there_are_some)
{
    int done = 0;

    srand(7);
    for (int run = 0; run < 100000; run++) {
        struct array from = random_array(), to = random_shape(items_of(&from));
        int fortran = rand() % 2;
        bool wanted = possible(&from, &to, fortran);
        struct array got = to;
        int code =
            tarn_aot_attempt_nocopy_reshape(from.nd, from.shape, from.strides, got.nd,
                                            got.shape, got.strides, ITEM, fortran);
        if (wanted != code)
            fail_msg("run %d: %s, but got %d", run, wanted ? "possible" : "not", code);
        CHECK(!code || same_items(&from, &got, fortran));
        CHECK(code || memcmp(&got, &to, sizeof got) == 0);
        done += code;
    }
    CHECK(done > 20000 && done < 90000);
}

TEST(reshape_refuses_another_number_of_items_and_takes_empty_arrays)
{
    const intptr_t shape[] = {2, 3}, strides[] = {24, 8}, five[] = {5}, none[] = {0, 7};
    intptr_t out[2] = {-1, -1};

    CHECK(!tarn_aot_attempt_nocopy_reshape(2, shape, strides, 1, five, out, 8, 0));
    CHECK(out[0] == -1);
    CHECK(tarn_aot_attempt_nocopy_reshape(2, none, strides, 2, none, out, 8, 0));
    CHECK(!tarn_aot_attempt_nocopy_reshape(2, shape, strides, 2, none, out, 8, 0));
}
