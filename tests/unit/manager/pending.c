/* Test when pending memory is freed: limits from the environment and by a call.
 *
 * Each test is a process of its own, as the environment is read once.
 */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "comma_locale.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void set_nonsense(void)
{
    size_t count = 0;
    double ratio = 0;

    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_set_pending_deallocs_limits(3, 1.5));
    CHILD_MESSAGE("the ratio 1.5");
    CHILD_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_set_pending_deallocs_limits(3, -0.1));
    CHILD_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_set_pending_deallocs_limits(3, 0.0 / 0.0));
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 10);
    CHILD_CHECK(ratio == 0.2);
    CHILD_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_pending_deallocs(99, &count, &count));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_pending_deallocs(0, NULL, &count));
}

TEST(invalid_limits_are_rejected)
{
    in_child(set_nonsense);
}

static int warnings;

static void count_warning(void *data, const char *message)
{
    (void)message;
    ++*(int *)data;
}

static void read_limits(void)
{
    size_t count;
    double ratio;

    tarn_set_warning_handler(count_warning, &warnings);
    setenv("TARN_MAX_PENDING_DEALLOCS_COUNT", "3", 1);
    setenv("TARN_MAX_PENDING_DEALLOCS_RATIO", "0.5", 1);
    errno = ERANGE; /* of an earlier call of the program */
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 3 && ratio == 0.5);
    CHILD_CHECK(warnings == 0);
    CHILD_STATUS(TARN_OK, tarn_manager_set_pending_deallocs_limits(7, 1));
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 7 && ratio == 1);
}

TEST(environment_has_limits_and_a_call_changes_them)
{
    in_child(read_limits);
}

static void read_ratio_with_a_point(void)
{
    size_t count;
    double ratio;

    CHILD_CHECK(set_comma_locale());
    setenv("TARN_MAX_PENDING_DEALLOCS_RATIO", "0.5", 1);
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(ratio == 0.5);
    CHILD_CHECK(*localeconv()->decimal_point == ',');
}

TEST(ratio_has_a_point_in_every_locale)
{
    in_child(read_ratio_with_a_point);
}

static void read_nonsense(void)
{
    size_t count;
    double ratio;

    tarn_set_warning_handler(count_warning, &warnings);
    setenv("TARN_MAX_PENDING_DEALLOCS_COUNT", "-3", 1);
    setenv("TARN_MAX_PENDING_DEALLOCS_RATIO", "20%", 1);
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 10 && ratio == 0.2);
    CHILD_CHECK(warnings == 2);
    CHILD_CHECK(
        strstr(tarn_warning_last(),
               "TARN_MAX_PENDING_DEALLOCS_RATIO=20% is not a number from 0 to 1"));
}

TEST(environment_that_has_no_limits_is_warned_of)
{
    in_child(read_nonsense);
}

static const char *text; /* of the variable that a child reads */

/* Run a function in a child for each text. */
static void for_each_text(const char *const *texts, size_t count, void (*function)(void))
{
    for (size_t i = 0; i < count; i++) {
        text = texts[i];
        in_child(function);
    }
}

static void read_text(const char *variable, size_t *count, double *ratio)
{
    tarn_set_warning_handler(count_warning, &warnings);
    setenv(variable, text, 1);
    tarn_manager_pending_deallocs_limits(count, ratio);
}

static void read_wrong_count(void)
{
    size_t count;
    double ratio;

    read_text("TARN_MAX_PENDING_DEALLOCS_COUNT", &count, &ratio);
    CHILD_CHECK(count == 10 && warnings == 1);
    CHILD_CHECK(strstr(tarn_warning_last(), "is not a number of blocks"));
}

TEST(count_that_is_more_or_less_than_a_number_is_warned_of)
{
    static const char *const texts[] = {"3x", "x", " 3", "+3", "36893488147419103233"};

    for_each_text(texts, sizeof texts / sizeof *texts, read_wrong_count);
}

static void read_right_count(void)
{
    size_t count;
    double ratio;

    read_text("TARN_MAX_PENDING_DEALLOCS_COUNT", &count, &ratio);
    CHILD_CHECK(count == strtoull(text, NULL, 10) && warnings == 0);
}

TEST(count_is_any_number_from_0_to_the_largest_one)
{
    static const char *const texts[] = {"0", "9", "18446744073709551615"};

    for_each_text(texts, sizeof texts / sizeof *texts, read_right_count);
}

static void read_wrong_ratio(void)
{
    size_t count;
    double ratio;

    read_text("TARN_MAX_PENDING_DEALLOCS_RATIO", &count, &ratio);
    CHILD_CHECK(ratio == 0.2);
    CHILD_CHECK(warnings == (*text != 0)); /* an empty one is none */
}

TEST(ratio_that_is_no_number_from_0_to_1_is_warned_of)
{
    static const char *const texts[] = {"", " ", "x", "0.5x", "1.01", "-0.01", "nan"};

    for_each_text(texts, sizeof texts / sizeof *texts, read_wrong_ratio);
}

static void use_old_names(void)
{
    size_t count;
    double ratio;

    tarn_set_warning_handler(count_warning, &warnings);
    setenv("TARN_PENDING_COUNT", "3", 1);
    setenv("TARN_PENDING_RATIO", "0.5", 1);
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 10 && ratio == 0.2);
    CHILD_CHECK(warnings == 2);
    CHILD_CHECK(strstr(tarn_warning_last(),
                       "TARN_PENDING_RATIO has no effect, its new name "
                       "is TARN_MAX_PENDING_DEALLOCS_RATIO"));
}

TEST(old_names_of_variables_are_warned_of)
{
    in_child(use_old_names);
}

static void ask_again(void *data, const char *message)
{
    size_t count;
    double ratio;

    (void)message;
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    ++*(int *)data;
}

static void warn_one_who_asks_again(void)
{
    size_t count;
    double ratio;

    alarm(60); /* ends a process that hangs */
    tarn_set_warning_handler(ask_again, &warnings);
    setenv("TARN_MAX_PENDING_DEALLOCS_COUNT", "many", 1);
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    CHILD_CHECK(count == 10 && warnings == 1);
}

TEST(warning_handler_may_query_the_limits)
{
    in_child(warn_one_who_asks_again);
}

static void free_by_the_environment(void)
{
    tarn_manager *manager;
    tarn_pointer *pointer;
    size_t count = 77, bytes;

    setenv("TARN_MAX_PENDING_DEALLOCS_COUNT", "1", 1);
    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_native_manager_ops(), NULL, 0, &manager));
    for (size_t i = 1; i <= 2; i++) {
        CHILD_STATUS(TARN_OK,
                     tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
        tarn_pointer_release(pointer);
        CHILD_STATUS(TARN_OK, tarn_manager_pending_deallocs(0, &count, &bytes));
        CHILD_CHECK(count == i % 2); /* the second is one too many */
    }
    tarn_manager_release(manager);
}

TEST(environment_sets_when_pending_memory_is_freed)
{
    in_child(free_by_the_environment);
}
