/* process.c -- the guard of all resources of the process: the environment, samples, the
 * check at exit.
 *
 * The environment is read when the library is loaded. Thus the fast path of an allocation
 * has no check of whether it was read.
 */
#include "guard/process.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/warn.h"
#include "guard/allocations.h"
#include "guard/annotations.h"
#include "guard/frees.h"
#include "guard/grammar.h"
#include "nvtx/tool.h"
#include "resource/intercept.h"
#include "resource/operations.h"
#include <stdlib.h>
#include <unistd.h>

static _Atomic(struct tarn__guard *) process_guard;

struct tarn__guard *tarn__process_guard(void)
{
    struct tarn__guard *guard = atomic_load(&process_guard);

    if (!guard)
        tarn_error_set(TARN_NOT_FOUND,
                       "guard: guard mode is off: set TARN_POOL_DEBUG, or call "
                       "tarn_guard_enable()");
    return guard;
}

/* --- samples --- */

/* Draw the number of allocations up to the next sample: N on average. */
static int64_t draw_countdown(uint64_t sample)
{
    static _Thread_local uint64_t state;

    if (state == 0)
        state = tarn__clock_now_ns() ^ (uintptr_t)&state;
    return 1 + (int64_t)tarn__random_below(&state, 2 * sample - 1);
}

/* Return true if this allocation is a sample; sets the distance to the next one. A thread
 * comes here first without a distance. */
static bool is_sample(uint64_t sample)
{
    static _Thread_local bool is_drawn;
    bool was_drawn = is_drawn;

    if (sample <= 1)
        return true;
    is_drawn = true;
    tarn__intercept_countdown = draw_countdown(sample);
    return was_drawn || --tarn__intercept_countdown == 0; /* one in N of the threads */
}

/* --- the check at exit --- */

static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn__guard *guards; /* all guards of the process */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* The driver's own handler of atexit() was registered before, so it runs later. In a
 * forked child the driver is gone, and the lock may be held forever. */
static void check_at_exit(void)
{
    if (tarn__driver_gone())
        return;
    pthread_mutex_lock(&guards_lock);
    for (struct tarn__guard *guard = guards; guard; guard = guard->next)
        tarn__guard_check(guard);
    pthread_mutex_unlock(&guards_lock);
}

static void register_check(void)
{
    atexit(check_at_exit);
}

void tarn__process_check_at_exit(void)
{
    pthread_once(&exit_once, register_check);
}

void tarn__process_add(struct tarn__guard *guard)
{
    if (tarn__driver_gone())
        return;
    pthread_mutex_lock(&guards_lock);
    guard->next = guards;
    guards = guard;
    pthread_mutex_unlock(&guards_lock);
}

void tarn__process_remove(struct tarn__guard *guard)
{
    if (tarn__driver_gone())
        return;
    pthread_mutex_lock(&guards_lock);
    for (struct tarn__guard **link = &guards; *link; link = &(*link)->next)
        if (*link == guard) {
            *link = guard->next;
            break;
        }
    pthread_mutex_unlock(&guards_lock);
}

/* --- the public calls of all resources --- */

static tarn_status allocate(tarn_resource *resource, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__guard *guard = atomic_load(&process_guard);

    if (!is_sample(guard->options.sample))
        return tarn__operations_allocate(resource, bytes, alignment, stream, out);
    tarn_status status =
        tarn__allocations_allocate(guard, resource, bytes, alignment, stream, out);
    tarn__process_check_at_exit();
    return status;
}

static tarn_status deallocate(tarn_resource *resource, tarn_device_ptr block,
                              size_t bytes, size_t alignment, tarn_stream stream)
{
    tarn_status status;

    if (tarn__annotations_free(resource, block, bytes, alignment, stream, &status))
        return status;
    return tarn__frees_deallocate(atomic_load(&process_guard), resource, block, bytes,
                                  alignment, stream);
}

static bool requested_bytes(tarn_device_ptr block, size_t *out)
{
    return tarn__annotations_requested_bytes(block, out) ||
           tarn__guard_requested_bytes(atomic_load(&process_guard), block, out);
}

static void flush(tarn_resource *resource)
{
    struct tarn__guard *guard = atomic_load(&process_guard);

    tarn__guard_flush(guard, resource);
    tarn__guard_wait_for_hands(guard);
}

static const struct tarn__intercept_functions functions = {allocate, deallocate,
                                                           requested_bytes, flush};

static tarn_status enable(const tarn_guard_options *options)
{
    static atomic_bool is_enabled;
    bool is_sampled = options->sample > 1;
    struct tarn__guard *guard = tarn__guard_create(options, is_sampled);

    if (!guard)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "guard: no host memory");
    if (atomic_exchange(&is_enabled, true)) {
        tarn__guard_destroy(guard);
        return tarn_error_set(TARN_ALREADY_SET,
                              "guard: guard mode is on for the process already");
    }
    tarn__process_add(guard);
    atomic_store(&process_guard, guard);
    if (tarn__tool_is_named())
        tarn__intercept_count_unmarked(false); /* blocks with annotations */
    tarn__intercept_set(&functions, is_sampled);
    return TARN_OK;
}

tarn_status tarn_guard_enable(const tarn_guard_options *options)
{
    tarn_guard_options all;
    tarn_status status = tarn__grammar_complete(options, &all);

    return status == TARN_OK ? enable(&all) : status;
}

/* --- the environment --- */

/* Return true if this process was `tarn run`, which has loaded the library, too. */
static bool was_the_command(void)
{
    const char *process = getenv("TARN_RUN_PID");

    return process && strtol(process, NULL, 10) == (long)getpid();
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("TARN_POOL_DEBUG");
    tarn_guard_options options;

    if (!text || !*text)
        return;
    if ((tarn_guard_parse(text, &options) != TARN_OK ||
         tarn_guard_enable(&options) != TARN_OK) &&
        !was_the_command())
        tarn__warn("TARN_POOL_DEBUG=%s is ignored: %s", text, tarn_error_last()->message);
}
