/* device.h -- the devices: their memory and their properties. */
#ifndef TARN_SIM_DEVICE_H
#define TARN_SIM_DEVICE_H

#include "sim/core/cuda.h"
#include "sim/core/heap.h"
#include "sim/core/options.h"
#include <stdbool.h>

struct sim_pool;

struct sim_device {
    int number;     /* the same in every process, whatever CUDA_VISIBLE_DEVICES is */
    uintptr_t base; /* the start of its mapped memory; 2 MiB aligned */
    int file;       /* a memfd: other processes map parts of it (ipc.c) */
    size_t reserved_bytes;     /* allocated from `addresses`; cuMemGetInfo counts it */
    struct sim_heap addresses; /* free, in multiples of 2 MiB */
    struct sim_heap small;     /* free parts of the 2 MiB pieces that cuMemAlloc splits */
    struct sim_pool *pool;     /* its default pool */
    struct sim_pool *current_pool; /* the pool that cuDeviceSetMemPool set */
};

extern struct sim_device sim_devices[SIM_DEVICES_MAX];

/* The number of devices that this process sees. It does not change after cuInit. */
extern int sim_device_count;

/* Create all devices. Called by cuInit, under the lock. */
CUresult sim_devices_create(void);

/* The size of the address range of each device. The option `memory` is at most that. */
size_t sim_device_address_bytes(void);

/* The device of that number; -1 if this process does not see it. */
CUdevice sim_device_of(int number);

/* Return true if `device` is a device of this process. */
bool sim_device_exists(CUdevice device);

/* Return true if `address` is in the address range of any device, allocated or not.
 * Locked. */
bool sim_device_holds(uintptr_t address);

#endif
