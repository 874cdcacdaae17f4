/* runtime.c -- instances of the runtime, each with counters of its own.
 *
 * Numba shuts its runtime down at exit, sets its allocator at import and counts its
 * leaks. None of that may touch device memory, so pointers live in one instance and
 * compiled code in another. An instance does not know its blocks, only how many there
 * are: that is what a release has to be refused for.
 */
#include "nrt/meminfo.h"
#include <stdio.h>
#include <stdlib.h>

tarn_status tarn_runtime_create(const char *name, tarn_runtime **out)
{
    if (!name || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: a runtime needs %s",
                              name ? "a place for the result" : "a name");
    tarn_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nrt: no host memory for runtime %s",
                              name);
    snprintf(runtime->name, sizeof runtime->name, "%s", name);
    *out = runtime;
    return TARN_OK;
}

tarn_status tarn_runtime_release(tarn_runtime *runtime)
{
    tarn_runtime_counts counts;

    if (!runtime)
        return TARN_OK;
    tarn_runtime_counts_read(runtime, &counts);
    if (counts.created != counts.destroyed)
        return tarn_error_set(
            TARN_STILL_IN_USE, "nrt: runtime %s has %llu of %llu MemInfos still out",
            runtime->name, (unsigned long long)(counts.created - counts.destroyed),
            (unsigned long long)counts.created);
    free(runtime);
    return TARN_OK;
}

/* What is gone is read first: a block that comes and goes in between is then counted as
 * one that is still there, and never as one that went before it came. */
void tarn_runtime_counts_read(tarn_runtime *runtime, tarn_runtime_counts *out)
{
    out->destroyed = atomic_load_explicit(&runtime->destroyed, memory_order_acquire);
    out->created = atomic_load_explicit(&runtime->created, memory_order_relaxed);
}
