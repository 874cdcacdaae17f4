/* ipc.h -- device memory shared with other processes by handles that hold an id. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

#include "sim/core/cuda.h"
#include <stdbool.h>

struct sim_block;
struct sim_range;

/* Open a memfd of another process of this user by its number there, inode and name; -1
 * on failure. */
int sim_ipc_open_foreign(int32_t process, int32_t file, uint64_t inode, const char *name);

/* Lend the memory of a freed block that another process has open. It keeps its content
 * until that process closes it, and no longer belongs to the caller. False: no process
 * has it open. Locked. */
bool sim_ipc_defer_free(CUdevice device, struct sim_range *memory);

/* Return lent memory that was closed to its device. Locked. */
void sim_ipc_free_deferred(void);

/* Remove `block` from the registry: no process may open it any more. Locked. */
void sim_ipc_forget(struct sim_block *block);

#endif
