/* runs.h -- run coalescing: adjacent blocks that are large enough together. */
#ifndef TARN_POOL_RUNS_H
#define TARN_POOL_RUNS_H

#include "pool/blocks/take.h"

/* Adjacent blocks. Each is free for the caller's stream, or behind a published event
 * fence. */
enum { TARN__RUN_MAX = 64 };
struct tarn__run {
    tarn__index nodes[TARN__RUN_MAX]; /* by address, in transit */
    /* the stream state of each node before; 0: completed */
    tarn__index stream_states[TARN__RUN_MAX];
    uint64_t epochs[TARN__RUN_MAX];
    size_t count; /* 0: there is no such run of blocks */
};

/* Where a search for a run goes on in its next part; zeros: at its begin. */
struct tarn__runs_cursor {
    bool has_begun;
    tarn__index next; /* stream state; 0: no more */
    unsigned looks;   /* the blocks tried in the bins of streams, and the streams */
};

/* Look for adjacent blocks that are large enough together in the next part of the heap,
 * and take them out; the last one is split to size. Returns false if the search has
 * ended. The heap may change between the parts. */
bool tarn__runs_take_part(struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state,
                          const struct tarn__request *request,
                          struct tarn__runs_cursor *cursor, struct tarn__run *out)
    TARN__REQUIRES(pool_lock);
/* Take the blocks that cover [address, address + bytes) out; the first and the last one
 * are split to it. `first` contains `address`. Without host memory, or with more than
 * TARN__RUN_MAX blocks, none is taken. */
void tarn__runs_take_range(struct tarn__heap *heap, tarn__index first, uint64_t address,
                           uint64_t bytes, struct tarn__run *out)
    TARN__REQUIRES(pool_lock);
/* Coalesce the run into one block, in transit. The stream has waited for every source
 * stream. */
tarn__index tarn__runs_coalesce(struct tarn__heap *heap, const struct tarn__run *run)
    TARN__REQUIRES(pool_lock);
/* Return the pieces to their stream states, now with the stream states' open epochs. */
void tarn__runs_put(struct tarn__heap *heap, const struct tarn__run *run)
    TARN__REQUIRES(pool_lock);

/* Return where the memory begins that `stream_state` may use right before a node; and
 * where it ends right behind the node. They count as many blocks as
 * tarn__runs_coalesce_for() coalesces to one side. */
enum { TARN__RUN_SIDE = TARN__RUN_MAX / 2 - 1 };
uint64_t tarn__runs_begin(const struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state,
                          tarn__index index) TARN__REQUIRES(pool_lock);
uint64_t tarn__runs_end(const struct tarn__heap *heap,
                        const struct tarn__stream_state *stream_state, tarn__index index)
    TARN__REQUIRES(pool_lock);

/* Coalesce neighbours that `stream_state` may use until one block fits; false: none
 * does. */
bool tarn__runs_coalesce_for(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state,
                             const struct tarn__request *request)
    TARN__REQUIRES(pool_lock);

/* Take the best block for the request. If none fits, coalesce neighbours first. Returns 0
 * if nothing fits. */
tarn__index tarn__runs_take_block(struct tarn__heap *heap,
                                  struct tarn__stream_state *stream_state,
                                  const struct tarn__request *request)
    TARN__REQUIRES(pool_lock);

#endif
