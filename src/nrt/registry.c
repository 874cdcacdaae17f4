/* registry.c -- the list of instances, by the index that a block's header names. */
#include "nrt/registry.h"
#include <stdlib.h>

tarn_runtime tarn__default_runtime = {
    .name = "default",
    .word = TARN__UNREADY | TARN__SLOW,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .allocators = {{.malloc = malloc, .realloc = realloc, .free = free}},
    .allocator_count = 1,
    .quarantine_limit = TARN__QUARANTINE_LIMIT,
};

_Atomic(tarn_runtime *) tarn__runtimes[TARN__RUNTIMES] = {&tarn__default_runtime};

pthread_mutex_t tarn__registry_mutex = PTHREAD_MUTEX_INITIALIZER;

void tarn__registry_lock(void)
{
    pthread_mutex_lock(&tarn__registry_mutex);
}

void tarn__registry_unlock(void)
{
    pthread_mutex_unlock(&tarn__registry_mutex);
}

bool tarn__registry_add(tarn_runtime *runtime)
{
    bool found = false;

    tarn__registry_lock();
    for (unsigned i = 1; i < TARN__RUNTIMES && !found; i++)
        if (!tarn__registry_at(i)) {
            found = true;
            runtime->index = i;
            atomic_store_explicit(&tarn__runtimes[i], runtime, memory_order_release);
        }
    tarn__registry_unlock();
    return found;
}
