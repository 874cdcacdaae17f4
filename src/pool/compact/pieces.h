/* pieces.h -- handles of which several free blocks of one stream have a piece each. */
#ifndef TARN_POOL_PIECES_H
#define TARN_POOL_PIECES_H

#include "pool/pool.h"

/* Coalesce fenced blocks of a stream state with their neighbours that are fenced blocks
 * of it, too, or completed. A handle may then lie in one block. The blocks in `excluded`
 * stay. `growth` held. */
void tarn__pieces_coalesce(struct tarn__pool *pool,
                           const struct tarn__stream_state *stream_state,
                           struct tarn__span excluded) TARN__REQUIRES(growth);

#endif
