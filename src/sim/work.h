/* work.h -- queues of work and the threads that run them.
 *
 * A stream is a queue of operations, done in order. An operation may have to wait for
 * others as well: a dependency names a stream and how many of its operations must be
 * done. The legacy default stream and its barriers, events and waits are all made of
 * those.
 *
 * `run` does the work, without the lock; `finish` tidies up, with it. An operation
 * without `run` takes no time and no thread: it is done as soon as it is its turn.
 */
#ifndef TARN_SIM_WORK_H
#define TARN_SIM_WORK_H

#include "sim/context.h"
#include "sim/seeded.h"
#include <stdbool.h>

struct sim_clock;
struct sim_guard;
struct sim_lane;
struct sim_member;
struct sim_waiter;

/* A stream comes after the first `until` operations of the stream of that id. */
struct sim_order {
    uint64_t stream, until;
};
enum { SIM_ORDERS = 8 };

struct sim_stream {
    CUstream handle; /* NULL for default and internal streams */
    uint64_t id;     /* never given twice */
    struct sim_context *context;
    uint64_t life; /* the context's id when this was made: another now means it is dead */
    unsigned flags;
    int priority;
    unsigned references; /* the handle, each queued operation, each event recorded here */
    bool is_internal;    /* never waits for the default stream, nor it for this */
    bool is_attended;    /* in the list of streams to look at */
    uint64_t queued;     /* operations ever queued, */
    uint64_t done;       /* and done */
    struct sim_op *first;
    struct sim_op *last;
    struct sim_order orders[SIM_ORDERS]; /* by its last waits for events, in a ring: pools
                                            reuse memory by them */
    unsigned next_order;
    struct sim_waiter *waiters; /* operations of others that wait for this stream */
    struct sim_member *member;  /* its part in a capture; NULL: it does not capture */
    struct sim_stream *next, *previous; /* in the context's list of busy streams */
    struct sim_stream *next_attended;
    struct sim_stream *next_ready;     /* in the workers' queue */
    struct sim_stream *next_of_thread; /* per-thread default streams of one thread */
    struct sim_turn turn;              /* in the seeded mode */
    struct sim_lane *lane;             /* where races are looked for, or NULL */
};

struct sim_op {
    struct sim_op *next; /* in its stream */
    struct sim_op *next_in_context, *previous_in_context;
    struct sim_stream *stream; /* counted */
    uint64_t ticket;           /* grows with every operation of the process */
    unsigned pending;          /* dependencies not met yet */
    bool is_dropped;           /* never queued; goes when `pending` is 0 */
    bool is_started;
    bool is_callers; /* the thread that queued it runs it, */
    bool is_turn;    /* and may do so now */
    void (*run)(void *data);
    void (*finish)(void *data);
    void (*failed)(
        void *data); /* instead of both, where it cannot be queued; may be NULL */
    void (*touch)(const void *data,
                  struct sim_lane *lane); /* tells races.h what memory it reads and
                                             writes; such an operation does not block */
    struct sim_guard *guard; /* in `data`: may it be done? (vmm.h); or NULL */
    struct sim_clock *clock; /* what it comes after, for races.h */
    _Alignas(16) char data[];
};

/* What an operation waits for, in the list of the stream that must come there. */
struct sim_waiter {
    struct sim_waiter *next;
    uint64_t until; /* of the stream's `done` */
    struct sim_op *op;
};

/* A new operation with `bytes` of data behind it, zeroed; NULL: no host memory. */
struct sim_op *sim_op_new(size_t bytes, void (*run)(void *), void (*finish)(void *));

/* Make `op`, not queued yet, wait until `stream` has done `until` operations. False: no
 * host memory; then drop the operation. Locked, as all that follows. */
bool sim_op_after(struct sim_op *op, struct sim_stream *stream, uint64_t until);
void sim_op_drop(struct sim_op *op);

/* Queue `op`, with what the rules of the default stream make it wait for. Where that
 * fails it is dropped after `failed`. */
CUresult sim_work_queue(struct sim_stream *stream, struct sim_op *op);

/* Queue `op`, wait for its turn and run it in this thread. Gives the lock back meanwhile.
 */
CUresult sim_work_do(struct sim_stream *stream, struct sim_op *op);

/* Let queued work go on as far as it has come to be due: in the host's `number`-th call;
 * in a call that asks whether something is done, and finds that it is not. For the seeded mode; in the eager one
 * nothing happens. They give the lock back meanwhile. */
void sim_work_tick(uint64_t number);
void sim_work_poll(void);

/* In the seeded mode: do what is next. False: there is nothing, or threads do it. Gives
 * the lock back meanwhile. */
bool sim_work_step(void);

/* Is there a thread for work? Where there is, queueing on an internal stream cannot fail.
 */
bool sim_work_ready(void);

/* Wait until `stream` has done `until` operations; until all that is queued now in
 * `context`, on `device`, or anywhere, is done. They give the lock back meanwhile. */
void sim_work_wait(struct sim_stream *stream, uint64_t until);
void sim_work_wait_context(struct sim_context *context);
void sim_work_wait_device(CUdevice device);
void sim_work_wait_all(void);

/* A stream of `context`, one reference; NULL: no host memory. */
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags);
void sim_stream_retain(struct sim_stream *stream);
void sim_stream_release(struct sim_stream *stream);

/* Is its context still as it was when the stream was made? */
bool sim_stream_is_alive(const struct sim_stream *stream);

enum { SIM_PRIORITY_LEAST = 0, SIM_PRIORITY_GREATEST = -5 };

#endif
