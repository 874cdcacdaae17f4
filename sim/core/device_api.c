/* device_api.c -- the calls about devices: their number, names and properties. */
#include "sim/core/api.h"
#include "sim/core/attributes.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/core/visible.h"
#include <stdio.h>
#include <string.h>

CUresult cuDriverGetVersion(int *version)
{
    if (sim_phase_is_exiting())
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
        sim_misuse_abort(__func__, "the buffer has %d bytes; a real driver crashes here",
                         bytes);
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
    sim_visible_uuid(sim_devices[device].number, uuid);
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
    return sim_lock_leave(CUDA_SUCCESS);
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
