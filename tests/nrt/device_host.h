/* device_host.h -- run the device runtime (python/tarn/nrt/device.cu) on host threads.
 *
 * Its functions have the names of Numba's, which libtarn has as well, so a table holds
 * them. The heap under it counts, and fails on request.
 */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*device_destructor)(void *data, size_t size, void *info);

struct device_meminfo { /* as in generated code */
    unsigned long long count;
    device_destructor destructor;
    void *info, *data;
    size_t size;
};

struct device_statistics { /* NRT_MemSys, which numba-cuda's memsys.cu creates */
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

/* Run this many threads in step, as those of a warp: after it decremented a count, each
 * waits for the others. 0: every thread runs on its own. No thread may be running. */
void device_lockstep(unsigned threads);

/* Call a function of device code. Return the message with which it stopped the kernel, or
 * an empty one. */
const char *device_stops(void (*call)(void *), void *argument);

/* The heap: live blocks, and how many more allocations succeed (-1: all). */
size_t device_heap_live(void);
void device_heap_limit(int more);

#endif
