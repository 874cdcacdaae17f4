/* area.h -- the blocks at given addresses, and what a stream may do with them.
 *
 * The area of a pool is an address range for planned blocks (blocks/heap.h). A plan says
 * where a block may go. Here is asked whether it may: by the rules of the heap, as for
 * any other block.
 *
 * Other blocks do not get addresses of the area, or they would be in the way of planned
 * ones. Where the pool has no other memory left, and in steps without a plan, the area is
 * shared with them.
 */
#ifndef TARN_POOL_AREA_H
#define TARN_POOL_AREA_H

#include "pool/blocks/runs.h"

/* What a stream may do with the addresses, from best to worst. */
enum tarn__area_use {
    TARN__AREA_NOW,    /* use them at once */
    TARN__AREA_WAIT,   /* use them after a wait for event fences */
    TARN__AREA_FENCE,  /* wait for another stream's event fence, once it has one */
    TARN__AREA_DEVICE, /* use them after a device-wide wait */
    TARN__AREA_MAP,    /* some have no memory */
    TARN__AREA_BLOCKED /* not use them: some are in use */
};

struct tarn__area_look {
    uint64_t address, bytes;
    tarn__index first;    /* the node with the first address */
    uint64_t begin, end;  /* of all nodes with some of the addresses */
    tarn__index unmapped; /* the first node without memory; 0: none */
};

/* Look at [address, address + bytes). `before` is a node of the area that begins at
 * `address` or below. */
enum tarn__area_use tarn__area_look(const struct tarn__heap *heap,
                                    const struct tarn__stream_state *stream_state,
                                    tarn__index before, uint64_t address, uint64_t bytes,
                                    struct tarn__area_look *out)
    TARN__REQUIRES(pool_lock);

/* Give an address range to the area; the heap has none yet. It is unmapped. Returns false
 * without host memory. */
bool tarn__area_open(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
    TARN__REQUIRES(pool_lock);
/* Return the first node of the range in which the layouts are. */
tarn__index tarn__area_first(const struct tarn__heap *heap) TARN__REQUIRES(pool_lock);
/* Return the first address of that range. */
static inline uint64_t tarn__area_begin(const struct tarn__heap *heap)
{
    return heap->area_ranges[0];
}
/* Return its bytes of addresses, where the area has so many. */
uint64_t tarn__area_room(const struct tarn__heap *heap, uint64_t area_bytes)
    TARN__REQUIRES(pool_lock);
/* Have the layouts, of so many bytes, begin in another range of the area, without memory: one
 * that exists, or a part of this one that becomes a range of its own. Returns false if there is
 * none. */
bool tarn__area_move(struct tarn__heap *heap, uint64_t bytes) TARN__REQUIRES(pool_lock);
/* Share the area: what is free there serves any request of `least` quanta or more, and what
 * is unmapped may grow for it. */
void tarn__area_share(struct tarn__heap *heap, uint32_t least) TARN__REQUIRES(pool_lock);
/* Keep what is free or unmapped in the area, which has so many bytes, for planned blocks
 * again. */
void tarn__area_separate(struct tarn__heap *heap, uint64_t bytes)
    TARN__REQUIRES(pool_lock);
/* Return true if the area is shared. */
static inline bool tarn__area_is_shared(const struct tarn__heap *heap)
{
    return heap->area_bytes == 0;
}

#endif
