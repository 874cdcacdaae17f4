/* device.c -- the devices: mapping their memory, and their properties. */
#define _GNU_SOURCE
#include "sim/core/device.h"
#include "sim/core/api.h"
#include "sim/core/attributes.h"
#include "sim/core/call.h"
#include "sim/core/context.h"
#include "sim/memory/pool_file.h"
#include "sim/core/visible.h"
#include "sim/memory/vmm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

bool sim_device_holds(uintptr_t address)
{
    for (int i = 0; i < sim_device_count; i++)
        if (address - sim_devices[i].base < address_bytes)
            return true;
    return sim_vmm_holds(address) || sim_pool_file_holds(address);
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
    device->pool = device->current_pool = sim_pool_create_default(number);
    return device->pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_devices_create(void)
{
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

CUresult cuDriverGetVersion(int *version)
{
    if (sim_is_exiting())
        return CUDA_ERROR_DEINITIALIZED;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(CALL_PLAIN);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(CALL_PLAIN);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (bytes <= 0)
        sim_abort(__func__, "the buffer has %d bytes; a real driver crashes here", bytes);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "Tarn simulated GPU");
    return CUDA_SUCCESS;
}

/* The same in every process: processes use it to identify a device to each other. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_uuid_of(sim_devices[device].number, uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    ENTER(CALL_PLAIN);
    (void)luid, (void)mask, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED; /* only Windows has it */
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CLEAR(bytes);
    ENTER(CALL_PLAIN);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *bytes = (size_t)sim_options.memory_bytes;
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute != 0 && (uint64_t)attribute == sim_options.attribute) {
        *value = (int)sim_options.attribute_value;
        return CUDA_SUCCESS;
    }
    switch (attribute) {
#define X(name, number, result_value) \
    case number:                      \
        *value = (result_value);      \
        return CUDA_SUCCESS;
        SIM_ATTRIBUTES(X)
#undef X
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = SIM_COMPUTE_MAJOR;
    *minor = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    char whole[32];

    if (bytes > 0)
        CLEAR(text); /* one letter */
    ENTER(CALL_PLAIN);
    if (!text || bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(whole, sizeof whole, "0000:%02X:00.0",
             (unsigned)(SIM_PCI_BUS + sim_devices[device].number));
    if ((size_t)bytes <= strlen(whole))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(text, whole, strlen(whole) + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned domain = 0, bus = 0, slot = 0;

    ENTER(CALL_PLAIN);
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        (domain = 0, sscanf(text, "%x:%x", &bus, &slot) != 2))
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != 0 || slot != 0 || bus < SIM_PCI_BUS ||
        sim_device_of((int)bus - SIM_PCI_BUS) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = sim_device_of((int)bus - SIM_PCI_BUS);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, int type, CUdevice device)
{
    ENTER(CALL_PLAIN);
    (void)type;
    if (!supported)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *supported = 0;
    return CUDA_SUCCESS;
}
