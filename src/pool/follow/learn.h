/* learn.h -- plans that a pool makes of the marked steps of its program.
 *
 * The shape of a step is the sequence of its sizes, streams and threads. A hash of that is
 * its signature. A step whose signature was seen before is laid out (planner.h), and the
 * pool follows the plan in later steps of this shape.
 *
 * A mark does not tell the shape of the step that begins. The pool follows the shape of
 * the last one. The first allocations decide: hashes of their beginnings are compared. So
 * a step follows another plan, or is recorded, from the first allocation on that differs.
 * A step that is recorded borrows a plan: it uses addresses of the shape that requests the
 * most bytes, where its blocks are smaller.
 *
 * A step may begin as a shape, and go on as other work. Then the pool leaves the plan for the rest
 * of the step.
 *
 * A plan is not to make a pool reserve more than it did without one. A plan from which that
 * is to be expected is not followed. One that does it is dropped, and its shape gets no other.
 *
 * Learning ends where it is in vain: after TARN__LEARN_UNREPEATED steps in a row of which
 * none got or borrowed a plan, after TARN__LEARN_FAILURES plans that were not made or
 * did not pay, or after TARN__LEARN_OVER steps in a row without a plan that had the pool
 * reserve more than it did before. It also ends if it takes too many driver calls (cost.h).
 * Then the pool is one without a plan.
 *
 * The pool's lock guards all of it, but a planner at work.
 */
#ifndef TARN_POOL_LEARN_H
#define TARN_POOL_LEARN_H

#include "pool/follow/cost.h"
#include "pool/follow/detect.h"
#include "pool/follow/planner.h"
#include "pool/follow/record.h"
#include "pool/follow/state.h"

enum {
    TARN__LEARN_SHAPES = 8,
    TARN__LEARN_JOBS = 4,    /* steps that are planned, or wait for that */
    TARN__LEARN_PREFIX = 32, /* first allocations, which decide about the shape */
    TARN__LEARN_RECENT = 32, /* signatures of steps without a plan */
    TARN__LEARN_WORSE = 32,  /* signatures of shapes whose plan was worse than none */
    TARN__LEARN_SETTLED = 8, /* marks after a new plan, without another one */
    TARN__LEARN_UNREPEATED = 64,
    TARN__LEARN_FAILURES = 3,
    TARN__LEARN_OVER = 2 /* steps in a row above tarn__learn_most_reserved() */
};

struct tarn__learn_shape {
    uint64_t signature;
    uint64_t quanta;                         /* of all requests */
    uint64_t beginnings[TARN__LEARN_PREFIX]; /* [i]: hash of i + 1 allocations */
    uint32_t count;                          /* of these */
    struct tarn__sequences *sequences;       /* NULL: this shape is unused */
};

/* A step to be planned. */
struct tarn__learn_job {
    struct tarn__planner *planner; /* NULL: a caller has taken it */
    struct tarn__learn_shape shape;
    bool is_taken;    /* a caller starts it, or has done so */
    bool has_started; /* and is done with that */
};

/* One of the first allocations of the present step. */
struct tarn__learn_request {
    uint64_t thread, key;
    uint32_t quanta;
};

/* What each allocation uses comes first, on one cache line. */
struct tarn__learn {
    /* from the first mark on, until learning ends */
    _Alignas(TARN__CACHE_LINE) bool is_on;
    /* this step in full: its shape is not decided, or it has no plan */
    bool is_recording;
    bool is_ambiguous; /* several shapes begin as this step does */
    struct tarn__record record;
    struct tarn__detect detect; /* steps that the program does not mark */
    uint32_t allocations;       /* of this step, while it is recorded */
    struct tarn__learn_shape
        present; /* of this step; its signature is of what was so far */
    struct tarn__learn_request requests[TARN__LEARN_PREFIX];

    struct tarn__learn_shape shapes[TARN__LEARN_SHAPES];
    struct tarn__learn_shape *active; /* that is followed; NULL: none */
    struct tarn__learn_shape *guess;  /* the last one that was followed */
    uint64_t recent[TARN__LEARN_RECENT];
    unsigned recent_count; /* signatures that were entered */
    uint64_t worse[TARN__LEARN_WORSE];
    /* most bytes, of all steps that were recorded without a plan */
    uint64_t plain_allocated, plain_reserved;
    /* since the last mark a step needed too much memory, the layouts moved, or learning ended
     * while most memory was free */
    bool is_trim_due;
    unsigned marks_to_trim; /* until free memory is to be returned; 0: it is not */
    unsigned settled;       /* how often that was doubled */

