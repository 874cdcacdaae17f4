/* ipc_api.c -- the calls of legacy IPC. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/ipc.h"
#include "sim/memory/memory.h"

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    ENTER(CALL_CONTEXT);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block || block->kind != BLOCK_DEVICE)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_lock_leave(sim_ipc_get_handle(block, handle));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
                               unsigned int flags)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    return sim_lock_leave(sim_ipc_open_handle(out, &handle, flags));
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block || block->kind != BLOCK_OPENED || block->range.start != address)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (--block->opens > 0)
        return sim_lock_leave(CUDA_SUCCESS);
    sim_memory_release_block(block);
    return sim_lock_leave(CUDA_SUCCESS);
}
