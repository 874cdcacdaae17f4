/* test.h -- a thin layer over cmocka: a test is a sentence, and registers itself.
 *
 *     TEST(limiter_refunds_when_upstream_fails)
 *     {
 *         CHECK_OK(tarn_limiter_create(upstream, 100, &limiter));
 *         CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(limiter, 101, ...));
 *     }
 *
 * main() is in main.c of this folder; it runs every TEST of the program in file order. A
 * test that leaves memory, pointers or descriptors behind has failed: what is out in this
 * process is counted before and after each.
 */
#ifndef TARN_TEST_H
#define TARN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <tarn/tarn.h>

void test_register(const char *name, CMUnitTestFunction function);

#define TEST(name)                                                 \
    static void name(void);                                        \
    static void name##_run(void **state)                           \
    {                                                              \
        (void)state;                                               \
        name();                                                    \
    }                                                              \
    __attribute__((constructor)) static void name##_register(void) \
    {                                                              \
        test_register(#name, name##_run);                          \
    }                                                              \
    static void name(void)

#define CHECK(condition) assert_true(condition)
#define CHECK_EQUAL(wanted, got) assert_int_equal(wanted, got)
#define CHECK_TEXT(wanted, got) assert_string_equal(wanted, got)

/* The status of `call`, and what it had to say where it is another than `wanted`. */
#define CHECK_STATUS(wanted, call)                                                  \
    do {                                                                            \
        tarn_status check_status_ = (call);                                         \
        if (check_status_ != (wanted))                                              \
            fail_msg("%s: wanted %s, got %s (%s)", #call, tarn_status_name(wanted), \
                     tarn_status_name(check_status_), tarn_error_last()->message);  \
    } while (0)
#define CHECK_OK(call) CHECK_STATUS(TARN_OK, call)

/* The last failure's words contain `text`. */
#define CHECK_MESSAGE(text)                                                             \
    do {                                                                                \
        if (!strstr(tarn_error_last()->message, (text)))                                \
            fail_msg("\"%s\" does not say \"%s\"", tarn_error_last()->message, (text)); \
    } while (0)

/* In this test so many calls fail that some memory does not go back. */
void test_may_leak_memory(void);

/* The stand-in's controls; each fails the test where the driver is not the stand-in. */
void sim_configure(const char *options);
unsigned long long sim_faults(void);
unsigned long long sim_calls(void);
unsigned long long sim_live_bytes(void);
unsigned long long sim_misuses(void);
unsigned long long sim_races(void);
const char *sim_race(void);

/* Run `scenario`, which checks what it reads back, in the stand-in's seeded mode: with the
 * seeds below `count`, looking for races in each. Fails with the words of a race. */
void seeds(unsigned count, void (*scenario)(void));

/* Run `scenario` with its 1st, 2nd, 3rd ... driver call failing until a run needs none.
 * The scenario must leave nothing behind, whatever failed; that is checked. */
void torture(void (*scenario)(void));

/* Is the driver under test the stand-in? On a real GPU tests that need its faults skip.
 */
bool on_sim(void);
/* A GPU may be alone; the stand-in has two devices where nothing else was asked for. */
bool has_second_device(void);

#endif
