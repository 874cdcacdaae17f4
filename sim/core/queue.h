/* queue.h -- the structs of streams and operations.
 *
 * A stream is a queue of operations that run in order. An operation may depend on others
 * as well: a dependency names a stream and how many of its operations must be complete.
 * The legacy default stream and its barriers, events and waits all consist of
 * dependencies. work/ has the functions; the race finder uses the structs alone.
 *
 * `run` does the work without the lock. `finish` cleans up under the lock. An operation
 * without `run` takes no time and no thread: it completes at its turn.
 */
#ifndef TARN_SIM_QUEUE_H
#define TARN_SIM_QUEUE_H

#include "sim/core/context.h"
#include "sim/core/seeded.h"
#include <stdbool.h>

struct sim_clock;
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
    bool is_in_check_list; /* in the check list of work.c */
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

enum { SIM_PRIORITY_LEAST = 0, SIM_PRIORITY_GREATEST = -5 };

/* Called under the lock before and after the work of an operation. */
struct sim_op_check {
    bool (*enter)(void *data); /* false: it must not run */
    void (*leave)(void *data);
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
    /* called instead of both if it cannot be queued; may be NULL */
    void (*failed)(void *data);
    /* reports its reads and writes to races/; such an operation never blocks */
    void (*touch)(const void *data, struct sim_timeline *timeline);
    const struct sim_op_check *check; /* around `run`; or NULL */
    struct sim_clock *clock;          /* what it comes after, for races.h */
    _Alignas(16) char data[];
};

/* A dependency of an operation, in the list of the stream that it waits for. */
struct sim_waiter {
    struct sim_waiter *next;
    uint64_t until; /* of the stream's `done` */
    struct sim_op *op;
};

#endif
