/* find.c -- the sequence of a thread and a stream. */
#include "pool/follow/find.h"
#include "pool/follow/match.h"
#include "base/thread.h"

/* Return the ordinal of a thread. More threads than the plan has begin anew. */
static bool thread_ordinal(struct tarn__follow *follow, uint64_t id, uint32_t *out)
{
    const uint32_t *known = tarn__ordinals_find(&follow->threads, id);

    *out = known ? *known : follow->threads.next % follow->sequences->threads;
    return known || tarn__ordinals_add(&follow->threads, id, *out);
}

/* Return true if a pass over the sequence is over, or has not begun. */
static bool is_at_end(const struct tarn__sequence *sequence)
{
    return sequence && (sequence->cursor == 0 ||
                        sequence->cursor + TARN__MATCH_WINDOW >= sequence->count);
}

/* Return the ordinal of a new stream. With more streams than the plan has, it is one that
 * a pass creates anew: it takes the place of the first one that is at its end. */
static uint32_t new_stream(const struct tarn__follow *follow, uint32_t thread)
{
    const struct tarn__sequences *sequences = follow->sequences;

    if (follow->streams.next < sequences->streams)
        return follow->streams.next;
    for (uint32_t i = 0; i < sequences->streams; i++)
        if (is_at_end(tarn__sequences_find(sequences, thread, i)))
            return i;
    return follow->streams.next % sequences->streams;
}

struct tarn__sequence *tarn__find_sequence(struct tarn__follow *follow,
                                           uint64_t thread_id, uint64_t key)
{
    uint32_t thread;

    if (follow->sequences->count == 0 || !thread_ordinal(follow, thread_id, &thread))
        return NULL;
    const uint32_t *known = tarn__ordinals_find(&follow->streams, key);
    uint32_t stream = known ? *known : new_stream(follow, thread);
    if (!known && !tarn__ordinals_add(&follow->streams, key, stream))
        return NULL;
    return tarn__sequences_find(follow->sequences, thread, stream);
}

struct tarn__sequence *tarn__find_sequence_of_cache(struct tarn__follow *follow,
                                                    struct tarn__thread_cache *cache)
{
    if (cache->sequence_version != follow->version) {
        cache->sequence = tarn__find_sequence(follow, tarn__thread_id(), cache->key);
        cache->sequence_version = follow->version;
    }
    return cache->sequence;
}
