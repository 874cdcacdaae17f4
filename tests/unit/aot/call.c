/* Test messages of exceptions of compiled code, for any bytes. */
#define _GNU_SOURCE
#include "aot/argument.h"
#include "comma_locale.h"
#include "test.h"
#include <stdlib.h>
#include <tarn/aot.h>
#include <tarn/nrt.h>

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

/* The message of a pickle of (class, arguments, None). */
#define CHECK_SHOWN(expected, class, arguments)                                  \
    do {                                                                         \
        static const char bytes[] =                                              \
            "\x80\x04\x8c\x08"                                                   \
            "builtins\x94\x8c" class "\x94\x93\x94" arguments "N\x87.";          \
        tarn_aot_error shown = error_of(bytes, sizeof bytes - 1);                \
        char text[200];                                                          \
        CHECK_TEXT(expected, tarn_aot_error_message(&shown, text, sizeof text)); \
    } while (0)

TEST(arguments_are_shown_as_python_shows_them)
{
    CHECK_SHOWN("IndexError: ('text', 7)", "\x0aIndexError", "\x8c\x04textK\x07\x86");
    CHECK_SHOWN("IndexError", "\x0aIndexError", ")");
    CHECK_SHOWN("IndexError: 7", "\x0aIndexError", "K\x07\x85");
    CHECK_SHOWN("IndexError: it's", "\x0aIndexError", "\x8c\x04it's\x85");
    CHECK_SHOWN("KeyError: \"it's\"", "\x08KeyError", "\x8c\x04it's\x85");
    CHECK_SHOWN("KeyError: 'a\\n\\\\\\x01'", "\x08KeyError",
                "\x8c\x04"
                "a\n\\\x01\x85");
    CHECK_SHOWN("KeyError: 'a\\'\"'", "\x08KeyError",
                "\x8c\x03"
                "a'\"\x85");
    CHECK_SHOWN("KeyError: (1,)", "\x08KeyError", "K\x01\x85\x85");
    CHECK_SHOWN("KeyError: (None, True, False, -1, -2, 256, 1.5)", "\x08KeyError",
                "(N\x88\x89J\xff\xff\xff\xff\x8a\x01\xfeM\x00\x01G\x3f\xf8\0\0\0\0\0\0t");
}

TEST(a_damaged_pickle_is_read_to_its_end_and_no_further)
{
    char words[64], copy[sizeof pickle - 1];

    for (size_t at = 0; at < sizeof copy; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(copy, pickle, sizeof copy);
            copy[at] = (char)byte;
            tarn_aot_error error = error_of(copy, sizeof copy);
            CHECK(*tarn_aot_error_message(&error, words, sizeof words) || byte == 0);
        }
}

/* --- arguments of the run: ValueError(<object>, "and", <object>) --- */

static const char with_objects[] = "\x80\x04\x8c\x08"
                                   "builtins\x94\x8c\x0aValueError\x94\x93\x94"
                                   "\x8c\x01m\x8c\x01"
                                   "C\x93\x94)\x81}(\x8c\x01"
                                   "aK\x01ub\x94"
                                   "\x8c\x03"
                                   "andh\x04\x87N\x87.";

static void *made; /* what a compiled function would have made its arguments of */

static void *unwrap(void *arguments)
{
    CHECK(arguments == made);
    tarn_nrt_Free(made);
    struct tarn__value *pair = tarn__argument_tuple(2);
    CHECK(tarn__argument_set(pair, 0, tarn__argument_float(1e16)) == 0);
    CHECK(tarn__argument_set(pair, 1, tarn__argument_pickled("N.", 2, NULL)) == 0);
    return tarn__argument_pack(
        2, tarn__argument_text(2, (const uint16_t[]){'a', 0xe9, 0x20ac}, 3), pair);
}

static const tarn_aot_error *raise_dynamic(void)
{
    tarn_aot_error *error = tarn_nrt_Allocate(sizeof *error);

    made = tarn_nrt_Allocate(8);
    *error = error_of(with_objects, sizeof with_objects - 1);
    error->arguments = made;
    error->unwrap = unwrap;
    error->is_dynamic = 2;
    return error;
}

TEST(arguments_of_the_run_are_shown_and_freed)
{
    tarn_runtime_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    char text[100];

    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &before));
    const tarn_aot_error *error = raise_dynamic();
    for (int i = 0; i < 2; i++)
        CHECK_TEXT("ValueError: ('a\xc3\xa9\xe2\x82\xac', 'and', (1e+16, None))",
                   tarn_aot_error_message(error, text, sizeof text));
    tarn_aot_error_release(error);
    tarn_aot_error_release(raise_dynamic()); /* without a message */
    tarn_aot_error_release(NULL);
    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &after));
    CHECK_EQUAL(after.alloc - before.alloc, after.free - before.free);
    CHECK(after.alloc - before.alloc >= 12);
}

TEST(a_number_is_shown_with_the_digits_that_give_it_again)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {{0.1, "0.1"},         {0.1 * 7, "0.7000000000000001"},
                 {3, "3.0"},           {-1e15, "-1000000000000000.0"},
                 {1e16, "1e+16"},      {1e100, "1e+100"},
                 {123456, "123456.0"}, {1e-5, "1e-05"},
                 {-0.0, "-0.0"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tarn__value *value = tarn__argument_float(cases[i].number);
        char text[40];
        struct tarn__value_writer writer = {text, sizeof text, 0};
        tarn__value_show(&writer, value);
        CHECK_TEXT(cases[i].text, text);
        tarn__argument_free(value);
    }
}

TEST(a_number_is_shown_with_a_point_in_every_locale)
{
    struct tarn__value *value = tarn__argument_float(0.5);
    char text[40];
    struct tarn__value_writer writer = {text, sizeof text, 0};

    CHECK(set_comma_locale());
    tarn__value_show(&writer, value);
    setlocale(LC_NUMERIC, "C");
    CHECK_TEXT("0.5", text);
    tarn__argument_free(value);
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
