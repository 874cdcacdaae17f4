/* op.h -- operations: creation, dependencies, and dropping. */
#ifndef TARN_SIM_OP_H
#define TARN_SIM_OP_H

#include "sim/core/queue.h"

/* Create an operation with `bytes` of zeroed data after it. NULL: no host memory. */
struct sim_op *sim_op_new(size_t bytes, void (*run)(void *), void (*finish)(void *));

/* Make `op`, not queued yet, wait until `stream` has done `until` operations. False: no
 * host memory; then the caller drops the operation. Locked, as is sim_op_drop. */
bool sim_op_after(struct sim_op *op, struct sim_stream *stream, uint64_t until);
void sim_op_drop(struct sim_op *op);

#endif
