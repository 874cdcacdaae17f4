/* pool_share.h -- pools of other processes. */
#ifndef TARN_SIM_POOL_SHARE_H
#define TARN_SIM_POOL_SHARE_H

#include "sim/memory/pool.h"

/* cuMemFreeAsync and cuMemPoolDestroy for an imported pool. Locked. */
CUresult sim_pool_share_free(struct sim_block *block, struct sim_stream *stream);
CUresult sim_pool_share_destroy(struct sim_pool *pool);

#endif
