/* main.c -- run every TEST that registered itself, and count the leaks of each; the
 * simulator's controls. */
#define _GNU_SOURCE
#include "test.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <tarn/sim.h>

enum { TESTS_MAX = 512 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

/* --- leaks of a test --- */

/* The live objects: of the simulator, of pointers, and of memory shared with processes.
 */
struct live_objects {
    unsigned long long bytes; /* 0: on a GPU */
    size_t pointers, deferred_frees;
    tarn_ipc_counts shared; /* except for the number of requests to the server */
};

static struct live_objects live_objects_before; /* when the test began */
static bool may_leak;

void test_may_leak_memory(void)
{
    may_leak = true;
}

static void (*after_each)(void);

void test_after_each(void (*function)(void))
{
    after_each = function;
}

int test_patience(int tries)
{
    return getenv("TARN_FAILING") ? tries / 30 : tries;
}

/* Of the open driver. The simulator's own tests check its counts. */
static unsigned long long count_live_bytes(void *library)
{
    tarn_sim_live_bytes_fn *live =
        (tarn_sim_live_bytes_fn *)dlsym(library, "tarn_sim_live_bytes");
    bool is_of_sim = strncmp(program_invocation_short_name, "unit-sim-", 9) == 0;

    return live && !is_of_sim ? live() : 0;
}

/* Open no driver and create no runtime: children of forking tests do so themselves. */
static struct live_objects count_live_objects(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    struct live_objects live_objects = {.deferred_frees = tarn_pointer_deferred_count()};
    tarn_runtime_counts pointers;

    tarn_ipc_get_counts(&live_objects.shared);
    live_objects.shared.requests = live_objects.shared.rejected = 0;
    if (!library)
        return live_objects;
    tarn_pointer_counts(&pointers);
    live_objects.pointers = pointers.created - pointers.destroyed;
    live_objects.bytes = count_live_bytes(library);
    dlclose(library);
    return live_objects;
}

static int begin_test(void **state)
{
    (void)state;
    may_leak = false;
    live_objects_before = count_live_objects();
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    if (after_each)
        after_each();
    struct live_objects live_objects = count_live_objects();
    if (may_leak)
        live_objects.bytes = live_objects_before.bytes;
    if (memcmp(&live_objects, &live_objects_before, sizeof live_objects) == 0)
        return 0;
    print_error(
        "the test leaves %lld bytes, %zu pointers, %zu unreturned, %zu of others' "
        "allocations and %zu descriptors more than it found\n",
        (long long)(live_objects.bytes - live_objects_before.bytes),
        live_objects.pointers - live_objects_before.pointers,
        live_objects.deferred_frees - live_objects_before.deferred_frees,
        live_objects.shared.mapped - live_objects_before.shared.mapped,
        live_objects.shared.descriptors - live_objects_before.shared.descriptors);
    return 1;
}

void test_register(const char *name, CMUnitTestFunction function)
{
    if (test_count == TESTS_MAX)
        abort();
    tests[test_count++] = (struct CMUnitTest){.name = name,
                                              .test_func = function,
                                              .setup_func = begin_test,
                                              .teardown_func = end_test};
}

void test_status(tarn_status wanted, tarn_status got, const char *call, const char *file,
                 int line)
{
    if (got == wanted)
        return;
    print_error("ERROR: %s: wanted %s, got %s (%s)\n", call, tarn_status_name(wanted),
                tarn_status_name(got), tarn_error_last()->message);
    _fail(file, line);
}

void test_message(const char *text, const char *file, int line)
{
    const char *message = tarn_error_last()->message;

    if (strstr(message, text))
        return;
    print_error("ERROR: \"%s\" does not say \"%s\"\n", message, text);
    _fail(file, line);
}

bool on_sim(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.is_simulator;
}

bool has_second_device(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.device_count > 1;
}

/* A control of the simulator by name. */
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
    const char *filter = getenv("CMOCKA_TEST_FILTER"); /* a pattern of names of tests */

    if (test_count == 0)
        return 1;
    if (filter)
        cmocka_set_test_filter(filter);
    return _cmocka_run_group_tests(program_invocation_short_name, tests, test_count, NULL,
                                   NULL);
}
