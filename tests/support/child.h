/* child.h -- run a test in a process of its own.
 *
 * A process decides on its driver once, so tests of that each need a fresh process. No
 * function of Tarn may have been used in this one before: the child is a plain fork.
 */
#ifndef TARN_TEST_CHILD_H
#define TARN_TEST_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return whether the driver is the simulator. It reads the environment: unlike on_sim(),
 * it opens no driver in the process that forks. */
static inline bool has_sim(void)
{
    const char *driver = getenv("TARN_DRIVER");

    return driver && strstr(driver, "sim");
}

/* Run `function` in a child; the test fails unless it returns there. */
void in_child(void (*function)(void));

/* cmocka continues with the next test after a fault. In a forked child that has to be its end.
 * in_child() and process_start() call this function. */
void child_ends_at_faults(void);

/* As CHECK, CHECK_STATUS and CHECK_MESSAGE, for use in a child: cmocka must not go on there.
 */
void child_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define CHILD_CHECK(condition)                                       \
    do {                                                             \
        if (!(condition))                                            \
            child_fail("line %d: not so: %s", __LINE__, #condition); \
    } while (0)
#define CHILD_STATUS(wanted, call)                                                \
    do {                                                                          \
        tarn_status child_status_ = (call);                                       \
        if (child_status_ != (wanted))                                            \
            child_fail("line %d: %s gives %s, not %s (%s)", __LINE__, #call,      \
                       tarn_status_name(child_status_), tarn_status_name(wanted), \
                       tarn_error_last()->message);                               \
    } while (0)
#define CHILD_MESSAGE(text)                                             \
    do {                                                                \
        if (!strstr(tarn_error_last()->message, (text)))                \
            child_fail("line %d: \"%s\" does not say \"%s\"", __LINE__, \
                       tarn_error_last()->message, (text));             \
    } while (0)

#endif
