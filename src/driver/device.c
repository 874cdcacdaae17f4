/* device.c -- checks of a device that need no context. */
#include "driver/driver.h"

tarn_status tarn__device_check(const char *component, int device)
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK)
        return status;
    if (device < 0 || device >= tarn__driver_device_count() ||
        device >= TARN__DEVICES_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: device %d does not exist, the driver has %d",
                              component, device, tarn__driver_device_count());
    return TARN_OK;
}

tarn_status tarn__device_gone(const char *component, int device)
{
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "%s: the driver of device %d can no longer be called: this "
                          "process is exiting or is a forked child",
                          component, device);
}

tarn_status tarn__device_has(const char *component, int device, int attribute, bool *out)
{
    const struct tarn__calls *calls;
    CUdevice_ handle = 0;
    int value = 0;
    tarn_status status = tarn__device_check(component, device);

    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status == TARN_OK && tarn__driver_gone())
        status = tarn__device_gone(component, device);
    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->device_get(&handle, device);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get_attribute(&value, attribute, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(component, "cuDeviceGetAttribute", result,
                                   "attribute %d of device %d", attribute, device);
    *out = value != 0;
    return TARN_OK;
}
