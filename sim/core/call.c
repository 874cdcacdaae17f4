/* call.c -- initialization and exit, call counts and faults, and the simulator's own
 * controls. */
#include "sim/core/call.h"
#include "base/mutex_assert.h"
#include "sim/core/api.h"
#include "sim/core/context.h"
#include "sim/core/device.h"
#include "sim/core/faults.h"
#include "sim/core/hooks.h"
#include "sim/core/host_memory.h"
#include "sim/core/seeded.h"
#include "sim/core/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_ullong calls;

/* What every call has to check because of the options. 0 is the ordinary case, and costs
 * nothing. */
enum extra { EXTRA_FAULTS = 1, EXTRA_SEEDED = 2, EXTRA_RACES = 4 };
static atomic_uint extras;

static bool is_configured; /* sim_options is set, from a call or from TARN_SIM */
static _Thread_local char configure_error[4096];

/* The additional work of a call because of the options. */
static CUresult enter_with(unsigned extra, const char *call, unsigned traits,
                           void *caller, uint64_t number)
{
    CUresult result = CUDA_SUCCESS;

    if (extra & EXTRA_RACES && !sim_thread.is_per_thread)
        sim_thread.caller = caller; /* otherwise the per-thread call has set it */
    if (extra & EXTRA_FAULTS) {
        sim_faults_delay(call);
        result = sim_faults_inject(call, traits, number);
    }
    if (extra & EXTRA_SEEDED && result == CUDA_SUCCESS && !sim_thread.in_host_function) {
        sim_lock();
        sim_hooks.work_tick(number);
        sim_lock_release();
    }
    return result;
}

CUresult sim_call_enter(const char *call, unsigned traits, void *caller)
{
    unsigned extra = atomic_load_explicit(&extras, memory_order_relaxed);
    CUresult result = sim_phase_error();

    sim_thread.call = call;
    if (result == CUDA_ERROR_NOT_INITIALIZED && traits & CALL_HANDLE &&
        sim_phase_is_forked())
        return CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;
    if (extra)
        result = enter_with(extra, call, traits, caller, number);
    if (result != CUDA_SUCCESS)
        return result;
    if (sim_thread.in_host_function && !(traits & CALL_HANDLE))
        return CUDA_ERROR_NOT_PERMITTED;
    if (traits & CALL_CONTEXT || (traits & CALL_SURVIVES && sim_context_current()))
        result = sim_context_check_current();
    if (result == CUDA_SUCCESS && sim_hooks_any_captures())
        result = sim_hooks.capture_enter(call);
    return result;
}

/* Does nothing where the driver is not initialized: then the call does not even begin.
 */
void sim_call_clear(void *out, size_t bytes)
{
    if (bytes > 0 && sim_phase_error() == CUDA_SUCCESS)
        memset(out, 0, bytes);
}

/* Apply the options and restart the counts at 0. `sim_lock_mutex` held. */
static void apply_options(void)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    unsigned extra = sim_options.is_seeded ? EXTRA_SEEDED : 0;

    if (sim_faults_are_enabled(&sim_options))
        extra |= EXTRA_FAULTS;
    if (sim_options.finds_races)
        extra |= EXTRA_RACES;
    atomic_store(&calls, 0);
    sim_misuse_start();
    sim_hooks.unknown_start();
    sim_faults_start();
    sim_seeded_start(&sim_options);
    sim_hooks.races_start(sim_options.finds_races);
    sim_host_memory_fail(sim_options.host_memory_nth);
    atomic_store(&extras, extra);
    is_configured = true;
}

/* --- initialization and exit --- */

static void begin_exit(void)
{
    atomic_store(&sim_phase, PHASE_EXITING);
}

/* Take the lock before a fork, so that the state is consistent: some calls work in the
 * child. */
static void before_fork(void)
{
    sim_lock();
}

static void after_fork(void)
{
    sim_lock_release();
}

static void become_child(void)
{
    if (atomic_load(&sim_phase) == PHASE_READY)
        atomic_store(&sim_phase, PHASE_FORKED);
    sim_lock_release_in_child();
}

static CUresult read_environment(void)
{
    char message[sizeof configure_error];

    if (is_configured)
        return CUDA_SUCCESS;
    if (!sim_options_parse(getenv("TARN_SIM"), &sim_options, message, sizeof message)) {
        fprintf(stderr, "tarn simulator: TARN_SIM: %s\n", message);
        return CUDA_ERROR_INVALID_VALUE;
    }
    apply_options();
    return CUDA_SUCCESS;
}

static CUresult initialize(void)
{
    CUresult result = read_environment();

    if (result == CUDA_SUCCESS)
        result = sim_devices_create();
    if (result != CUDA_SUCCESS)
        return result;
    if (pthread_atfork(before_fork, after_fork, become_child) != 0 ||
        atexit(begin_exit) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    atomic_store_explicit(&sim_phase, PHASE_READY, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    CUresult result = CUDA_SUCCESS;

    if (sim_phase_is_stopped())
        return sim_phase_error();
    result = enter_with(atomic_load(&extras) & EXTRA_FAULTS, __func__, 0, NULL,
                        atomic_fetch_add(&calls, 1) + 1);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (atomic_load(&sim_phase) == PHASE_UNINITIALIZED)
        result = initialize();
    return sim_lock_leave(result);
}

/* --- controls: include/tarn/sim.h --- */

static bool can_apply(const struct sim_options *wanted)
{
    if (atomic_load(&sim_phase) == PHASE_UNINITIALIZED)
        return true;
    if (wanted->devices != sim_options.devices) {
        snprintf(configure_error, sizeof configure_error,
                 "devices=%llu: cuInit created %llu, which cannot change any more",
                 (unsigned long long)wanted->devices,
                 (unsigned long long)sim_options.devices);
        return false;
    }
    if (wanted->memory_bytes > sim_device_address_bytes()) {
        snprintf(configure_error, sizeof configure_error,
                 "memory=%llu: exceeds the %zu bytes of addresses that cuInit reserved",
                 (unsigned long long)wanted->memory_bytes, sim_device_address_bytes());
        return false;
    }
    return true;
}

/* Return true if `options` names a number of devices. Otherwise tarn_sim_configure keeps
 * the number after cuInit: tests set it once, in the environment. */
static bool sets_device_count(const char *options)
{
    return options &&
           (strncmp(options, "devices=", 8) == 0 || strstr(options, ",devices="));
}

int tarn_sim_configure(const char *options)
{
    struct sim_options wanted;

    if (!sim_options_parse(options, &wanted, configure_error, sizeof configure_error))
        return 1;
    sim_lock();
    if (atomic_load(&sim_phase) != PHASE_UNINITIALIZED && !sets_device_count(options))
        wanted.devices = sim_options.devices;
    if (!can_apply(&wanted)) {
        sim_lock_release();
        return 1;
    }
    if (sim_is_seeded || wanted.is_seeded)
        sim_hooks.work_wait_all(); /* work of one scheduler must not reach the other */
    sim_options = wanted;
    apply_options();
    sim_lock_release();
    configure_error[0] = '\0';
    return 0;
}

const char *tarn_sim_error(void)
{
    return configure_error;
}

unsigned long long tarn_sim_faults(void)
{
    return sim_faults_count();
}

unsigned long long tarn_sim_misuses(void)
{
    return sim_misuse_count();
}

unsigned long long tarn_sim_calls(void)
{
    return atomic_load(&calls);
}
