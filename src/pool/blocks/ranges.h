/* ranges.h -- the address ranges of a heap: segments, unmapped ranges, places to grow. */
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

/* Turn a node that is in transit into an unmapped range, coalesced with neighbouring
 * unmapped ranges. */
void tarn__ranges_make_unmapped(struct tarn__heap *heap, tarn__index index)
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

/* A place where the pool could grow so that a request fits, with `extra_bytes` more
 * behind it. */
struct tarn__site {
    tarn__index range; /* 0: no unmapped range is large enough */
    uint64_t address;  /* of the unmapped range */
    /* Bytes needed from the start of the unmapped range. It is less than the request
     * where memory that the stream state may use lies before the unmapped range. */
    uint64_t bytes;
    uint64_t from; /* where that memory begins; `address`: there is none */
};
struct tarn__site tarn__ranges_find_site(const struct tarn__heap *heap,
                                         const struct tarn__stream_state *stream_state,
                                         const struct tarn__request *request,
                                         uint64_t extra_bytes) TARN__REQUIRES(pool_lock);

/* Return the unmapped range that contains `address`, which was unmapped a moment ago; or
 * 0. */
tarn__index tarn__ranges_unmapped_at(const struct tarn__heap *heap, uint64_t address)
    TARN__REQUIRES(pool_lock);

#endif
