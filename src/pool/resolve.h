/* resolve.h -- stream resolution: the checks of a stream before the pool does anything on
 * it. */
#ifndef TARN_POOL_RESOLVE_H
#define TARN_POOL_RESOLVE_H

#include "pool/order/caller.h"

/* Enter the pool's context and find the stream's stream state. Returns
 * TARN_INVALID_ARGUMENT for a stream of another context, or one that was unregistered. */
tarn_status tarn__resolve_begin(struct tarn__pool *pool, tarn_stream stream,
                                struct tarn__caller *out);
/* End the call. Takes and releases `lock`. */
void tarn__resolve_end(struct tarn__caller *caller);

#endif
