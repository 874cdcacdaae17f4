/* retired.c -- retired mappings: places whose memory moved while queued work still used
 * them.
 *
 * Memory that a stream freed is available to that stream at once, and to another stream
 * after a wait. It cannot be unmapped before the device has finished with it. So the pool
 * maps it a second time, and the stream uses that mapping from now on. In the order of
 * the device, both mappings are the same bytes. The retired mapping stays until an event
 * reports that no work uses it.
 */
#include "pool/compact/retired.h"
#include "pool/blocks/ranges.h"
#include "pool/order/identity.h"
#include <stdlib.h>

struct tarn__retired {
    tarn__index node; /* the node of exactly the span that moved */
    struct tarn__stream_state *stream_state;
    uint64_t epoch;
    CUevent_ event; /* recorded after the last use; pinned */
};

enum { RETIRED_MAX = 4096 };

bool tarn__retired_reserve(struct tarn__pool *pool, unsigned count)
{
    size_t need = pool->retired_count + count;

    if (need <= pool->retired_capacity || need > RETIRED_MAX)
        return need <= pool->retired_capacity;
    struct tarn__retired *retired = realloc(pool->retired, 2 * need * sizeof *retired);
    if (!retired)
        return false;
    pool->retired = retired;
    pool->retired_capacity = 2 * need;
    return true;
}

void tarn__retired_add(struct tarn__pool *pool, tarn__index node,
                       struct tarn__stream_state *stream_state, uint64_t epoch,
                       CUevent_ event)
{
    tarn__assert_held(&pool->lock);

    tarn__ranges_make_retired(&pool->heap, node);
    pool->retired[pool->retired_count++] =
        (struct tarn__retired){node, stream_state, epoch, event};
}

/* Turn the place into an unmapped range. The driver has unmapped it, or keeps it noted as
 * failed. */
static void end(struct tarn__pool *pool, const struct tarn__retired *entry)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, entry->node);

    tarn__pages_end_retired(pool->pages,
                            (struct tarn__span){node->address, tarn__node_bytes(node)});
    tarn__pool_lock(pool);
    tarn__ranges_end_retired(&pool->heap, entry->node);
    tarn__ranges_make_unmapped(&pool->heap, entry->node);
    tarn__identity_unpin(&pool->heap, entry->stream_state, entry->event);
    tarn__pool_unlock(pool);
}

/* The most events queried at once. */
enum { QUERIES_MAX = 16 };

/* The answers of this round. */
struct query_results {
    struct {
        const struct tarn__stream_state *stream_state;
        CUevent_ event;
        bool done;
    } all[QUERIES_MAX];
    unsigned count;
};

/* Return false if the state of this event is unknown. If one of its stream state was not
 * complete, the others probably are not. A mapping that is kept longer costs addresses
 * alone. */
static bool is_known(const struct query_results *query_results,
                     const struct tarn__retired *entry, bool *done_out)
{
    for (unsigned i = query_results->count; i-- > 0;)
        if (query_results->all[i].stream_state == entry->stream_state &&
            (query_results->all[i].event == entry->event ||
             !query_results->all[i].done)) {
            *done_out = query_results->all[i].done;
            return true;
        }
    return false;
}

static bool query_done(struct tarn__pool *pool, const struct tarn__retired *entry,
                       struct query_results *query_results)
{
    bool done;

    if (TARN_MUTATION(retired_unmapped_early))
        return true;
    tarn__pool_lock(pool);
    done = entry->stream_state->done_epoch >= entry->epoch;
    tarn__pool_unlock(pool);
    if (done || is_known(query_results, entry, &done))
        return done;
    if (query_results->count == QUERIES_MAX)
        return false;
    done = pool->calls->event_query(entry->event) == CUDA_SUCCESS_;
    tarn__pool_lock(pool);
    pool->counters.queries++;
    tarn__pool_unlock(pool);
    query_results->all[query_results->count].stream_state = entry->stream_state;
    query_results->all[query_results->count].event = entry->event;
    query_results->all[query_results->count++].done = done;
    return done;
}

void tarn__retired_unmap_completed(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->growth);

    struct query_results query_results = {.count = 0};
    CUstreamCaptureMode_ mode;
    size_t kept = 0;

    /* In another capture mode a query would invalidate captures of this thread, and
     * captures in global mode of any thread. */
    if (pool->retired_count == 0 || tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return;
    for (size_t i = 0; i < pool->retired_count; i++)
        if (query_done(pool, &pool->retired[i], &query_results))
            end(pool, &pool->retired[i]);
        else
            pool->retired[kept++] = pool->retired[i];
    pool->retired_count = kept;
    tarn__relaxed_leave(pool->calls, mode);
}

void tarn__retired_unmap_all(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->growth);

    while (pool->retired_count > 0)
        end(pool, &pool->retired[--pool->retired_count]);
}
