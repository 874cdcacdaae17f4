/* work.h -- queues of work and the threads that run them.
 *
 * A stream is a queue of operations that run in order. An operation may depend on others
 * as well: a dependency names a stream and how many of its operations must be complete.
 * The legacy default stream and its barriers, events and waits all consist of
 * dependencies.
 *
 * `run` does the work without the lock. `finish` cleans up under the lock. An operation
 * without `run` takes no time and no thread: it completes at its turn.
 */
#ifndef TARN_SIM_WORK_H
#define TARN_SIM_WORK_H

#include "sim/core/context.h"
#include "sim/core/seeded.h"
#include <stdbool.h>

struct sim_clock;
struct sim_guard;
struct sim_timeline;
struct sim_member;
struct sim_waiter;

/* The stream comes after the first `until` operations of the stream with that id. */
struct sim_order {
    uint64_t stream, until;
};
enum { SIM_ORDERS = 8 };

struct sim_stream {
    CUstream handle; /* NULL for default and internal streams */
    uint64_t id;     /* never reused */
    struct sim_context *context;
    /* the context's id at creation; if it differs now, the stream is dead */
    uint64_t context_generation;
    unsigned flags;
    int priority;
    unsigned references; /* the handle, each queued operation, each event recorded here */
    bool is_internal;    /* never ordered with the default stream */
    bool is_in_check_list; /* in the list `attended` of work.c */
    uint64_t queued;       /* operations ever queued, */
    uint64_t done;         /* and complete */
    struct sim_op *first;
    struct sim_op *last;
    /* by its last waits for events, in a ring: driver pools reuse memory by them */
    struct sim_order orders[SIM_ORDERS];
    unsigned next_order;
    struct sim_waiter *waiters; /* operations of other streams that wait for this one */
    struct sim_member *member;  /* its part in a capture; NULL: not capturing */
    struct sim_stream *next, *previous; /* in the context's list of busy streams */
    struct sim_stream *next_to_check;
    struct sim_stream *next_ready;     /* in the workers' queue */
    struct sim_stream *next_of_thread; /* per-thread default streams of one thread */
    struct sim_turn turn;              /* in the seeded mode */
    struct sim_timeline *timeline;     /* its state in the race detector, or NULL */
};

struct sim_op {
    struct sim_op *next; /* in its stream */
    struct sim_op *next_in_context, *previous_in_context;
    struct sim_stream *stream; /* counted */
    uint64_t sequence;         /* grows with every operation of the process */
    unsigned pending;          /* dependencies that are not met yet */
    bool is_dropped;           /* never queued; freed when `pending` is 0 */
    bool is_started;
    bool runs_in_caller; /* the thread that queued it runs it, */
    bool is_turn;        /* and may do so now */
    void (*run)(void *data);
    void (*finish)(void *data);
    void (*failed)(
        void *data); /* called instead of both if it cannot be queued; may be NULL */
    /* reports its reads and writes to races.h; such an operation never blocks */
    void (*touch)(const void *data, struct sim_timeline *timeline);
    struct sim_guard *guard; /* in `data`: checked before it runs (vmm.h); or NULL */
    struct sim_clock *clock; /* what it comes after, for races.h */
    _Alignas(16) char data[];
};

/* A dependency of an operation, in the list of the stream that it waits for. */
struct sim_waiter {
    struct sim_waiter *next;
    uint64_t until; /* of the stream's `done` */
    struct sim_op *op;
};

/* Create an operation with `bytes` of zeroed data after it. NULL: no host memory. */
struct sim_op *sim_op_new(size_t bytes, void (*run)(void *), void (*finish)(void *));

/* Make `op`, not queued yet, wait until `stream` has done `until` operations. False: no
 * host memory; then the caller drops the operation. Locked, as are all functions below.
 */
bool sim_op_after(struct sim_op *op, struct sim_stream *stream, uint64_t until);
void sim_op_drop(struct sim_op *op);

/* Queue `op`, with the dependencies that the default stream's rules add. If that fails,
 * `failed` is called and the operation dropped. */
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

/* Create a stream of `context` with one reference. NULL: no host memory. */
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags);
void sim_stream_retain(struct sim_stream *stream);
void sim_stream_release(struct sim_stream *stream);

/* Return true if its context has not been reset since the stream was created. */
bool sim_stream_is_alive(const struct sim_stream *stream);

enum { SIM_PRIORITY_LEAST = 0, SIM_PRIORITY_GREATEST = -5 };

#endif
