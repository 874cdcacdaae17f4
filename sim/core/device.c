/* device.c -- the devices: mapping their memory, and taking parts of it. */
#define _GNU_SOURCE
#include "sim/core/device.h"
#include "base/mutex_assert.h"
#include "base/size.h"
#include "sim/core/hooks.h"
#include "sim/core/lock.h"
#include "sim/core/visible.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Addresses are cheap, and a real device never fails for lack of contiguous memory. So
 * each device has several times as many addresses as memory, and at least this many. */
#define ADDRESSES_MIN ((size_t)64 << 30)
enum { ADDRESSES_PER_MEMORY = 4 };

struct sim_device sim_devices[SIM_DEVICES_MAX];
int sim_device_count;
static size_t address_bytes;

size_t sim_device_address_bytes(void)
{
    return address_bytes;
}

bool sim_device_exists(CUdevice device)
{
    return device >= 0 && device < sim_device_count;
}

CUdevice sim_device_of(int number)
{
    CUdevice device = sim_device_count - 1;

    while (device >= 0 && sim_devices[device].number != number)
        device--;
    return device;
}

/* Map `file` at a multiple of 2 MiB. */
static bool map_file(struct sim_device *device)
{
    char *addresses = mmap(NULL, address_bytes + SIM_PIECE_BYTES, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
        return false;
    uintptr_t base =
        ((uintptr_t)addresses + SIM_PIECE_BYTES - 1) & ~(SIM_PIECE_BYTES - 1);
    if (mmap((void *)base, address_bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, device->file, 0) == MAP_FAILED) {
        munmap(addresses, address_bytes + SIM_PIECE_BYTES);
        return false;
    }
    madvise((void *)base, address_bytes, MADV_DONTDUMP);
    device->base = base;
    return true;
}

static CUresult create_device(CUdevice number)
{
    struct sim_device *device = &sim_devices[number];
    struct sim_range *all = calloc(1, sizeof *all);

    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->file = memfd_create("tarn-sim-device", MFD_CLOEXEC);
    if (device->file < 0 || ftruncate(device->file, (off_t)address_bytes) != 0 ||
        !map_file(device)) {
        if (device->file >= 0)
            close(device->file);
        free(all);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    all->start = device->base;
    all->bytes = address_bytes;
    sim_heap_return(&device->addresses, all);
    device->pool = device->current_pool = sim_hooks.pool_create_default(number);
    return device->pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_devices_create(void)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    int numbers[SIM_DEVICES_MAX];

    sim_device_count = sim_visible_devices(getenv("CUDA_VISIBLE_DEVICES"),
                                           (int)sim_options.devices, numbers);
    if (sim_device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    address_bytes = (size_t)sim_options.memory_bytes * ADDRESSES_PER_MEMORY;
    if (address_bytes < ADDRESSES_MIN)
        address_bytes = ADDRESSES_MIN;
    for (CUdevice i = 0; sim_device_exists(i); i++) {
        CUresult result = create_device(i);
        sim_devices[i].number = numbers[i];
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

/* --- pieces --- */

bool sim_device_charge(struct sim_device *device, size_t bytes)
{
    if (device->reserved_bytes > sim_options.memory_bytes ||
        bytes > sim_options.memory_bytes - device->reserved_bytes)
        return false;
    device->reserved_bytes += bytes;
    return true;
}

void sim_device_refund(struct sim_device *device, size_t bytes)
{
    device->reserved_bytes -= bytes;
}

struct sim_range *sim_device_take_pieces(struct sim_device *device, size_t bytes)
{
    struct sim_range *range;

    if (!tarn__size_round_up(bytes, SIM_PIECE_BYTES, &bytes) ||
        !sim_device_charge(device, bytes))
        return NULL;
    range = sim_heap_take(&device->addresses, bytes);
    if (!range)
        sim_device_refund(device, bytes);
    return range;
}

void sim_device_return_pieces(struct sim_device *device, struct sim_range *range)
{
    sim_device_refund(device, range->bytes);
    sim_heap_return(&device->addresses, range);
}

void sim_device_drop_pieces(const struct sim_device *device,
                            const struct sim_range *range)
{
    /* If this fails the pages stay, which only costs host memory. */
    int dropped = fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            (off_t)(range->start - device->base), (off_t)range->bytes);
    (void)dropped;
}

/* --- parts of any size --- */

/* Find the whole pieces inside of `range`; false if there is none. */
static bool whole_pieces(const struct sim_range *range, uintptr_t *start, size_t *bytes)
{
    uintptr_t first = (range->start + SIM_PIECE_BYTES - 1) & ~(SIM_PIECE_BYTES - 1);
    uintptr_t end = (range->start + range->bytes) & ~(SIM_PIECE_BYTES - 1);

    if (end <= first)
        return false;
    *start = first;
    *bytes = end - first;
    return true;
}

/* Return a piece that is free among the small blocks to the device. */
static void return_piece_at(struct sim_device *device, uintptr_t start)
{
    struct sim_range *range = sim_heap_take_at(&device->small, start, SIM_PIECE_BYTES);

    if (range)
        sim_device_return_pieces(device, range);
}

struct sim_range *sim_device_take(struct sim_device *device, size_t bytes)
{
    struct sim_range *range;
    uintptr_t piece;

    /* The free only knows the rounded size, so the choice must depend on that alone. */
    if (!tarn__size_round_up(bytes, SIM_ALIGNMENT, &bytes))
        return NULL;
    if (bytes >= SIM_PIECE_BYTES)
        return sim_device_take_pieces(device, bytes);
    range = sim_heap_take(&device->small, bytes);
    if (range)
        return range;
    range = sim_device_take_pieces(device, SIM_PIECE_BYTES);
    if (!range)
        return NULL;
    piece = range->start;
    sim_heap_return(&device->small, range);
    range = sim_heap_take(&device->small, bytes);
    if (!range) /* no host memory: return the piece too */
        return_piece_at(device, piece);
    return range;
}

/* Return a small block, and its piece to the device if all of that is free. */
static void return_small(struct sim_device *device, struct sim_range *range)
{
    uintptr_t start;
    size_t bytes;

    range = sim_heap_return(&device->small, range);
    if (!whole_pieces(range, &start, &bytes))
        return;
    range = sim_heap_take_at(&device->small, start, bytes);
    if (range)
        sim_device_return_pieces(device, range);
}

void sim_device_return(struct sim_device *device, struct sim_range *range)
{
    if (range->bytes >= SIM_PIECE_BYTES)
        sim_device_return_pieces(device, range);
    else
        return_small(device, range);
}
