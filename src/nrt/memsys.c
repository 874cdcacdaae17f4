/* memsys.c -- the default instance under Numba's names, and the view of its counters.
 *
 * Counting cannot be turned off, but the output of these calls can. Numba's own tests
 * require queries to fail while statistics are off, and counters to stand still
 * meanwhile. Counts from that time are subtracted permanently.
 */
#include "nrt/memsys.h"
#include "nrt/registry.h"
#include <stdlib.h>

enum { COUNTERS = 4, HIDDEN = 0x41414141 };

static struct {
    pthread_mutex_t lock;
    bool enabled;
    uint64_t at_disable[COUNTERS]; /* the real values when they were turned off */
    uint64_t hidden[COUNTERS];     /* part of the real values that is never shown */
} memsys = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tarn__memsys_lock(void)
{
    pthread_mutex_lock(&memsys.lock);
}

void tarn__memsys_unlock(void)
{
    pthread_mutex_unlock(&memsys.lock);
}

static void read_real(uint64_t real[COUNTERS])
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    tarn_runtime_stats_read(&tarn__default_runtime, &stats);
    real[0] = stats.alloc;
    real[1] = stats.free;
    real[2] = stats.mi_alloc;
    real[3] = stats.mi_free;
}

void tarn_nrt_MemSys_enable_stats(void)
{
    uint64_t real[COUNTERS];

    tarn__memsys_lock();
    read_real(real);
    for (int i = 0; i < COUNTERS && !memsys.enabled; i++)
        memsys.hidden[i] += real[i] - memsys.at_disable[i];
    memsys.enabled = true;
    tarn__memsys_unlock();
}

void tarn_nrt_MemSys_disable_stats(void)
{
    tarn__memsys_lock();
    if (memsys.enabled)
        read_real(memsys.at_disable);
    memsys.enabled = false;
    tarn__memsys_unlock();
}

size_t tarn_nrt_MemSys_stats_enabled(void)
{
    tarn__memsys_lock();
    size_t enabled = memsys.enabled;
    tarn__memsys_unlock();
    return enabled;
}

static size_t show(int which)
{
    uint64_t real[COUNTERS];
    size_t shown = HIDDEN;

    tarn__memsys_lock();
    if (memsys.enabled) {
        read_real(real);
        shown = (size_t)(real[which] - memsys.hidden[which]);
    }
    tarn__memsys_unlock();
    return shown;
}

size_t tarn_nrt_MemSys_get_stats_alloc(void)
{
    return show(0);
}

size_t tarn_nrt_MemSys_get_stats_free(void)
{
    return show(1);
}

size_t tarn_nrt_MemSys_get_stats_mi_alloc(void)
{
    return show(2);
}

size_t tarn_nrt_MemSys_get_stats_mi_free(void)
{
    return show(3);
}

void tarn_nrt_MemSys_init(void)
{
    tarn_runtime_shutdown(&tarn__default_runtime, false);
    tarn_runtime_set_allocator(&tarn__default_runtime, NULL);
    tarn__memsys_lock();
    memsys.enabled = false;
    read_real(memsys.at_disable);
    for (int i = 0; i < COUNTERS; i++)
        memsys.hidden[i] = memsys.at_disable[i];
    tarn__memsys_unlock();
}

void tarn_nrt_MemSys_shutdown(void)
{
    tarn_runtime_shutdown(&tarn__default_runtime, true);
}

void tarn_nrt_MemSys_set_allocator(NRT_malloc_func malloc_function,
                                   NRT_realloc_func realloc_function,
                                   NRT_free_func free_function)
{
    struct tarn__allocator allocator = {
        .malloc = malloc_function, .realloc = realloc_function, .free = free_function};

    if (malloc_function && realloc_function && free_function)
        tarn__runtime_use_allocator(&tarn__default_runtime, &allocator);
    else
        tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: set_allocator: malloc, realloc or "
                                              "free is NULL; the allocator is unchanged");
}
