/* test.h -- a thin layer over cmocka: a test has a sentence as its name, and registers
 * itself.
 *
 *     TEST(limiter_refunds_when_upstream_fails)
 *     {
 *         CHECK_OK(tarn_limiter_create(upstream, 100, &limiter));
 *         CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(limiter, 101, ...));
 *     }
 *
 * main() is in main.c of this folder; it runs every TEST of the program in file order. A
 * test that leaks memory, pointers or descriptors has failed: the live objects of this
 * process are counted before and after each.
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
void test_status(tarn_status wanted, tarn_status got, const char *call, const char *file,
                 int line);
void test_message(const char *text, const char *file, int line);

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

/* The status of `call`, and its message if it is another than `wanted`. */
#define CHECK_STATUS(wanted, call) test_status(wanted, call, #call, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(TARN_OK, call)

/* The message of the last failure contains `text`. */
#define CHECK_MESSAGE(text) test_message(text, __FILE__, __LINE__)

/* In this test so many calls fail that some memory is not returned. */
void test_may_leak_memory(void);

/* Call `function` after each test, also after one that failed. There is one at most. */
void test_after_each(void (*function)(void));

/* Return how often a test looks for what comes in the end: `tries`, or fewer where
 * tools/host_failures.py lets allocations fail, since it may never come then. */
int test_patience(int tries);

/* The simulator's controls; each fails the test on another driver. */
void sim_configure(const char *options);
unsigned long long sim_faults(void);
unsigned long long sim_calls(void);
unsigned long long sim_live_bytes(void);
unsigned long long sim_misuses(void);
unsigned long long sim_races(void);
const char *sim_race(void);

/* Run `scenario`, which checks its results, in the simulator's seeded mode: with the
 * seeds below `count`, looking for races in each. Fails with the message of a race. */
void seeds(unsigned count, void (*scenario)(void));

/* Run `scenario` with its 1st, 2nd, 3rd ... driver call failing until a run needs no
 * fault. The scenario must leak nothing, whatever failed; that is checked. */
void torture(void (*scenario)(void));

/* Return whether the driver is the simulator. On a GPU tests that need its faults are
 * skipped. */
bool on_sim(void);
/* A machine may have one GPU; the simulator has two devices by default. */
bool has_second_device(void);

#endif
