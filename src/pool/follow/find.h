/* find.h -- the sequence of a thread and a stream.
 *
 * In a plan both have numbers, by their first allocation since the step began. So a program
 * that makes its threads and streams anew has the same sequences in each step.
 */
#ifndef TARN_POOL_FIND_H
#define TARN_POOL_FIND_H

#include "pool/cache/thread_cache.h"
#include "pool/follow/state.h"

/* Return the sequence of a thread and a stream, given by its key; NULL: the plan has none,
 * or there is no host memory. */
struct tarn__sequence *tarn__find_sequence(struct tarn__follow *follow,
                                           uint64_t thread_id, uint64_t key);
/* Do the same for the calling thread's cache, which keeps the answer for the step. */
struct tarn__sequence *tarn__find_sequence_of_cache(struct tarn__follow *follow,
                                                    struct tarn__thread_cache *cache);

#endif
