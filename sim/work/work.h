/* work.h -- the scheduler: queueing work, running it, and waiting for it. */
#ifndef TARN_SIM_WORK_H
#define TARN_SIM_WORK_H

#include "sim/work/op.h"
#include "sim/work/stream.h"

/* Queue `op`, with the dependencies that the default stream's rules add. If that fails,
 * `failed` is called and the operation dropped. Locked, as are all functions here. */
CUresult sim_work_queue(struct sim_stream *stream, struct sim_op *op);

/* Queue `op`, wait for its turn and run it in this thread. Releases the lock meanwhile.
 */
CUresult sim_work_do(struct sim_stream *stream, struct sim_op *op);

/* Let queued work continue as far as it is due: in the host's call number `number`; in a
 * query that finds unfinished work. For the seeded mode; in the eager mode nothing
 * happens. They release the lock meanwhile. */
void sim_work_tick(uint64_t number);
void sim_work_poll(void);

/* In the seeded mode, run the next operation. False: there is none, or threads run it.
 * Releases the lock meanwhile. */
bool sim_work_step(void);

/* Return true if there is a worker thread. Then queueing on an internal stream cannot
 * fail. */
bool sim_work_ready(void);

/* Wait until `stream` has done `until` operations; until all that is now queued in
 * `context`, on `device`, or anywhere, is complete. They release the lock meanwhile. */
void sim_work_wait(struct sim_stream *stream, uint64_t until);
void sim_work_wait_context(struct sim_context *context);
void sim_work_wait_device(CUdevice device);
void sim_work_wait_all(void);

/* In the eager mode, wait until the threads have done all work that is ready and does not
 * block. The lock is released meanwhile. */
void sim_work_settle(void);

/* Return true if no stream of the device has unfinished work. */
bool sim_work_is_idle(CUdevice device);

#endif
