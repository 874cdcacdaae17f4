/* faults.c -- fault injection: the n-th call, all calls of a name, one call in k, a lost
 * device, slow calls. */
#define _GNU_SOURCE
#include "sim/core/faults.h"
#include "sim/core/call.h"
#include "sim/core/host_memory.h"
#include "sim/core/seeded.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static atomic_ullong faults;
static uint64_t named_calls; /* calls of the name that fails; under the lock */

bool sim_faults_are_enabled(const struct sim_options *options)
{
    return options->fail_nth || options->fail_one_in || options->fail_call[0] ||
           options->lost_at || options->slow_call[0];
}

void sim_faults_start(void)
{
    atomic_store(&faults, 0);
    named_calls = 0;
}

unsigned long long sim_faults_count(void)
{
    return atomic_load(&faults) + sim_host_memory_failures();
}

static bool is_lost(const struct sim_options *options, uint64_t number)
{
    return options->lost_at && number >= options->lost_at;
}

static bool is_named(const struct sim_options *options, const char *call)
{
    if (!options->fail_call[0] || !sim_options_is_call(call, options->fail_call))
        return false;
    named_calls++;
    return !options->fail_call_nth || named_calls == options->fail_call_nth;
}

static bool is_drawn(const struct sim_options *options, uint64_t number)
{
    return options->fail_one_in && sim_seeded_draw(4, number, options->fail_one_in) == 0;
}

CUresult sim_faults_inject(const char *call, unsigned traits, uint64_t number)
{
    const struct sim_options *options = &sim_options;
    CUresult result = CUDA_SUCCESS;

    sim_lock();
    bool named = is_named(options, call); /* counts */
    if (is_lost(options, number))
        result = (CUresult)options->lost_code;
    else if (named || number == options->fail_nth || is_drawn(options, number))
        result = traits & CALL_ALLOCATES ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    sim_lock_release();
    if (result != CUDA_SUCCESS)
        atomic_fetch_add(&faults, 1);
    return result;
}

static bool is_slow(const struct sim_options *options, const char *call)
{
    return options->slow_call[0] == '*' ||
           (options->slow_call[0] && sim_options_is_call(call, options->slow_call));
}

void sim_faults_delay(const char *call)
{
    struct timespec pause = {0};

    sim_lock();
    if (is_slow(&sim_options, call)) {
        uint64_t ns = sim_options.slow_ns;
        if (sim_is_seeded)
            sim_seeded_advance(ns);
        else
            pause = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    }
    sim_lock_release();
    if (pause.tv_sec == 0 && pause.tv_nsec == 0)
        return; /* a sleep of 0 ns takes 50 us */
    while (nanosleep(&pause, &pause) != 0)
        ;
}
