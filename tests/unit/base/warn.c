/* Test warnings: kept for their thread, and passed to stderr or to the warning handler.
 */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Cause one warning, by a call that has a reason for it. */
static void warn(void)
{
    setenv("TARN_MEMORY_MANAGER", "pool", 1);
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(tarn_native_manager_ops(), NULL));
}

/* Return the output of `function` on stderr. */
static const char *stderr_of(void (*function)(void))
{
    static char output[600];
    int ends[2];

    CHILD_CHECK(pipe(ends) == 0);
    int before = dup(2);
    dup2(ends[1], 2);
    function();
    dup2(before, 2);
    close(before);
    close(ends[1]);
    ssize_t length = read(ends[0], output, sizeof output - 1);
    close(ends[0]);
    output[length > 0 ? length : 0] = 0;
    return output;
}

static void hear_stderr(void)
{
    CHILD_CHECK(strcmp(tarn_warning_last(), "") == 0);
    const char *output = stderr_of(warn);
    CHILD_CHECK(strncmp(output, "tarn: warning: manager: TARN_MEMORY_MANAGER=pool", 48) ==
                0);
    CHILD_CHECK(strchr(output, '\n') == output + strlen(output) - 1); /* one line */
    CHILD_CHECK(strncmp(output + 15, tarn_warning_last(), strlen(tarn_warning_last())) ==
                0);
}

TEST(warning_is_a_line_on_stderr_and_can_be_read)
{
    in_child(hear_stderr);
}

static void hear_nothing(void)
{
    setenv("TARN_WARNINGS", "off", 1);
    CHILD_CHECK(strcmp(stderr_of(warn), "") == 0);
    CHILD_CHECK(strstr(tarn_warning_last(), "TARN_MEMORY_MANAGER=pool"));
}

TEST(warning_is_not_written_if_the_environment_turns_it_off)
{
    in_child(hear_nothing);
}

static void note(void *data, const char *message)
{
    snprintf(data, 600, "%s", message);
}

static char noted[600];

static void warn_with_handler(void)
{
    tarn_set_warning_handler(note, noted);
    warn();
}

static void hear_handler(void)
{
    CHILD_CHECK(strcmp(stderr_of(warn_with_handler), "") == 0);
    CHILD_CHECK(strcmp(noted, tarn_warning_last()) == 0);
    CHILD_CHECK(noted[0] != 0);
}

TEST(warning_goes_to_the_handler)
{
    in_child(hear_handler);
}

static void warn_of_the_program(void)
{
    tarn_set_warning_handler(note, noted);
    tarn_warn("mine: %d of %s", 3, "four");
}

static void hear_the_program(void)
{
    CHILD_CHECK(strcmp(stderr_of(warn_of_the_program), "") == 0);
    CHILD_CHECK(strcmp(noted, "mine: 3 of four") == 0);
    CHILD_CHECK(strcmp(tarn_warning_last(), "mine: 3 of four") == 0);
}

TEST(warning_may_be_the_programs_own)
{
    in_child(hear_the_program);
}

static void *read_last(void *data)
{
    *(bool *)data = tarn_warning_last()[0] == 0;
    return NULL;
}

static void hear_elsewhere(void)
{
    pthread_t thread;
    bool is_empty = false;

    tarn_set_warning_handler(NULL, NULL);
    warn();
    CHILD_CHECK(tarn_warning_last()[0] != 0);
    CHILD_CHECK(pthread_create(&thread, NULL, read_last, &is_empty) == 0);
    pthread_join(thread, NULL);
    CHILD_CHECK(is_empty);
}

TEST(warning_is_its_threads)
{
    in_child(hear_elsewhere);
}

/* --- another handler while one runs --- */

static atomic_bool is_inside, may_leave, has_left;

static void stay(void *data, const char *message)
{
    (void)data, (void)message;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_leave))
        usleep(500);
    atomic_store(&has_left, true);
}

static void *warn_on_a_thread(void *unused)
{
    (void)unused;
    warn();
    return NULL;
}

static void *set_none(void *unused)
{
    (void)unused;
    tarn_set_warning_handler(NULL, NULL);
    CHILD_CHECK(atomic_load(&has_left)); /* its data may be freed now */
    return NULL;
}

static void replace_while_it_runs(void)
{
    pthread_t threads[2];

    tarn_set_warning_handler(stay, NULL);
    CHILD_CHECK(pthread_create(&threads[0], NULL, warn_on_a_thread, NULL) == 0);
    while (!atomic_load(&is_inside))
        usleep(500);
    CHILD_CHECK(pthread_create(&threads[1], NULL, set_none, NULL) == 0);
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&may_leave, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

TEST(handler_that_is_replaced_is_left_by_all_threads)
{
    in_child(replace_while_it_runs);
}
