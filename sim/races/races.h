/* races.h -- finds operations on the same bytes that are not ordered.
 *
 * A race detector for streams. Each stream has a timeline: a sequence of times. An
 * operation comes after the earlier ones of its stream, after its waits, after the rules
 * of the default stream, and after what the host had waited for. All of that is known
 * when an operation is queued, so the check happens then: it does not depend on when the
 * operation runs. For every byte of memory that the driver knows, the detector keeps the
 * last writer and the readers since.
 *
 * The host counts as one: the client's threads are assumed to order their own calls.
 * When off, nothing is kept, and every function here returns immediately. All under the
 * lock.
 */
#ifndef TARN_SIM_RACES_H
#define TARN_SIM_RACES_H

#include "sim/races/timeline.h"

struct sim_op;
struct sim_stream;

/* Turn it on or off, and forget all that was queued before. */
void sim_races_start(bool on);

/* `op` is about to be queued on `stream`: order it, and check the memory that it
 * accesses. */
void sim_races_queue(struct sim_stream *stream, struct sim_op *op);

/* Order `op`, not queued yet, after the first `until` operations of `stream`, where
 * `until` is all that is queued now. sim_races_order orders an older point. */
void sim_races_after(struct sim_op *op, struct sim_stream *stream, uint64_t until);
void sim_races_drop(struct sim_op *op);

/* `stream` is being destroyed. */
void sim_races_end_stream(struct sim_stream *stream);

/* Get the current point of `stream`; order the next operations of `stream` after
 * `point`. */
void sim_races_get_point(struct sim_point *point, struct sim_stream *stream);
void sim_races_drop_point(struct sim_point *point);
void sim_races_order(struct sim_stream *stream, const struct sim_point *point);

/* Order the next operations of `record_stream` after all work of its context. */
void sim_races_order_context(struct sim_stream *record_stream);

/* The host waits, so that all it queues afterwards comes later: for the work of
 * `stream`, for a point, for a context. */
void sim_races_host_waits(struct sim_stream *stream);
void sim_races_host_waits_for(const struct sim_point *point);
void sim_races_host_waits_for_context(const struct sim_context *context);

/* The operation that is being queued in `timeline` reads or writes these bytes. */
void sim_races_touch(struct sim_timeline *timeline, uintptr_t start, size_t bytes,
                     bool is_write);

/* The host frees these bytes: all accesses must come before. Then they are forgotten. */
void sim_races_touch_by_host(uintptr_t start, size_t bytes);

/* Treat these bytes as new: for every stream; or from a point of `stream` on. */
void sim_races_forget(uintptr_t start, size_t bytes);
void sim_races_allocate(struct sim_stream *stream, uintptr_t start, size_t bytes);

#endif
