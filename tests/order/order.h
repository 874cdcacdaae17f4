/* order.h -- the order tests: actors that fill blocks, pass them on and check them.
 *
 * An actor is the work of one thread: it has streams, live blocks and a seed. At each
 * step it allocates a block and fills it with a tag of its own. Or it has the device
 * check that the tag is still in each word, and frees the block at once behind that
 * check. Or it runs an action of the scenario: another stream, a destroyed stream, a
 * capture, a trim. No step waits for the device unless the scenario requires it, so a
 * block that is reused too early has its tag overwritten.
 *
 * In the simulator's seeded mode one thread runs all actors in turn, so that a seed is a
 * run; else each has a thread. The simulator's race finder is on in both.
 */
#ifndef ORDER_H
#define ORDER_H

#include "device.h"
#include <pthread.h>
#include <stdatomic.h>

/* Print, and end the process with 1. Any thread. */
void order_fail(const char *format, ...) TARN_PRINTF(1, 2) __attribute__((noreturn));

/* The settings of a scenario; the shares are out of 1,000 steps. */
struct scenario {
    const char *name;
    unsigned actors, streams; /* streams of each actor */
    size_t live_bytes;        /* maximum live bytes of an actor */
    size_t largest;           /* block; most are far smaller */
    size_t smallest;          /* block; 0: 4 bytes. Thread caches hold up to 64 KiB */
    tarn_pool_options pool;   /* .size is filled in */
    const char *faults; /* calls that the simulator may let fail, without harm; or NULL */
    bool fault_once;    /* only the n-th of them, n from the seed */
    const char *needs;  /* a statistic that must not be 0 at the end; NULL */
    unsigned
        temporaries;     /* allocate blocks of one size, each freed before the next one */
    unsigned drop;       /* free all, and change from small blocks to large or back */
    unsigned move;       /* free a block on another stream, behind an event */
    unsigned transfer;   /* pass a block to another actor, behind an event */
    unsigned renew;      /* destroy a stream while it is busy, and create one */
    unsigned reregister; /* unregister a registered stream while it is busy */
    unsigned wait;       /* for all queued work of a stream */
    unsigned delay_most; /* microseconds; 0: 200 */
    unsigned delay;      /* a stream, by some microseconds */
    unsigned beside;     /* begin or end a capture on a stream of the actor's own */
    unsigned capture;    /* capture work that uses the pool, launch it, release it */
    unsigned trim;       /* return memory, or change the maximum */
    /* steps of other actors while the pool has released its lock in a growth, out of
     * 1,000 times; with libtarn_mutated in seeded mode */
    unsigned interrupt;
    bool shared;           /* the streams are the same for all actors */
    bool registered;       /* the streams are registered */
    bool per_thread;       /* the stream is the per-thread stream, of threads that end */
    unsigned no_stream;    /* this many of 1,000 calls are no-stream calls */
    bool blocking;         /* every other stream is a blocking stream */
    bool legacy;           /* the first stream is the shared legacy stream */
    bool from_traces;      /* sizes are those of three programs; else from a wide range */
    bool beside_announced; /* captures beside are announced */
    bool
        joins; /* streams join captures without an announcement; their blocks are large */
};
extern const struct scenario scenarios[];
extern const size_t scenario_count;

struct block {
    tarn_device_ptr address;
    size_t bytes;
    unsigned tag;         /* in each of its words */
    unsigned test_stream; /* the stream that orders its use */
    event filled; /* behind its owner's work: on its way to another actor; else NULL */
};

struct test_stream {
    tarn_stream raw;
    tarn_stream stream; /* the stream passed to Tarn: the same, or registered */
};

/* A queued check of a block: the bytes are here when the event is done. */
struct check {
    event event;
    unsigned *copy;
    size_t bytes; /* bytes of the ring that it uses */
    struct block block;
};

enum {
    STREAMS_MAX = 4,
    BLOCKS_MAX = 4096,
    CHECKS_MAX = 128,
    INBOX_MAX = 64,
    GRAPH_BLOCKS = 4
};

/* Checks in the order of their arrival, in a ring of pinned memory. */
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
    bool large;     /* blocks of the large kind at the moment */
    unsigned turns; /* since the last restart */
    unsigned restarts;
    unsigned divisor; /* of the sizes */
    struct checks checks;
    struct work_graph graph;
    struct test_stream captured;   /* the stream for graphs; created when it is needed */
    tarn_stream beside;            /* the stream of concurrent captures */
    tarn_stream beside_registered; /* its value, or NULL */
    bool beside_captures;
    unsigned beside_number; /* the next mode */
    tarn_device_ptr scratch;

    pthread_mutex_t lock; /* guards the mail: blocks that others passed to this one */
    struct block inbox[INBOX_MAX];
    unsigned inbox_count;
};

struct order {
    const struct scenario *scenario;
    tarn_resource *resource;
    bool is_pool;
    uint64_t seed;
    struct actor *actors;
    unsigned long target;      /* this many reuses */
    unsigned long steps_limit; /* at most, of each actor */
    atomic_ulong reuses, allocations, failed_allocations, steps;
    atomic_uint tags;
    atomic_uint_fast64_t *seen; /* a bit for addresses that were allocated before */
};

/* What a scenario did, with one seed or in all. */
struct played {
    unsigned long reuses, allocations, failed_allocations;
    tarn_pool_statistics statistics;
};

/* Create the resource of a scenario: the tested one. */
tarn_resource *order_resource(const struct scenario *scenario, bool *is_pool_out);

void actor_begin(struct actor *actor);
void actor_step(struct actor *actor);
/* Free all live blocks and begin the draws again: the next steps are the first ones. */
void actor_restart(struct actor *actor);
void actor_end(struct actor *actor); /* everything freed and checked */

/* --- live_blocks.c: a block becomes live, and is freed --------------------------------- */
void live_blocks_add(tarn_device_ptr address, size_t bytes, tarn_stream stream);
void live_blocks_remove(tarn_device_ptr address, tarn_stream stream);
/* Note that a live block is filled with its tag: by work on a raw stream, or by a graph that
 * captures it. */
void live_blocks_note_fill(const struct block *block, tarn_stream stream, bool by_graph);
/* Print the last owners of these addresses, before a failure is reported. */
void live_blocks_print_history(tarn_device_ptr address, size_t bytes);

/* --- checks.c ------------------------------------------------------------------------- */
void checks_begin(struct checks *checks, size_t capacity);
/* Queue a check of `block` on `stream`. */
void checks_queue(struct checks *checks, const struct block *block, void *stream);
/* Wait for all checks; fail if a word is wrong. */
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
/* The argument of a call on a stream: the stream, or none. */
tarn_stream actor_stream(struct actor *actor, const struct test_stream *test_stream);
void test_stream_create(struct actor *actor, struct test_stream *test_stream,
                        bool registered);
void test_stream_destroy(struct test_stream *test_stream);
/* Allocate; false if memory is unavailable. */
bool order_allocate(struct order *order, size_t bytes, size_t alignment,
                    tarn_stream stream, tarn_device_ptr *out);
void order_free(struct order *order, tarn_device_ptr block, size_t bytes,
                size_t alignment, tarn_stream stream);
/* Queue a fill of the first bytes of a block with its tag, and note it. `by_graph`: a
 * capture gets that work. */
void order_fill(const struct block *block, size_t bytes, tarn_stream raw, bool by_graph);

#endif
