/* order.h -- the order tests: actors that fill blocks, hand them round and look at them.
 *
 * An actor is a thread's worth of work: it has streams (lanes), live blocks and a seed. At
 * each step it allocates a block and fills it with a tag of its own, or has the device
 * look whether the tag is still in each word and frees it at once behind that look; or it
 * does what the scenario adds: another stream, a destroyed stream, a capture, a trim.
 * Nothing waits for the device unless a scenario says so, so a block that is handed out
 * too early has its tag overwritten.
 *
 * In the stand-in's seeded mode one thread plays all actors in turn, so that a seed is a
 * run; else each has a thread. The stand-in's race finder is on in both.
 */
#ifndef ORDER_H
#define ORDER_H

#include "device.h"
#include <pthread.h>
#include <stdatomic.h>

/* Print, and end the process with 1. Any thread. */
void order_fail(const char *format, ...) TARN_PRINTF(1, 2) __attribute__((noreturn));

/* What a scenario is made of; the shares are out of 1,000 steps. */
struct scenario {
    const char *name;
    unsigned actors, streams; /* lanes of each actor */
    size_t live_bytes;        /* what an actor holds at most */
    size_t largest;           /* block; most are far smaller */
    size_t smallest;          /* block; 0: 4 bytes. Over 64 KiB no magazine has them */
    tarn_pool_options pool;   /* .size is filled in */
    const char *faults; /* calls that the stand-in lets fail, which is no harm; or NULL */
    bool fault_once;    /* the n-th of them alone, n from the seed */
    const char *needs;  /* a statistic that may not be 0 at the end; NULL */
    unsigned drop;      /* free all, and change from small blocks to large or back */
    unsigned move;      /* free a block on another lane, behind an event */
    unsigned transfer;  /* give a block to another actor, behind an event */
    unsigned renew;     /* destroy a stream while it is busy, and make one */
    unsigned reregister; /* close an opened stream while it is busy */
    unsigned wait;       /* for all that a lane has queued */
    unsigned delay_most; /* microseconds; 0: 200 */
    unsigned delay;      /* a lane, by some microseconds */
    unsigned beside;     /* begin or end a capture on a stream of the actor's own */
    unsigned capture;    /* capture what uses the pool, launch it, let it go */
    unsigned trim;       /* give memory back, or change the limit */
    bool shared;         /* the lanes are the same for all actors */
    bool registered;     /* the lanes are opened streams */
    bool per_thread;     /* the lane is the per-thread stream, of threads that end */
    unsigned no_stream;  /* of 1,000 calls so many name no stream */
    bool blocking;       /* every other lane is a blocking stream */
    bool legacy;         /* the first lane is the legacy stream, which all actors share */
    bool from_traces;    /* sizes are those of three programs; else from a wide draw */
    bool beside_announced; /* captures beside are announced */
};
extern const struct scenario scenarios[];
extern const size_t scenario_count;

struct block {
    tarn_device_ptr address;
    size_t bytes;
    unsigned tag;         /* in each of its words */
    unsigned test_stream; /* whose order it is in */
    event filled; /* behind its owner's work: on its way to another actor; else NULL */
};

struct test_stream {
    tarn_stream raw;
    tarn_stream stream; /* what Tarn is given: the same, or opened */
};

/* A look at a block that is queued: the bytes will be here when the event is done. */
struct check {
    event event;
    unsigned *copy;
    size_t bytes; /* of the ring that are in use by it */
    struct block block;
};

enum {
    STREAMS_MAX = 4,
    BLOCKS_MAX = 4096,
    CHECKS_MAX = 128,
    INBOX_MAX = 64,
    GRAPH_BLOCKS = 4
};

/* Looks in the order of their coming, in a ring of pinned memory. */
struct checks {
    struct check all[CHECKS_MAX];
    unsigned first, count;
    unsigned char *ring;
    size_t capacity, head, used;
    unsigned *report; /* of the kernels */
};