    struct tarn__learn_job jobs[TARN__LEARN_JOBS]; /* the first one is at work */
    unsigned job_count;
    unsigned unrepeated, failures;
    unsigned unlike; /* steps in a row for which the borrowed plan did not pay */
    unsigned over;   /* steps without a plan in a row; see TARN__LEARN_OVER */
    struct tarn__cost cost;
    bool has_enlarged; /* a mark has returned free memory, for large handles */
    bool has_borrowed; /* a plan that paid, for this step */
    struct {
        uint64_t steps, plans, worse;
    } counts;
};

/* Have a pool learn; no thread uses it yet. Returns false without host memory. */
bool tarn__learn_open(struct tarn__pool *pool);
/* Free it, and wait for the planner; no thread uses the pool any more. */
void tarn__learn_free(struct tarn__pool *pool);
/* Return the bytes of host memory. */
size_t tarn__learn_metadata(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* Return true if thread caches are to keep no blocks: frees are recorded, or steps looked
 * for. */
bool tarn__learn_is_on(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* Return true if the pool learns, and looks for steps, which the program does not mark. */
bool tarn__learn_detects(const struct tarn__pool *pool);
/* Return true if it has to see each request: it records the step, or looks for steps. */
bool tarn__learn_sees_requests(const struct tarn__pool *pool);

/* Look for steps: note a request, before it is served. Returns true if a step begins with
 * it, which the caller marks. */
bool tarn__learn_detect(struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Note a request of the calling thread. Returns true if the step uses another plan from now
 * on, in which its earlier requests have slots, too. */
bool tarn__learn_note_request(struct tarn__pool *pool, uint64_t key, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Follow no plan for the rest of the step, which has become other work. */
void tarn__learn_leave(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Note that it got this block, which is in transit. */
void tarn__learn_note_block(struct tarn__pool *pool, tarn__index index, uint64_t key)
    TARN__REQUIRES(pool_lock);
/* Note that the thread cache served `count` requests of a stream with this block, of which
 * all but the last have ended. */
void tarn__learn_note_repeats(struct tarn__pool *pool, tarn__index index, uint64_t key,
                              uint64_t count) TARN__REQUIRES(pool_lock);
/* Note the free of a block. */
void tarn__learn_note_free(struct tarn__pool *pool, tarn__index index, uint64_t key)
    TARN__REQUIRES(pool_lock);

/* Note the end of a step that borrowed a plan. `has_paid`: 90 % of its bytes had addresses of
 * that. */
void tarn__learn_note_borrowed(struct tarn__pool *pool, bool has_paid)
    TARN__REQUIRES(pool_lock);

/* Return the most bytes that a plan may have a pool reserve whose live bytes reach
 * `allocated`: what it reserved without one, and 2 % and 16 MiB more. */
uint64_t tarn__learn_most_reserved(const struct tarn__learn *learn, uint64_t allocated);
/* The plan that is followed does not pay. If blocks that are not planned have its addresses,
 * all layouts go elsewhere; else forget it. `is_worse`: it has the pool reserve more than
 * tarn__learn_most_reserved(). Returns false if learning ends. */
bool tarn__learn_drop(struct tarn__pool *pool, bool is_worse) TARN__REQUIRES(pool_lock);
/* Forget the plan that is followed, and make no other one of its shape: steps begin as it does,
 * and go on otherwise. */
void tarn__learn_give_up(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Return true if the mark that calls this is to return free memory: a new plan has other
 * addresses, a step needed too much memory, or learning has ended. The pool returns it for
 * the first plan at once. For later ones it does so when no further plan has come for
 * TARN__LEARN_SETTLED marks: most memory is at addresses of plans by then. The number of
 * marks doubles each time, since some programs get new plans all the time. */
bool tarn__learn_is_trim_due(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* Return the planner if it has done its work: the caller finishes it, without a lock. */
struct tarn__planner *tarn__learn_take_done(struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Enter its result; NULL: no plan was made. */
void tarn__learn_enter(struct tarn__pool *pool, struct tarn__sequences *sequences)
    TARN__REQUIRES(pool_lock);
/* End a step, and begin the next one. Returns a planner that the caller starts without a
 * lock; NULL: there is nothing to plan, or a planner is at work. */
struct tarn__planner *tarn__learn_mark(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Note that the planner was started, or that it could not be: then the caller frees it. */
void tarn__learn_started(struct tarn__pool *pool, bool has_thread)
    TARN__REQUIRES(pool_lock);

#endif
