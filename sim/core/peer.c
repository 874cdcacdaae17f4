/* peer.c -- peer access between devices. All devices support it, unless the option
 * `peers` disables it. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/context.h"
#include "sim/core/device.h"

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(CALL_PLAIN);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device) || !sim_device_exists(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && !sim_options.has_no_peers;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                 CUdevice from, CUdevice to)
{
    ENTER(CALL_PLAIN);
    if (!value || attribute < 1 || attribute > 5)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(from) || !sim_device_exists(to) || from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute != 5 &&
             !sim_options.has_no_peers; /* as between two devices one NVLink hop apart */
    return CUDA_SUCCESS;
}

/* The bit of `handle`'s device in the current context's `peers`. Return 0 and set
 * *result if there is no such device: to `self` if it is the same device. */
static uint64_t peer_bit(CUcontext handle, CUresult self, CUresult *result)
{
    struct sim_context *peer;

    *result = handle ? sim_context_alive(handle, &peer) : CUDA_ERROR_INVALID_CONTEXT;
    if (*result != CUDA_SUCCESS)
        return 0;
    if (peer->device == sim_context_current()->device) {
        *result = self;
        return 0;
    }
    return (uint64_t)1 << peer->device;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    CUresult result;

    ENTER(CALL_CONTEXT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    uint64_t bit = peer_bit(handle, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, &result);
    if (!bit)
        return sim_lock_leave(result);
    if (sim_options.has_no_peers)
        return sim_lock_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (sim_context_current()->peers & bit)
        return sim_lock_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    sim_context_current()->peers |= bit;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    CUresult result;

    ENTER(CALL_CONTEXT);
    sim_lock();
    uint64_t bit = peer_bit(handle, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, &result);
    if (!bit)
        return sim_lock_leave(result);
    if (!(sim_context_current()->peers & bit))
        return sim_lock_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    sim_context_current()->peers &= ~bit;
    return sim_lock_leave(CUDA_SUCCESS);
}
