/* state.h -- what a pool knows about the plan that it follows. */
#ifndef TARN_POOL_FOLLOW_STATE_H
#define TARN_POOL_FOLLOW_STATE_H

#include "pool/follow/ordinals.h"
#include "pool/follow/sequences.h"
#include "pool/pool.h"

/* A step without a plan shares the area, but for requests below 1 MiB. A block that outlives
 * it, for example the tensor of its loss, would be in the way of the next step's plan. Small
 * blocks have room elsewhere. */
enum { TARN__STATE_SHARED_LEAST = (1 << 20) >> TARN__QUANTUM_SHIFT };

/* The figures of a step. Those that each allocation changes come first. */
struct tarn__follow_step {
    uint64_t allocations;
    uint64_t quanta, planned_quanta;
    uint64_t peak_allocated, peak_reserved;
    uint32_t unlike;         /* grows by requests that have no slot; see guard.c */
    uint64_t outside_quanta; /* of slots outside of the layout; no part of `quanta` */
    uint64_t blocked_quanta; /* missed: the addresses of each candidate were in use */
    uint64_t first_reserved; /* as it began */
};

/* What each allocation uses comes first, on two cache lines. */
struct tarn__follow {
    _Alignas(TARN__CACHE_LINE) bool is_on;
    /* It follows a plan, records steps or looks for them: allocations ask it. Read without
     * the lock, too. */
    atomic_bool is_asked;
    /* the program marks its steps; else a step has as many allocations as the plan */
    bool is_marked;
    /* the step borrows the plan (learn.h), and shares the area */
    bool is_borrowed;
    /* old addresses of moved memory could not be unmapped at the mark */
    atomic_bool has_retired;
    uint32_t last_slot;                /* of the sequences, that an allocation was */
    struct tarn__sequences *sequences; /* NULL: there is none to follow at present */
    struct tarn__learn *learn; /* NULL: the plan is given, and `sequences` owned */
    /* changes whenever a thread and a stream may get another sequence; from 1 */
    uint64_t version;
    struct {
        uint64_t planned, missed, resynchronized, steps;
    } counts;
    struct tarn__follow_step step;
    struct tarn__ordinals threads, streams;
    uint32_t price; /* quanta; in the plan a smaller block waits for no other stream */
    uint64_t area_bytes;
    unsigned moves; /* of the layouts, since a step paid */
    uint64_t aim;   /* reserved bytes beyond which the pool moves memory into the area */
    /* The present request has no slot, and would have the pool reserve more than a plan may.
     * Then free memory of the plan moves. */
    bool is_short;
    double share; /* of the bytes of the last step that were planned */
    tarn_pool_plan_state state;
    atomic_bool has_news; /* the plan has ended, and nobody was told */
    char news[200];
};

/* Follow `plan` in a new pool of VMM, or none (NULL) until tarn__state_use(); no thread uses
 * the pool yet. Enters the addresses of the pool: a half of them is the area.
 *
 * TARN_INVALID_ARGUMENT: the plan is higher than the area. TARN_NOT_SUPPORTED: no VMM.
 * TARN_OUT_OF_MEMORY: no host memory. */
tarn_status tarn__state_open(struct tarn__pool *pool, const struct tarn_plan *plan);
/* Free it; no thread uses the pool any more. */
void tarn__state_free(struct tarn__pool *pool);
/* Warn if the plan is higher than the pool may become. No lock held. */
void tarn__state_check_maximum(struct tarn__pool *pool);

/* Begin a step: all sequences begin anew, threads and streams have no ordinals yet. */
void tarn__state_restart(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Follow these sequences from now on, which are at their begin; NULL: none. The caller
 * owns them. Without any, and if they are borrowed, requests of 1 MiB and more share the
 * area. */
void tarn__state_use(struct tarn__pool *pool, struct tarn__sequences *sequences,
                     bool is_borrowed) TARN__REQUIRES(pool_lock);
/* Return the bytes that the pool is expected to reserve while it follows these sequences:
 * it moves pages rather than have more than its aim. */
uint64_t tarn__state_expected(const struct tarn__sequences *sequences);
/* Have the layouts, which need so many bytes, begin where the area is not in use. Returns
 * false if there are no such addresses. */
bool tarn__state_move(struct tarn__pool *pool, uint64_t bytes) TARN__REQUIRES(pool_lock);
/* Return true if the area has addresses for these sequences. */
bool tarn__state_has_room(const struct tarn__pool *pool,
                          const struct tarn__sequences *sequences)
    TARN__REQUIRES(pool_lock);
/* Return when the plan that is followed needs the addresses of some handles again. A larger
 * number is later. From TARN__NEXT_STEP on it is not in the present step. */
uint64_t tarn__state_next_use(const struct tarn__pool *pool, struct tarn__span handles)
    TARN__REQUIRES(pool_lock);
/* Stop to follow: what is in the area is ordinary memory. */
void tarn__state_end(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

#endif
