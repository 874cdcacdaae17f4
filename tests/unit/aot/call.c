/* Test messages of exceptions of compiled code, for any bytes. */
#include "test.h"
#include <stdlib.h>
#include <tarn/aot.h>

/* pickle.dumps((ValueError, ("empty",), ("norm", "kernels.py", 3))) of Python 3.11. */
static const char pickle[] = "\x80\x04\x95\x41\x00\x00\x00\x00\x00\x00\x00\x8c\x08"
                             "builtins\x94\x8c\x0a"
                             "ValueError\x94\x93\x94\x8c\x05"
                             "empty\x94\x85\x94\x8c\x04norm\x94\x8c\x0a"
                             "kernels.py\x94K\x03\x87\x94\x87\x94.";

static tarn_aot_error error_of(const void *bytes, size_t count)
{
    return (tarn_aot_error){.pickle = bytes, .pickle_bytes = (int32_t)count};
}

TEST(an_exception_is_its_class_and_its_first_words)
{
    tarn_aot_error error = error_of(pickle, sizeof pickle - 1);
    char words[64], few[8];

    CHECK_TEXT("ValueError: empty", tarn_aot_error_message(&error, words, sizeof words));
    CHECK_TEXT("ValueEr", tarn_aot_error_message(&error, few, sizeof few));
}

TEST(bytes_that_are_no_exception_are_read_to_their_end_and_no_further)
{
    char words[64];

    for (size_t count = 0; count < sizeof pickle; count++) {
        char *copy = malloc(count + 1); /* so that the address sanitizer checks the end */
        memcpy(copy, pickle, count);
        char *exact = realloc(copy, count ? count : 1);
        tarn_aot_error error = error_of(exact, count);
        CHECK(*tarn_aot_error_message(&error, words, sizeof words));
        free(exact);
    }
    CHECK_TEXT("an exception of 0 bytes", tarn_aot_error_message(NULL, words, 64));
}

TEST(an_array_to_lend_is_contiguous)
{
    double data[3];
    tarn_aot_array1 array = tarn_aot_array1_of(NULL, data, 3);

    CHECK(array.data == data && array.items == 3 && array.shape[0] == 3);
    CHECK(array.strides[0] == 8 && array.item_bytes == 8 && !array.meminfo);
}
