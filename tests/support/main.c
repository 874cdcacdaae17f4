/* main.c -- runs every TEST that registered itself, and the stand-in's controls. */
#define _GNU_SOURCE
#include "test.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <tarn/sim.h>

enum { TESTS_MAX = 512 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

void test_register(const char *name, CMUnitTestFunction function)
{
    if (test_count == TESTS_MAX)
        abort();
    tests[test_count++] = (struct CMUnitTest){.name = name, .test_func = function};
}

bool on_sim(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.is_sim;
}

bool has_second_device(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.device_count > 1;
}

/* A control of the stand-in by name. */
static void *control(const char *name)
{
    static void *library;
    void *function;

    if (!library) {
        CHECK(on_sim());
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    }
    function = library ? dlsym(library, name) : NULL;
    if (!function)
        fail_msg("the driver under test has no %s", name);
    return function;
}

void sim_configure(const char *options)
{
    tarn_sim_configure_fn *configure =
        (tarn_sim_configure_fn *)control("tarn_sim_configure");

    CHECK_EQUAL(0, configure(options));
}

unsigned long long sim_faults(void)
{
    return ((tarn_sim_faults_fn *)control("tarn_sim_faults"))();
}

unsigned long long sim_calls(void)
{
    return ((tarn_sim_calls_fn *)control("tarn_sim_calls"))();
}

unsigned long long sim_live_bytes(void)
{
    return ((tarn_sim_live_bytes_fn *)control("tarn_sim_live_bytes"))();
}

unsigned long long sim_misuses(void)
{
    return ((tarn_sim_misuses_fn *)control("tarn_sim_misuses"))();
}

unsigned long long sim_races(void)
{
    return ((tarn_sim_races_fn *)control("tarn_sim_races"))();
}

const char *sim_race(void)
{
    return ((tarn_sim_race_fn *)control("tarn_sim_race"))();
}

void seeds(unsigned count, void (*scenario)(void))
{
    for (unsigned seed = 0; seed < count; seed++) {
        char options[64];
        snprintf(options, sizeof options, "mode=seeded,races=on,seed=%u", seed);
        sim_configure(options);
        scenario();
        if (sim_races() > 0)
            fail_msg("with seed %u: %s", seed, sim_race());
    }
    sim_configure(NULL);
}

void torture(void (*scenario)(void))
{
    unsigned long long before = sim_live_bytes();

    for (unsigned nth = 1;; nth++) {
        char options[64];
        snprintf(options, sizeof options, "fail=nth:%u", nth);
        sim_configure(options);
        scenario();
        unsigned long long faults = sim_faults();
        sim_configure(NULL);
        if (sim_live_bytes() != before)
            fail_msg("with driver call %u failing, %llu bytes leak", nth,
                     sim_live_bytes() - before);
        if (faults == 0)
            return;
    }
}

int main(void)
{
    if (test_count == 0)
        return 1;
    return _cmocka_run_group_tests(program_invocation_short_name, tests, test_count, NULL,
                                   NULL);
}
