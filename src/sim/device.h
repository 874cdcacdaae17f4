/* device.h -- the devices: their memory and what they say of themselves. */
#ifndef TARN_SIM_DEVICE_H
#define TARN_SIM_DEVICE_H

#include "sim/cuda.h"
#include "sim/heap.h"
#include "sim/options.h"
#include <stdbool.h>

struct sim_pool;

struct sim_device {
    int number; /* the same in every process, whatever CUDA_VISIBLE_DEVICES makes visible */
    uintptr_t base;            /* where its memory is mapped; 2 MiB aligned */
    int file;                  /* a memfd: other processes map parts of it (ipc.c) */
    size_t reserved_bytes;     /* taken from `addresses`; cuMemGetInfo counts it */
    struct sim_heap addresses; /* free, in multiples of 2 MiB */
    struct sim_heap small;     /* free parts of 2 MiB pieces carved up by cuMemAlloc */
    struct sim_pool *pool;     /* its default pool */
    struct sim_pool *current_pool; /* what cuDeviceSetMemPool set */
};

extern struct sim_device sim_devices[SIM_DEVICES_MAX];

/* How many this process sees; does not change after cuInit. */
extern int sim_device_count;

/* Create all; by cuInit, under the lock. */
CUresult sim_devices_create(void);

/* How many bytes of addresses each device has; its memory may be set up to that. */
size_t sim_device_address_bytes(void);

/* The device of that number, or -1 where this process does not see it. */
CUdevice sim_device_of(int number);

/* Is `device` one of them? */
bool sim_device_exists(CUdevice device);

/* Does `address` lie where some device's memory is or could be mapped, allocated or not?
 * Locked. */
bool sim_device_holds(uintptr_t address);

#endif