/* A graph that uses the pool's memory: captured in one step, launched in a later one. */
struct work_graph {
    graph_exec exec; /* NULL: there is none */
    tarn_pool_capture *memory;
    unsigned tags[GRAPH_BLOCKS], count;
    unsigned *copies; /* GRAPH_BYTES of pinned memory for each */
};

struct actor {
    struct order *order;
    unsigned index;
    uint64_t random;
    pthread_t thread;
    struct test_stream streams[STREAMS_MAX];
    struct block live[BLOCKS_MAX];
    unsigned live_count;
    size_t live_bytes;
    bool large; /* blocks of the large kind at the moment */
    struct checks checks;
    struct work_graph graph;
    struct test_stream captured;   /* the stream for graphs; made when it is needed */
    tarn_stream beside;            /* the stream of captures that go on beside */
    tarn_stream beside_registered; /* its value, or NULL */
    bool beside_captures;
    unsigned beside_number; /* which mode is next */
    tarn_device_ptr scratch;

    pthread_mutex_t lock; /* guards the mail: blocks that others gave to this one */
    struct block inbox[INBOX_MAX];
    unsigned inbox_count;
};

struct order {
    const struct scenario *scenario;
    tarn_resource *resource;
    bool is_pool;
    uint64_t seed;
    struct actor *actors;
    unsigned long target;      /* so many reuses */
    unsigned long steps_limit; /* at most, of each actor */
    atomic_ulong reuses, allocations, failed_allocations, steps;
    atomic_uint tags;
    atomic_uint_fast64_t *seen; /* a bit for addresses that were handed out */
};

/* Play a scenario with one seed; `options` are those of the stand-in. */
struct played {
    unsigned long reuses, allocations, failed_allocations;
    tarn_pool_statistics statistics;
};
/* A resource for a scenario: what is under test. */
tarn_resource *order_resource(const struct scenario *scenario, bool *is_pool_out);

void actor_begin(struct actor *actor);
void actor_step(struct actor *actor);
void actor_end(struct actor *actor); /* everything freed and looked at */

/* --- live_blocks.c: a block is out, and no longer -------------------------------------- */
void live_blocks_add(tarn_device_ptr address, size_t bytes, tarn_stream stream);
void live_blocks_remove(tarn_device_ptr address, tarn_stream stream);
/* Print who had these addresses last, before a failure is told. */
void live_blocks_print_history(tarn_device_ptr address, size_t bytes);

/* --- checks.c ------------------------------------------------------------------------- */
void checks_begin(struct checks *checks, size_t capacity);
/* Queue a look at `block` on `stream`. */
void checks_queue(struct checks *checks, const struct block *block, void *stream);
/* Wait for all of them; fails where a word is another. */
void checks_finish(struct checks *checks);
void checks_end(struct checks *checks);

/* --- capture.c ------------------------------------------------------------------------ */
void capture_beside(struct actor *actor);
void capture_beside_end(struct actor *actor);
void capture_beside_forget(struct actor *actor);
void capture_pool_work(struct actor *actor);
void capture_pool_work_end(struct actor *actor);

/* --- for capture.c --------------------------------------------------------------------- */
unsigned order_tag(struct order *order);
/* Draw from the actor's seed. */
uint64_t actor_draw(struct actor *actor, uint64_t limit);
/* What a call on a lane names: its stream, or none. */
tarn_stream actor_stream(struct actor *actor, const struct test_stream *test_stream);
void test_stream_create(struct actor *actor, struct test_stream *test_stream,
                        bool registered);
void test_stream_destroy(struct test_stream *test_stream);
/* Allocate; false where there is no memory. */
bool order_allocate(struct order *order, size_t bytes, size_t alignment,
                    tarn_stream stream, tarn_device_ptr *out);
void order_free(struct order *order, tarn_device_ptr block, size_t bytes,
                size_t alignment, tarn_stream stream);

#endif
