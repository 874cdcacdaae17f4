/* holes.h -- free memory between blocks that stay.
 *
 * A handle with a block that stays remains reserved, with all of its free memory. Such a
 * free range is a hole. No layout can use it.
 */
#ifndef TARN_POOL_HOLES_H
#define TARN_POOL_HOLES_H

#include "pool/blocks/stream_state.h"
#include <stdbool.h>
#include <stdint.h>

struct tarn__pool;
struct tarn__record;

enum { TARN__HOLES_MOST = 128 };

struct tarn__holes {
    uint32_t count;
    uint32_t quanta[TARN__HOLES_MOST]; /* of the largest ones, in no order */
};

/* Add a hole; one of 0 quanta is none. */
void tarn__holes_add(struct tarn__holes *holes, uint64_t quanta);
/* Take memory for a block of at least 1 quantum from the smallest hole that has room.
 * Returns false if none has. */
bool tarn__holes_take(struct tarn__holes *holes, uint32_t quanta);

/* Find the holes of a VMM pool beside the blocks that were live during the whole step of the
 * record. Returns none, if there are too many blocks for one hold of the lock. */
struct tarn__holes tarn__holes_find(const struct tarn__pool *pool,
                                    const struct tarn__record *record)
    TARN__REQUIRES(pool_lock);

#endif
