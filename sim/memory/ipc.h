/* ipc.h -- device memory shared with other processes by handles that hold an id. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

#include "sim/core/cuda.h"
#include <stdbool.h>

struct sim_block;
struct sim_range;

/* Defer the free of memory that another process has open. The memory keeps its content
 * until that process closes it, and no longer belongs to the caller. False: no process
 * has it open. Locked. */
bool sim_ipc_defer_free(CUdevice device, struct sim_range *memory);

/* Return deferred memory that every process has closed to its device. Locked. */
void sim_ipc_free_deferred(void);

/* Get the handle of `block`, a BLOCK_DEVICE, for other processes; open the handle of
 * another process. Locked. */
CUresult sim_ipc_get_handle(struct sim_block *block, CUipcMemHandle *handle);
CUresult sim_ipc_open_handle(CUdeviceptr *out, const CUipcMemHandle *handle,
                             unsigned flags);

/* Remove `block` from the registry: no process may open it any more. Locked. */
void sim_ipc_forget(struct sim_block *block);

#endif
