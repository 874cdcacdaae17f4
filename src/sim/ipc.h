/* ipc.h -- device memory shared with other processes by handles that hold an id. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

#include "sim/cuda.h"
#include <stdbool.h>

struct sim_block;
struct sim_range;

/* Open a memfd of another process of this user: the one of that number there, inode and
 * name; or -1. */
int sim_ipc_open_foreign(int32_t process, int32_t file, uint64_t inode, const char *name);

/* Memory of a freed block that another process has open stays what it is until that one
 * lets it go: it is lent, and no longer the caller's. False: nobody has it. Locked. */
bool sim_ipc_lend(CUdevice device, struct sim_range *memory);

/* What was lent and let go is the device's again. Locked. */
void sim_ipc_take_back(void);

/* `block` goes: nobody may open it any more. Locked. */
void sim_ipc_forget(struct sim_block *block);

#endif
