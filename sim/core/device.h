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

/* Create all devices. Called by cuInit. `sim_lock_mutex` held. */
CUresult sim_devices_create(void);

/* The size of the address range of each device. The option `memory` is at most that. */
size_t sim_device_address_bytes(void);

/* The device of that number; -1 if this process does not see it. */
CUdevice sim_device_of(int number);

/* Return true if `device` is a device of this process. */
bool sim_device_exists(CUdevice device);

/* --- its memory; locked --- */

/* Charge `bytes`, whole pieces, to `device`, within its limit; and undo that. */
bool sim_device_charge(struct sim_device *device, size_t bytes);
void sim_device_refund(struct sim_device *device, size_t bytes);

/* Take whole pieces of at least `bytes` from `device`, within its limit, or NULL. */
struct sim_range *sim_device_take_pieces(struct sim_device *device, size_t bytes);

/* Return whole pieces to `device`. Before that the caller drops their content without
 * the lock, with sim_device_drop_pieces. */
void sim_device_return_pieces(struct sim_device *device, struct sim_range *range);

/* Tell the system that the content of these pieces is unused. Needs no lock. */
void sim_device_drop_pieces(const struct sim_device *device,
                            const struct sim_range *range);

/* Take `bytes` from `device`: small ones from split pieces. NULL: out of memory. */
struct sim_range *sim_device_take(struct sim_device *device, size_t bytes);
void sim_device_return(struct sim_device *device, struct sim_range *range);

#endif
