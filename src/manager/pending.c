/* pending.c -- the limits of deferred frees, from the environment or set by a call.
 *
 * The limits keep Numba's default: a list of at most 10 blocks or a fifth of the device.
 * Each cuMemFree waits for the device, so several frees at one moment cost about as much
 * as one. The entries themselves are pointers in a list of the module below
 * (pointer/deferred_frees.c). There running out of memory, a reset and the end of
 * deferred cleanup find them.
 */
#define _GNU_SOURCE
#include "manager/pending.h"
#include "base/c_locale.h"
#include "base/warn.h"
#include "driver/driver.h"
#include "pointer/deferred_frees.h"
#include "pointer/pointer.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The value of an environment variable; NULL if it is unset or empty. */
static const char *text_of(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* False, and `*out` untouched, where `text` is no number of blocks. */
static bool read_count(const char *text, size_t *out)
{
    char *end;

    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno != 0)
        return false;
    *out = (size_t)count;
    return true;
}

static bool is_ratio(double ratio)
{
    return ratio >= 0 && ratio <= 1; /* NaN is neither */
}

/* `text` is not empty. */
static bool read_ratio(const char *text, double *out)
{
    char *end;
    locale_t former = tarn__c_locale_begin();
    double ratio = strtod(text, &end);

    tarn__c_locale_end(former);
    if (*end || !is_ratio(ratio))
        return false;
    *out = ratio;
    return true;
}

/* Invalid values in the environment, to be warned of once. */
static struct {
    const char *count, *ratio; /* NULL: nothing */
    atomic_bool warned;
} wrong;

/* Variables that 0.2 renamed: the old name has no effect. */
static const struct {
    const char *before, *now;
} renamed[] = {
    {"TARN_PENDING_COUNT", "TARN_MAX_PENDING_DEALLOCS_COUNT"},
    {"TARN_PENDING_RATIO", "TARN_MAX_PENDING_DEALLOCS_RATIO"},
};

static void read_environment(void)
{
    const char *count_text = text_of("TARN_MAX_PENDING_DEALLOCS_COUNT");
    const char *ratio_text = text_of("TARN_MAX_PENDING_DEALLOCS_RATIO");
    size_t count;
    double ratio;

    tarn__deferred_frees_limits(&count, &ratio);
    if (count_text && !read_count(count_text, &count))
        wrong.count = count_text;
    if (ratio_text && !read_ratio(ratio_text, &ratio))
        wrong.ratio = ratio_text;
    tarn__deferred_frees_set_limits(count, ratio);
}

static void warn(void)
{
    size_t count;
    double ratio;

    tarn__deferred_frees_limits(&count, &ratio);
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (text_of(renamed[i].before))
            tarn__warn("manager: %s has no effect, its new name is %s", renamed[i].before,
                       renamed[i].now);
    if (wrong.count)
        tarn__warn("manager: TARN_MAX_PENDING_DEALLOCS_COUNT=%s is not a number of "
                   "blocks, the limit stays %zu",
                   wrong.count, count);
    if (wrong.ratio)
        tarn__warn("manager: TARN_MAX_PENDING_DEALLOCS_RATIO=%s is not a number from 0 "
                   "to 1, the limit stays %g",
                   wrong.ratio, ratio);
}

/* Read the environment once, before the first call can change its limits. The warnings
 * come after that: their handler is a user's code. */
static void begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_environment);
    if (!atomic_exchange(&wrong.warned, true))
        warn();
}

tarn_status tarn_manager_set_pending_deallocs_limits(size_t count, double ratio)
{
    if (!is_ratio(ratio))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "manager: pending_deallocs_limits: the ratio %g is not in [0, 1]", ratio);
    begin();
    tarn__deferred_frees_set_limits(count, ratio);
    return TARN_OK;
}

void tarn_manager_pending_deallocs_limits(size_t *count_out, double *ratio_out)
{
    begin();
    tarn__deferred_frees_limits(count_out, ratio_out);
}

tarn_status tarn_manager_pending_deallocs(int device, size_t *count_out,
                                          size_t *bytes_out)
{
    tarn_status status = tarn__device_check("manager", device);

    if (status != TARN_OK)
        return status;
    if (!count_out || !bytes_out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "manager: pending_deallocs: count_out or bytes_out is NULL");
    tarn__deferred_frees_on(device, count_out, bytes_out);
    return TARN_OK;
}

tarn_status tarn__pending_memory_info(int device, size_t *free_out, size_t *total_out)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(device, &scope);

    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->mem_get_info(free_out, total_out);
    if (result != CUDA_SUCCESS_)
        status =
            tarn__driver_failed("manager", "cuMemGetInfo", result, "device %d", device);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn__pending_begin(int device)
{
    size_t free_bytes = 0, total_bytes = 0;

    begin();
    tarn_status status = tarn__pending_memory_info(device, &free_bytes, &total_bytes);
    if (status == TARN_OK)
        tarn__deferred_frees_set_capacity(device, total_bytes);
    return status;
}

void tarn__pending_add(tarn_pointer *pointer)
{
    pointer->lazy = true;
}
