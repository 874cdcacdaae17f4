/* sequences.h -- a plan in the form in which a pool follows it.
 *
 * A slot is the place of one block (plan/plan.h). A sequence is the slots of one thread
 * and one stream, in order of time. Threads and streams have ordinals, by their first
 * allocation: their ids and handles differ from run to run.
 *
 * A slot is live while the pool has a block there. The live slots are known by rank, which
 * is the position of a slot among all slots by offset: so the live slot before an address
 * is found. It is where a look at the blocks around that address begins (area.h).
 */
#ifndef TARN_POOL_SEQUENCES_H
#define TARN_POOL_SEQUENCES_H

#include "base/map.h"
#include "plan/bits.h"
#include "plan/plan.h"
#include "pool/blocks/node.h"
#include "pool/follow/next_use.h"

/* The offset of a slot outside of the layout: an allocation that is such a slot has its
 * place in the sequence, and no address. */
#define TARN__SEQUENCES_OUTSIDE UINT32_MAX

struct tarn__sequences_slot {
    uint32_t quanta, offset; /* in quanta */
    uint32_t rank;
};

/* Sizes of the blocks that lead to a slot, and are compared to realign. */
enum { TARN__SEQUENCES_GRAM = 8 };
/* Every fourth slot is found by the sizes that lead to it. */
enum { TARN__SEQUENCES_GRAM_STEP = 4 };

struct tarn__sequences_gram {
    uint32_t hash, place;
};

struct tarn__sequence {
    const struct tarn__sequences_slot *slots;
    uint32_t first, count; /* number of its first slot; number of its slots */
    const struct tarn__sequences_gram *grams; /* by hash and place */
    uint32_t gram_count;

    /* --- where the pool is (match.c) --- */
    uint32_t cursor;        /* place of the next slot */
    uint64_t ahead, behind; /* bit i: place cursor + i, cursor - 1 - i, was used */
    /* the last ones; the next one takes the place of the oldest: size_count modulo
     * TARN__SEQUENCES_GRAM */
    uint32_t sizes[TARN__SEQUENCES_GRAM];
    unsigned size_count; /* of all that were noted */
};

/* The memory of a pool in a step that it has learned, in bytes. */
struct tarn__sequences_memory {
    uint64_t peak_allocated;
    uint64_t outside; /* most bytes outside of the layout */
};

struct tarn__sequences {
    tarn__index *nodes;       /* by rank: the node of a live slot; 0: it is not live */
    struct tarn__bits live;   /* ranks of live slots */
    bool has_one_stream;      /* one allocates and frees all blocks */
    struct tarn__bits handed; /* ranks of slots that may have another stream next */
    struct tarn__sequences_slot *slots; /* by sequence, then by time */
    uint32_t slot_count;
    struct tarn__sequences_gram *grams;
    struct tarn__sequence *all;
    uint32_t count;
    uint32_t longest;                 /* the sequence with the most slots */
    struct tarn__map by;              /* thread and stream -> sequence */
    uint32_t threads, streams;        /* that allocate */
    struct tarn__next_uses next_uses; /* of a plan that moves pages */
    uint64_t height;                  /* bytes of addresses */
    uint64_t peak_live;               /* bytes */
    /* of the step that was learned, or 0 */
    struct tarn__sequences_memory memory;
    /* the pool's aim is this part higher than the peak: beyond it, pages move */
    uint32_t aim_part;
    uint32_t price;       /* quanta: tarn__plan_rules */
    unsigned bad_steps;   /* of this plan, in a row */
    unsigned other_steps; /* in a row that began as this plan does, and were other work */
    size_t bytes;         /* of host memory */
};

/* Make the sequences of a plan that is valid (plan/check.h). `memory` NULL: no slot is outside
 * of the layout, and the pool has no other memory. Then the aim is chosen by the moves that it
 * takes. Returns NULL without host memory. */
struct tarn__sequences *tarn__sequences_new(const struct tarn_plan *plan,
                                            const struct tarn__sequences_memory *memory);
void tarn__sequences_free(struct tarn__sequences *sequences);

/* Return the peak, in bytes, that the aim of a pool is a multiple of. */
static inline uint64_t tarn__sequences_peak(const struct tarn__sequences *sequences)
{
    return sequences->memory.peak_allocated ? sequences->memory.peak_allocated
                                            : sequences->peak_live;
}

/* Return the sequence of a thread and a stream, by their ordinals; NULL: the plan has
 * none. */
struct tarn__sequence *tarn__sequences_find(const struct tarn__sequences *sequences,
                                            uint32_t thread, uint32_t stream);
/* Begin all sequences anew. */
void tarn__sequences_restart(struct tarn__sequences *sequences);

/* Return the hash of the last sizes. */
uint32_t tarn__sequences_hash(const uint32_t sizes[TARN__SEQUENCES_GRAM]);

/* Note that a slot is live, in `node`; and that it is not any more. */
static inline void tarn__sequences_enter(struct tarn__sequences *sequences, uint32_t rank,
                                         tarn__index node)
{
    sequences->nodes[rank] = node;
    tarn__bits_add(&sequences->live, rank);
}

/* Return true if another stream may have the addresses of a slot next. */
static inline bool tarn__sequences_is_handed(const struct tarn__sequences *sequences,
                                             uint32_t rank)
{
    return tarn__bits_has(&sequences->handed, rank);
}

static inline void tarn__sequences_leave(struct tarn__sequences *sequences, uint32_t rank)
{
    sequences->nodes[rank] = 0;
    tarn__bits_remove(&sequences->live, rank);
}

#endif
