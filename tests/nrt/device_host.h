/* device_host.h -- the device runtime (python/tarn/nrt/device.cu), run by threads here.
 *
 * Its functions have the names of Numba's, which libtarn has as well, so they are reached
 * through a table. The heap under it counts and can be told to fail.
 */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*device_destructor)(void *data, size_t size, void *info);

struct device_meminfo { /* as generated code has it */
    unsigned long long count;
    device_destructor destructor;
    void *info, *data;
    size_t size;
};

struct device_statistics { /* NRT_MemSys, which numba-cuda's memsys.cu makes */
    bool enabled;
    unsigned long long alloc, free, mi_alloc, mi_free;
};

struct device_runtime {
    void *(*allocate)(size_t size);
    void (*free)(void *block);
    void (*incref)(void *mi);
    void (*decref)(void *mi);
    void *(*make)(void *data, size_t size, device_destructor end, void *info);
    void *(*alloc)(size_t size);
    void *(*alloc_dtor)(size_t size, device_destructor end);
    void *(*alloc_aligned)(size_t size, unsigned align);
    void *(*alloc_safe)(size_t size);
    void *(*alloc_dtor_safe)(size_t size, device_destructor end);
    void *(*alloc_safe_aligned)(size_t size, unsigned align);
    void *(*varsize)(size_t size);
    void *(*varsize_dtor)(size_t size, device_destructor end);
    void *(*varsize_alloc)(void *mi, size_t size);
    void *(*varsize_realloc)(void *mi, size_t size);
    void (*varsize_free)(void *mi, void *data);
    void *(*data)(void *mi);
    void (*count_in)(struct device_statistics *statistics);
};

extern const struct device_runtime device;

/* Let this many threads go in step, as those of a warp do: each waits, when it has taken one
 * from a count, till all have. 0: every thread for itself. No thread may be running. */
void device_lockstep(unsigned threads);

/* The heap: blocks that are out, and how many more it hands out (-1: without end). */
size_t device_heap_live(void);
void device_heap_limit(int more);

#endif
