/* scenario.c -- run a call with each of its host allocations failing; see scenario.h. */
#include "scenario.h"
#include <string.h>

enum { UNTOUCHED = 0x4d, ALLOCATIONS_MAX = 100000 };

union scenario_output out;

tarn_status null_is_no_memory(const void *result)
{
    return result ? TARN_OK
                  : tarn_error_set(TARN_OUT_OF_MEMORY, "test: the call returned NULL");
}

static void check_failure(const struct scenario *scenario, tarn_status status,
                          unsigned nth, enum failing_mode mode)
{
    const char *message = tarn_error_last()->message, *wrong = NULL;
    static unsigned char untouched[sizeof out];

    memset(untouched, UNTOUCHED, sizeof untouched);
    if (status != TARN_OUT_OF_MEMORY && status != TARN_SYSTEM_FAILURE)
        wrong = "has another status than out of memory";
    else if (tarn_error_last()->status != status)
        wrong = "leaves the message of another failure";
    else if (!strchr(message, ':'))
        wrong = "leaves no message of a component";
    else if (memcmp((const void *)&out, untouched, sizeof out) != 0)
        wrong = "changes its output";
    if (wrong)
        fail_msg("%s with allocation %u %s, %s: %s: %s (%s)", scenario->name, nth,
                 mode == FAILING_ONCE ? "failing" : "and the later ones failing",
                 failing_place(), wrong, tarn_status_name(status), message);
}

/* Returns how many allocations failed. */
static unsigned run_once(const struct scenario *scenario, unsigned nth,
                         enum failing_mode mode)
{
    if (scenario->begin)
        scenario->begin();
    memset(&out, UNTOUCHED, sizeof out);
    failing_begin(nth, mode);
    tarn_status status = scenario->call();
    unsigned failed = failing_end();
    if (status != TARN_OK) {
        check_failure(scenario, status, nth, mode);
        if (failed == 0)
            fail_msg("%s fails by itself: %s", scenario->name,
                     tarn_error_last()->message);
        test_status(TARN_OK, scenario->call(), scenario->name, __FILE__, __LINE__);
    }
    if (scenario->end)
        scenario->end();
    return failed;
}

void scenario_run(const struct scenario *scenario, unsigned least)
{
    unsigned count = 0;

    if (!on_sim())
        skip();
    run_once(scenario, ALLOCATIONS_MAX, FAILING_ONCE); /* what a process allocates once */
    unsigned long long before = sim_live_bytes();
    while (run_once(scenario, count + 1, FAILING_ONCE) > 0)
        if (++count == ALLOCATIONS_MAX)
            fail_msg("%s never has enough memory", scenario->name);
    for (unsigned nth = 1; nth <= count; nth++)
        run_once(scenario, nth, FAILING_FROM_THEN_ON);
    if (count < least)
        fail_msg("%s makes %u allocations, not %u", scenario->name, count, least);
    if (sim_live_bytes() != before)
        fail_msg("%s leaks %llu bytes of the device", scenario->name,
                 sim_live_bytes() - before);
    printf("%s: %u allocations\n", scenario->name, count);
}
