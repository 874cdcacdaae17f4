/* ipc.h -- device memory shared with other processes by handles that hold an id. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

#include <stdint.h>

struct sim_block;

/* Open a memfd of another process of this user: the one of that number there, inode and
 * name; or -1. */
int sim_ipc_open_foreign(int32_t process, int32_t file, uint64_t inode, const char *name);

/* `block` goes: nobody may open it any more. Locked. */
void sim_ipc_forget(struct sim_block *block);

#endif
