/* capture.h -- the memory of captured graphs. */
#ifndef TARN_POOL_CAPTURE_H
#define TARN_POOL_CAPTURE_H

#include "pool/order/caller.h"

struct tarn__capture_tie;

struct tarn_pool_capture {
    struct tarn__pool *pool;
    tarn_resource *resource; /* retained while a user holds a reference */
    uint64_t id;             /* of the capture, from the driver's count; unique */
    unsigned slot;
    unsigned references; /* held by users */
    unsigned callers;    /* calls under way that use the slot */
    bool is_let_go;
    bool is_held;  /* while there are references, the end of the graph releases nothing */
    uint64_t live; /* live blocks that belong to it */
    uint64_t live_bytes;
    /* State of blocks that are not in the order of the graph alone: its own blocks that
     * were freed elsewhere, and earlier blocks that it freed. No stream may reuse
     * them. */
    struct tarn__stream_state *home;
    struct tarn__capture_member {
        CUstream_ handle;
        struct tarn__stream_state *stream_state;
    } *members;
    size_t member_count;
    struct tarn__capture_tie *tie; /* or NULL: the driver has no user objects */
};

struct tarn__captures {
    struct tarn_pool_capture *slots[UINT16_MAX + 1]; /* 0 is never used */
    unsigned used;                                   /* slots below have been used */
    uint16_t spare[UINT16_MAX + 1];                  /* slots below that are free */
    unsigned spare_count;
    struct tarn__map by_id; /* id -> slot, of the captures that were not released */
    struct tarn__stream_state *nobody;
    uint64_t state_keys;
    unsigned gone_seen;
};

/* Return the stream state of a capturing stream's memory; NULL: no host memory. `lock`
 * held. */
struct tarn__stream_state *tarn__capture_state(struct tarn__caller *caller)
    TARN__REQUIRES(pool_lock);
/* Have the graph notify the pool when it is destroyed, if that was not arranged yet. */
void tarn__capture_tie(const struct tarn__caller *caller);
/* Note that a block becomes live for a caller that captures. `lock` held. */
void tarn__capture_note(struct tarn__caller *caller, struct tarn__node *node)
    TARN__REQUIRES(pool_lock);
/* Return the stream state that a free goes to when the caller captures, or the block
 * belongs to a capture. The block then belongs to the capture no longer. `lock` held. */
struct tarn__stream_state *tarn__capture_state_for_free(struct tarn__caller *caller,
                                                        const struct tarn__node *node)
    TARN__REQUIRES(pool_lock);
/* End the caller's call. `lock` held. */
void tarn__capture_leave(struct tarn__caller *caller) TARN__REQUIRES(pool_lock);
size_t tarn__captures_metadata(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Release the memory of destroyed graphs, but for captures that are held. `lock` held, and
 * released in between. */
void tarn__captures_collect(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* End the hold on a capture: the next tarn__captures_collect() checks its graph. `lock`
 * held. */
void tarn__capture_end_hold(struct tarn_pool_capture *capture) TARN__REQUIRES(pool_lock);
/* Return true if any graph has memory of the pool, or a capture that got some may still
 * go on. `lock` held. */
bool tarn__captures_any(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Free the table; no thread uses the pool any more. */
void tarn__captures_free(struct tarn__pool *pool);

/* Release the memory of a capture. Blocks that only the graph used get the order of `to`,
 * or are completed. `lock` held, and released in between. */
void tarn__capture_release(struct tarn_pool_capture *capture,
                           struct tarn__stream_state *to) TARN__REQUIRES(pool_lock);
/* Free the slot once no reference, call or block uses the capture. `lock` held. */
void tarn__capture_forget(struct tarn_pool_capture *capture) TARN__REQUIRES(pool_lock);

#endif
