/* misuse.c -- calls that would crash the real driver. */
#include "sim/core/misuse.h"
#include "base/mutex_assert.h"
#include "sim/core/lock.h"
#include "sim/core/options.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ullong misuses;

__attribute__((format(printf, 2, 0))) static void print_misuse(const char *call,
                                                               const char *format,
                                                               va_list arguments)
{
    fprintf(stderr, "tarn simulator: %s: ", call);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
}

void sim_misuse_abort(const char *call, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_misuse(call, format, arguments);
    va_end(arguments);
    abort();
}

void sim_misuse_abort_locked(const char *call, const char *format, ...)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    va_list arguments;

    va_start(arguments, format);
    print_misuse(call, format, arguments);
    va_end(arguments);
    sim_lock_release();
    abort();
}

void sim_misuse(const char *call, const char *format, ...)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    va_list arguments;

    va_start(arguments, format);
    print_misuse(call, format, arguments);
    va_end(arguments);
    if (!sim_options.dead_is_error) {
        sim_lock_release();
        abort();
    }
    atomic_fetch_add(&misuses, 1);
}

void sim_misuse_start(void)
{
    atomic_store(&misuses, 0);
}

unsigned long long sim_misuse_count(void)
{
    return atomic_load(&misuses);
}
