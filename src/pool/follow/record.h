/* record.h -- a step of the program in host memory: its blocks, in order of time.
 *
 * Time is counted in operations, as in a plan (plan/plan.h): the allocations of the step,
 * the frees of what it allocated, and the frees of what the step before allocated.
 *
 * Steps repeat. A block that is live when its step ends is freed in the next one, or stays.
 * The next step has a block at the same place, and the record notes there when the old
 * one was freed: its wrapped end. So a repeated record has whole lives, on a circle. If the
 * step before has another number of blocks, blocks of one size correspond: the last one that
 * it left to the last one that this step leaves, and so on (tarn__record_align()).
 *
 * A live block knows its step, and its place in the record of that: `step` and `previous` of
 * its node. No other block has this step: numbers of steps are above all epochs, with which
 * they share memory, and a free block has none.
 *
 * A step that follows a plan needs no record. Its blocks get places alone, for the wrapped
 * ends of the next step.
 *
 * A step of more than TARN__RECORD_MOST blocks, or without host memory for it, is not
 * whole.
 */
#ifndef TARN_POOL_RECORD_H
#define TARN_POOL_RECORD_H

#include "pool/blocks/node.h"
#include "pool/follow/holes.h"
#include "pool/follow/ordinals.h"

struct tarn__record_block {
    uint32_t start, end; /* operations; TARN__RECORD_LIVE: it has not ended */
    uint32_t quanta;
    /* operation of the free of the block of the step before, in the step `wrapped_step` */
    uint32_t wrapped_end;
    uint64_t wrapped_step;
    uint16_t stream, free_stream; /* ordinals; TARN__RECORD_NO_STREAM: none */
    uint16_t thread;
    uint16_t wrapped_size; /* a hash of the quanta of that block */
};

_Static_assert(sizeof(struct tarn__record_block) <= 32, "the bound of host memory");

#define TARN__RECORD_LIVE UINT32_MAX
#define TARN__RECORD_NO_STREAM UINT16_MAX

enum {
    TARN__RECORD_CHUNK = 4096, /* blocks of one host allocation */
    TARN__RECORD_CHUNKS = 64,
    TARN__RECORD_MOST = TARN__RECORD_CHUNK * TARN__RECORD_CHUNKS
};

struct tarn__record {
    uint32_t count, operations;
    uint32_t previous_count; /* blocks of the step before, at most TARN__RECORD_MOST */
    uint64_t previous_freed; /* quanta of those that were freed in this step */
    uint64_t step;           /* its number */
    bool is_whole;
    bool has_places_alone; /* from here on: the step follows a plan */
    /* bytes of the pool that were live when the step began, and most during it */
    uint64_t begin_allocated, peak_allocated;
    uint64_t peak_reserved; /* most bytes that the pool reserved at an allocation */
    struct tarn__record_block *chunks[TARN__RECORD_CHUNKS];
    struct tarn__ordinals threads, streams;
    struct tarn__holes holes; /* beside blocks that stay */
};

void tarn__record_init(struct tarn__record *record);
void tarn__record_free(struct tarn__record *record);
/* Copy the blocks of a record, and the numbers of its streams and threads. Returns false
 * without host memory; the copy can be freed then, too. */
bool tarn__record_copy(const struct tarn__record *record, struct tarn__record *out);
/* Begin a step, with so many bytes live. Memory of the last one is kept for it. */
void tarn__record_restart(struct tarn__record *record, uint64_t allocated);
/* Return the bytes of host memory. */
size_t tarn__record_metadata(const struct tarn__record *record);

static inline struct tarn__record_block *tarn__record_at(
    const struct tarn__record *record, uint32_t place)
{
    return &record->chunks[place / TARN__RECORD_CHUNK][place % TARN__RECORD_CHUNK];
}

/* Return the ordinal of a stream, given by its key, or of a thread; a new one gets the
 * next. Where there is no host memory the record is not whole, and the answer is 0. */
uint16_t tarn__record_stream(struct tarn__record *record, uint64_t key);
uint16_t tarn__record_thread(struct tarn__record *record, uint64_t id);

/* Note an allocation of the calling thread, whose node is not live yet. A record that is
 * not whole stays as it is. */
void tarn__record_allocate(struct tarn__record *record, struct tarn__node *node,
                           uint64_t key);
/* Note a free. */
void tarn__record_deallocate(struct tarn__record *record, struct tarn__node *node,
                             uint64_t key);

/* Find the wrapped ends of a step that the step before is not like, once it has ended: of the
 * blocks that are live. Without host memory they stay as they are. */
void tarn__record_align(struct tarn__record *record);

/* Give places to `count` blocks that were allocated and freed, of a step that follows a
 * plan. */
void tarn__record_skip(struct tarn__record *record, uint64_t count);

/* Return true if the live block of a node was allocated in the present step. */
static inline bool tarn__record_has(const struct tarn__record *record,
                                    const struct tarn__node *node)
{
    return node->step == record->step;
}

/* Return the operation after which a block is free; TARN__RECORD_LIVE: it lives for a step
 * or more. If that is not after its start, the free is one of the next step. */
static inline uint32_t tarn__record_end(const struct tarn__record *record,
                                        const struct tarn__record_block *block)
{
    if (block->end != TARN__RECORD_LIVE)
        return block->end;
    return block->wrapped_step == record->step && block->wrapped_end < block->start
               ? block->wrapped_end
               : TARN__RECORD_LIVE;
}

#endif
