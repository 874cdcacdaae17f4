/* reclaimable.h -- reclaimable memory: free memory of a pool that makes whole handles or
 * a whole segment.
 *
 * The pool can move or release such memory once it is completed. Where queued work may
 * still use the memory, the pool can move it for a stream whose work is ordered after
 * that work.
 *
 * The caller holds `growth` around all of it; a comment names the functions that need
 * `lock`. A plan copies a few blocks in each hold of the lock. Other threads use blocks
 * meanwhile, so each block is checked again when its part is split off.
 */
#ifndef TARN_POOL_RECLAIMABLE_H
#define TARN_POOL_RECLAIMABLE_H

#include "pool/order/caller.h"

enum { TARN__RECLAIMABLE_MAX = 256 };

/* The part of a free block that the pool can reclaim. */
struct tarn__reclaimable_part {
    tarn__index node;
    unsigned handles;
    bool is_planned; /* a plan that is followed has the addresses */
    struct tarn__span span;
    struct tarn__stream_state *stream_state; /* its stream state; NULL: completed */
    uint64_t epoch;                          /* of the stream state */
    /* the event fence that covers the epoch, pinned; set once the part is split off */
    CUevent_ event;
};

static inline uint64_t tarn__reclaimable_mean_handle(
    const struct tarn__reclaimable_part *part)
{
    return part->span.bytes / part->handles;
}

struct tarn__reclaimable {
    struct tarn__pool *pool;
    struct tarn__reclaimable_part parts[TARN__RECLAIMABLE_MAX];
    unsigned count;
    unsigned completed;         /* number of completed parts, which come first */
    uint64_t bytes;             /* of their spans */
    uint64_t wanted;            /* bytes that are enough */
    uint64_t room;              /* no handle may be larger; UINT64_MAX: any */
    struct tarn__span excluded; /* addresses that must not be used */
};

/* Find reclaimable memory of about `wanted` bytes, or less where there is less. It takes
 * the parts with the largest handles that are enough together, and of the last part no
 * more handles than needed. Parts at addresses of a followed plan come last. (Moving a
 * handle costs 26 us on an H200, whatever its size: see docs/design/pool.md.) `growth`
 * held, as for the next function. */
void tarn__reclaimable_find(struct tarn__pool *pool, uint64_t wanted, uint64_t room,
                            struct tarn__span excluded, struct tarn__reclaimable *out)
    TARN__REQUIRES(growth);
/* Find the bytes still wanted in memory behind event fences: first the caller's stream's,
 * then other streams', unless the options make the pool grow instead. */
void tarn__reclaimable_find_fenced(const struct tarn__caller *caller,
                                   struct tarn__reclaimable *reclaimable)
    TARN__REQUIRES(growth);
/* Find memory of about `wanted` bytes, completed or behind event fences, as the two functions
 * above do. Of completed memory and the caller's stream's it takes the handles that are needed
 * last. Without host memory it does what they do. */
void tarn__reclaimable_find_last_needed(const struct tarn__caller *caller,
                                        uint64_t wanted, uint64_t room,
                                        struct tarn__span excluded,
                                        struct tarn__reclaimable *out)
    TARN__REQUIRES(growth);
/* Leave out what does not fit into `room` bytes together. tarn__reclaimable_split() counts the
 * completed parts anew. */
void tarn__reclaimable_fit(struct tarn__reclaimable *reclaimable) TARN__REQUIRES(growth);
/* Return the next stream state that has free blocks and event fences, from `plan_next` of
 * the heap on; NULL: there is none. The lock may be released between two calls. `lock`
 * held. */
struct tarn__stream_state *tarn__reclaimable_next_state(struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Have the caller's stream wait for the work that other streams queued before their
 * frees. Returns false if the driver rejected a wait. */
bool tarn__reclaimable_wait(const struct tarn__caller *caller,
                            const struct tarn__reclaimable *reclaimable);
/* Split the spans off their blocks; the nodes are then exactly these, in transit. Spans
 * are left out whose block has changed since, or for which there is no host memory.
 * Returns true if there are none. The others keep their order. */
bool tarn__reclaimable_split(struct tarn__reclaimable *reclaimable)
    TARN__REQUIRES(growth);
/* Free the spans again, except the first ones. `lock` held; this function and the next
 * one release it between spans. */
void tarn__reclaimable_put_back(const struct tarn__reclaimable *reclaimable,
                                unsigned first) TARN__REQUIRES(pool_lock);
/* Retire the first `count` spans: they have no memory any more, or it moved and their
 * mapping is a retired one. `lock` held. */
void tarn__reclaimable_retire(const struct tarn__reclaimable *reclaimable, unsigned count)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(growth);

/* Release reclaimable memory while more than `keep` bytes are free. `growth` held. */
tarn_status tarn__reclaimable_shrink(struct tarn__pool *pool, uint64_t keep,
                                     uint64_t *released_out) TARN__REQUIRES(growth);

#endif
