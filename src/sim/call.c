/* call.c -- up or down, call counts and faults, the lock, and the stand-in's own
 * controls. */
#include "sim/call.h"
#include "sim/api.h"
#include "sim/context.h"
#include "sim/device.h"
#include "sim/memory.h"
#include "sim/thread.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum phase { UNBORN, UP, FORKED, DOWN };

static atomic_int phase = UNBORN;
static atomic_ullong calls;
static atomic_ullong faults;
static atomic_ullong fail_nth; /* 0: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static unsigned progress_waiters;
static bool is_configured; /* sim_options holds something, from a call or from TARN_SIM */
static uint64_t last_id = 6;
static _Thread_local char configure_error[1024];

struct sim_options sim_options;

void sim_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

CUresult sim_leave(CUresult result)
{
    sim_unlock();
    return result;
}

void sim_wait(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}

void sim_wait_progress(void)
{
    progress_waiters++;
    sim_wait(&progress);
    progress_waiters--;
}

void sim_progress(void)
{
    if (progress_waiters)
        pthread_cond_broadcast(&progress);
}

uint64_t sim_next_id(void)
{
    return ++last_id;
}

bool sim_is_down(void)
{
    int now = atomic_load(&phase);

    return now == FORKED || now == DOWN;
}

void sim_abort(const char *call, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "tarn stand-in: %s: ", call);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    abort();
}

/* Is this the call that the options want to fail? */
static bool strikes(void)
{
    unsigned long long number = atomic_fetch_add(&calls, 1) + 1;

    if (number != atomic_load_explicit(&fail_nth, memory_order_relaxed))
        return false;
    atomic_fetch_add(&faults, 1);
    return true;
}

static CUresult phase_error(void)
{
    switch (atomic_load_explicit(&phase, memory_order_acquire)) {
    case UP:
        return CUDA_SUCCESS;
    case DOWN:
        return CUDA_ERROR_DEINITIALIZED;
    }
    return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_enter(const char *call, unsigned traits)
{
    CUresult result = phase_error();

    (void)call;
    if (result != CUDA_SUCCESS)
        return result;
    if (strikes())
        return traits & CALL_ALLOCATES ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    if (sim_thread.in_host_function && !(traits & CALL_HOST_FN))
        return CUDA_ERROR_NOT_PERMITTED;
    if (traits & CALL_CONTEXT)
        return sim_context_check_current();
    return CUDA_SUCCESS;
}

/* --- coming up, going down
 * ---------------------------------------------------------------- */

static void go_down(void)
{
    atomic_store(&phase, DOWN);
}

static void become_child(void)
{
    if (atomic_load(&phase) == UP)
        atomic_store(&phase, FORKED);
}

static CUresult read_environment(void)
{
    char words[sizeof configure_error];

    if (is_configured)
        return CUDA_SUCCESS;
    if (!sim_options_parse(getenv("TARN_SIM"), &sim_options, words, sizeof words)) {
        fprintf(stderr, "tarn stand-in: TARN_SIM: %s\n", words);
        return CUDA_ERROR_INVALID_VALUE;
    }
    atomic_store(&fail_nth, sim_options.fail_nth);
    is_configured = true;
    return CUDA_SUCCESS;
}

static CUresult come_up(void)
{
    CUresult result = read_environment();

    if (result == CUDA_SUCCESS)
        result = sim_devices_create();
    if (result != CUDA_SUCCESS)
        return result;
    if (pthread_atfork(NULL, NULL, become_child) != 0 || atexit(go_down) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    atomic_store_explicit(&phase, UP, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    CUresult result = CUDA_SUCCESS;

    if (sim_is_down())
        return phase_error();
    if (strikes())
        return CUDA_ERROR_UNKNOWN;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (atomic_load(&phase) == UNBORN)
        result = come_up();
    return sim_leave(result);
}

/* --- controls: include/tarn/sim.h
 * ------------------------------------------------------- */

static bool may_take(const struct sim_options *wanted)
{
    if (atomic_load(&phase) == UNBORN)
        return true;
    if (wanted->devices != sim_options.devices) {
        snprintf(configure_error, sizeof configure_error,
                 "devices=%llu: there are %llu since cuInit",
                 (unsigned long long)wanted->devices,
                 (unsigned long long)sim_options.devices);
        return false;
    }
    if (wanted->memory_bytes > sim_device_address_bytes()) {
        snprintf(configure_error, sizeof configure_error,
                 "memory=%llu: more than the %zu bytes of addresses since cuInit",
                 (unsigned long long)wanted->memory_bytes, sim_device_address_bytes());
        return false;
    }
    return true;
}

/* The number of devices is not part of "anew": tests set it once, in the environment. */
static bool names_devices(const char *options)
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
    if (atomic_load(&phase) != UNBORN && !names_devices(options))
        wanted.devices = sim_options.devices;
    if (!may_take(&wanted)) {
        sim_unlock();
        return 1;
    }
    sim_options = wanted;
    is_configured = true;
    atomic_store(&calls, 0);
    atomic_store(&faults, 0);
    atomic_store(&fail_nth, wanted.fail_nth);
    sim_unlock();
    configure_error[0] = '\0';
    return 0;
}

const char *tarn_sim_error(void)
{
    return configure_error;
}

unsigned long long tarn_sim_faults(void)
{
    return atomic_load(&faults);
}

unsigned long long tarn_sim_calls(void)
{
    return atomic_load(&calls);
}

unsigned long long tarn_sim_live_bytes(void)
{
    sim_lock();
    unsigned long long bytes = sim_live_bytes;
    sim_unlock();
    return bytes;
}
