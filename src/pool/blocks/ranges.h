/* ranges.h -- the address ranges of a heap: segments, unmapped ranges. */
#ifndef TARN_POOL_RANGES_H
#define TARN_POOL_RANGES_H

#include "pool/blocks/take.h"

/* Enter new memory. With `stream_state` NULL it is completed; else it carries that stream
 * state's open epoch. The part of the addresses outside of multiples of the quantum is
 * cut off. Both sides get a border. Returns false without host memory. */
bool tarn__ranges_add_segment(struct tarn__heap *heap, uint64_t address, uint64_t bytes,
                              struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Enter an address range of VMM, all of it unmapped. */
bool tarn__ranges_add(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
    TARN__REQUIRES(pool_lock);

/* Cut a range at `address`, in its unmapped node `index`. What is behind is a range of its own.
 * Returns false without host memory. */
bool tarn__ranges_cut(struct tarn__heap *heap, tarn__index index, uint64_t address)
    TARN__REQUIRES(pool_lock);

/* Turn a node that is in transit into an unmapped range, coalesced with neighbouring
 * unmapped ranges. Returns the range. */
tarn__index tarn__ranges_make_unmapped(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);
/* Turn a node that is in transit into a retired mapping, which is counted as an unmapped
 * range; and back. */
void tarn__ranges_make_retired(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);
void tarn__ranges_end_retired(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);
/* Remove a node that is in transit and covers a whole segment. */
void tarn__ranges_drop_segment(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);

#endif
