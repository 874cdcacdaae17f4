/* runtime.c -- instances of the runtime: their creation, their allocators, their end.
 *
 * Numba shuts its runtime down at exit, sets its allocator at import and counts its
 * leaks. None of that may affect device memory, so pointers use one instance and compiled
 * code another. A block names its instance by an index of 8 bits. An instance does not
 * know its blocks, only their number: it cannot be released while that is not zero.
 */
#include "nrt/modes.h"
#include "nrt/quarantine.h"
#include "nrt/registry.h"
#include "nrt/shard.h"
#include "nrt/slab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tarn_runtime *tarn_runtime_default(void)
{
    return &tarn__default_runtime;
}

tarn_status tarn_runtime_create(const char *name, tarn_runtime **out)
{
    if (!name || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: runtime_create: %s is NULL",
                              name ? "out" : "a name");
    tarn_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nrt: no host memory for runtime %s",
                              name);
    snprintf(runtime->name, sizeof runtime->name, "%s", name);
    pthread_mutex_init(&runtime->lock, NULL);
    runtime->allocators[0] = tarn__default_runtime.allocators[0];
    runtime->allocator_count = 1;
    runtime->quarantine_limit = TARN__QUARANTINE_LIMIT;
    atomic_init(&runtime->word, TARN__UNREADY | TARN__SLOW);
    tarn__modes_ready(runtime);
    if (!tarn__registry_add(runtime)) {
        pthread_mutex_destroy(&runtime->lock);
        free(runtime);
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "nrt: cannot create runtime %s, the maximum of %d runtimes is reached", name,
            TARN__RUNTIMES - 1);
    }
    *out = runtime;
    return TARN_OK;
}

/* Fail while MemInfos are live. Raw blocks belong to the default runtime alone. */
static tarn_status reject_while_used(tarn_runtime *runtime)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    tarn_runtime_stats_read(runtime, &stats);
    if (stats.mi_alloc != stats.mi_free)
        return tarn_error_set(
            TARN_STILL_IN_USE, "nrt: runtime %s has %llu live MemInfos of %llu",
            runtime->name, (unsigned long long)(stats.mi_alloc - stats.mi_free),
            (unsigned long long)stats.mi_alloc);
    return TARN_OK;
}

tarn_status tarn_runtime_release(tarn_runtime *runtime)
{
    if (!runtime)
        return TARN_OK;
    if (runtime == &tarn__default_runtime)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "nrt: the default runtime cannot be released");
    tarn_status status = reject_while_used(runtime);
    if (status != TARN_OK)
        return status;
    tarn__quarantine_shrink(runtime, 0);
    tarn__registry_lock();
    atomic_store(&tarn__runtimes[runtime->index], NULL);
    tarn__shard_free_all(runtime);
    tarn__registry_unlock();
    tarn__slab_free_all(runtime);
    pthread_mutex_destroy(&runtime->lock);
    free(runtime);
    return TARN_OK;
}

static bool same_allocator(const struct tarn__allocator *a,
                           const struct tarn__allocator *b)
{
    return a->with.malloc == b->with.malloc && a->with.realloc == b->with.realloc &&
           a->with.free == b->with.free && a->with.opaque_data == b->with.opaque_data &&
           a->malloc == b->malloc && a->realloc == b->realloc && a->free == b->free;
}

/* The number of an allocator, new or known; TARN__ALLOCATORS: there are too many. Under
 * the lock. */
static unsigned find_allocator(tarn_runtime *runtime,
                               const struct tarn__allocator *candidate)
{
    for (unsigned i = 0; i < runtime->allocator_count; i++)
        if (same_allocator(&runtime->allocators[i], candidate))
            return i;
    if (runtime->allocator_count == TARN__ALLOCATORS)
        return TARN__ALLOCATORS;
    runtime->allocators[runtime->allocator_count] = *candidate;
    return runtime->allocator_count++;
}

tarn_status tarn__runtime_use_allocator(tarn_runtime *runtime,
                                        const struct tarn__allocator *candidate)
{
    tarn__modes_ready(runtime);
    pthread_mutex_lock(&runtime->lock);
    unsigned number = find_allocator(runtime, candidate);
    if (number < TARN__ALLOCATORS) {
        atomic_store(&runtime->word,
                     (atomic_load(&runtime->word) & ~UINT64_C(0xff)) | number);
        tarn__modes_update_word(runtime);
    }
    pthread_mutex_unlock(&runtime->lock);
    if (number == TARN__ALLOCATORS)
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "nrt: runtime %s has used %d allocators, which is the maximum", runtime->name,
            TARN__ALLOCATORS);
    return TARN_OK;
}

tarn_status tarn_runtime_set_allocator(tarn_runtime *runtime,
                                       const NRT_ExternalAllocator *allocator)
{
    struct tarn__allocator candidate = {.malloc = NULL};

    if (!runtime || (allocator && (!allocator->malloc || !allocator->free)))
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: set_allocator: %s is NULL",
                              runtime ? "malloc or free" : "a runtime");
    if (!allocator)
        return tarn__runtime_use_allocator(runtime, &tarn__default_runtime.allocators[0]);
    candidate.with = *allocator;
    return tarn__runtime_use_allocator(runtime, &candidate);
}

void tarn_runtime_shutdown(tarn_runtime *runtime, bool shut)
{
    atomic_store(&runtime->shut, shut);
}

size_t tarn_runtime_trim(tarn_runtime *runtime)
{
    struct tarn__shard *shard = tarn__shard_get(runtime);
    size_t bytes = tarn__quarantine_shrink(runtime, 0);

    if (shard)
        tarn__slab_drain(shard);
    return bytes + tarn__slab_trim(runtime);
}
