/* ipc.h -- device memory shared with other processes by handles that hold an id. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

struct sim_block;

/* `block` goes: nobody may open it any more. Locked. */
void sim_ipc_forget(struct sim_block *block);

#endif
