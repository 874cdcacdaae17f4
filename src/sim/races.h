/* races.h -- finds operations on the same bytes that nothing orders.
 *
 * A race detector for streams. Each stream is a lane of time; what is queued comes after
 * what is in the same stream, what its waits and the rules of the default stream say, and
 * what the host had waited for. All of that is known when an operation is queued, so the
 * check is done then: it does not depend on when the operation runs. For every byte of
 * memory that the driver knows it is kept who wrote it last and who has read it since.
 *
 * The host counts as one: threads of the client are taken to order their own calls.
 * Off, nothing is kept, and every function here returns at once. All under the lock.
 */
#ifndef TARN_SIM_RACES_H
#define TARN_SIM_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_clock;
struct sim_context;
struct sim_lane;
struct sim_op;
struct sim_stream;

/* A point in a stream, and all that lies before it. Zeroed: before everything. */
struct sim_point {
    struct sim_lane *lane;
    uint64_t time;
    struct sim_clock *clock; /* counted */
};

/* On or off; nothing that was queued before is known any more. */
void sim_races_start(bool on);

/* `op` is about to be queued on `stream`: order it, and check what it touches. */
void sim_races_queue(struct sim_stream *stream, struct sim_op *op);

/* `op`, not queued yet, is to wait until `stream` has done `until`: for all of it that is
 * queued now. An older point is ordered by sim_races_order. */
void sim_races_after(struct sim_op *op, struct sim_stream *stream, uint64_t until);
void sim_races_drop(struct sim_op *op);

/* `stream` is going away. */
void sim_races_end_stream(struct sim_stream *stream);

/* Points: where `stream` is now; what is queued on `stream` comes after `point`. */
void sim_point_take(struct sim_point *point, struct sim_stream *stream);
void sim_point_drop(struct sim_point *point);
void sim_races_order(struct sim_stream *stream, const struct sim_point *point);

/* What is queued on `fence` comes after all of its context. */
void sim_races_order_context(struct sim_stream *fence);

/* The host waits, so that all it queues afterwards comes later: for what is queued on
 * `stream`, for a point, for a context. */
void sim_races_host_waits(struct sim_stream *stream);
void sim_races_host_waits_for(const struct sim_point *point);
void sim_races_host_waits_for_context(const struct sim_context *context);

/* The operation that is being queued in `lane` reads or writes these bytes. */
void sim_races_touch(struct sim_lane *lane, uintptr_t start, size_t bytes, bool is_write);

/* The host frees these bytes: they must be out of all hands; then they are nobody's. */
void sim_races_touch_by_host(uintptr_t start, size_t bytes);

/* These bytes are new: to everybody; from a point of `stream` on. */
void sim_races_forget(uintptr_t start, size_t bytes);
void sim_races_hand_out(struct sim_stream *stream, uintptr_t start, size_t bytes);

#endif
