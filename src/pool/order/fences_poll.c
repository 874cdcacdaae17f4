/* fences_poll.c -- queries of event fences: which are complete.
 *
 * A round goes once through the stream states that have free memory and event fences. The
 * words are those of fence.c.
 */
#include "pool/order/fences_poll.h"
#include "pool/order/epoch.h"
#include "pool/order/events.h"
#include "pool/pool.h"

/* The most blocks, or stream states, of one step. Between two steps the lock is
 * released. */
enum { STEP_MAX = 128 };

void tarn__fences_poll_sweep(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    while (tarn__epoch_sweep(&pool->heap, STEP_MAX))
        tarn__pool_relock(pool);
}

/* Return the oldest event fence that is not known to be complete, or NULL. */
static struct tarn__fence *next_fence(const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].epoch > stream_state->done_epoch)
            return &stream_state->fences[i];
    return NULL;
}

/* Choose up to `most` queries of the round with the number `round`, and pin their events.
 * A round goes once through the list `with_fences`. The function skips a stream state that
 * was queried in this round already, or that has no event fence to query. It begins where
 * the last call ended (`heap->poll_next`), and looks at up to STEP_MAX stream states. It
 * adds their number to `*looked`. `lock` held. */
static unsigned choose(struct tarn__pool *pool, uint64_t round, unsigned most,
                       enum tarn__fences_which which, struct tarn__fences_query *query,
                       unsigned *looked) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__heap *heap = &pool->heap;
    unsigned count = 0;

    for (unsigned looks = 0;
         looks < STEP_MAX && *looked < heap->with_fences.count && count < most;
         looks++, ++*looked) {
        if (!heap->poll_next)
            heap->poll_next = heap->with_fences.first;
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, heap->poll_next);
        struct tarn__fence *fence = next_fence(stream_state);
        heap->poll_next = stream_state->with_fences.next;
        if (!fence || stream_state->queried_round >= round)
            continue;
        stream_state->queried_round = round;
        if (which == TARN__FENCES_DUE && !tarn__backoff_next(&stream_state->done))
            continue;
        query[count++] = (struct tarn__fences_query){
            stream_state, tarn__events_pin(stream_state, fence), fence->epoch, false};
    }
    return count;
}

/* Query the driver for each event, set its `done`, and return the number of complete
 * events. The queries are made in relaxed capture mode. In another mode a query
 * invalidates captures of this thread, and captures in global mode of any thread. */
static unsigned query_events(struct tarn__pool *pool, struct tarn__fences_query *query,
                             unsigned count)
{
    CUstreamCaptureMode_ mode;
    unsigned done = 0;

    if (tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        query[i].done = pool->calls->event_query(query[i].event) == CUDA_SUCCESS_;
        done += query[i].done;
    }
    tarn__relaxed_leave(pool->calls, mode);
    return done;
}

/* Choose the next queries of the round, if it has more. `lock` held, and released in
 * between. */
static void choose_next(struct tarn__pool *pool, struct tarn__fences_poll *poll)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    unsigned looked = 0;
    unsigned most =
        poll->most < TARN__FENCES_POLL_MAX ? poll->most : TARN__FENCES_POLL_MAX;

    while ((poll->count = choose(pool, poll->round, most, poll->which, poll->query,
                                 &looked)) == 0 &&
           looked < pool->heap.with_fences.count)
        tarn__pool_relock(pool);
    pool->counters.queries += poll->count;
}

/* If each call began at the front of the list, it would query the same stream states until
 * their work is done. The others would have to wait. */
void tarn__fences_poll_begin(struct tarn__pool *pool, struct tarn__fences_poll *poll,
                             unsigned most)
{
    tarn__assert_held(&pool->lock);

    poll->which = TARN__FENCES_DUE;
    poll->most = most;
    poll->round = pool->poll_round;
    choose_next(pool, poll);
    if (poll->count > 0)
        return;
    poll->round = ++pool->poll_round;
    choose_next(pool, poll);
}

/* Note the answers of the queries, and complete the frees of the complete event fences.
 * `lock` held, and released in between. */
static void note_answers(struct tarn__pool *pool, const struct tarn__fences_poll *poll)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    for (const struct tarn__fences_query *i = poll->query; i < poll->query + poll->count;
         i++) {
        tarn__events_unpin(i->stream_state, i->event);
        tarn__backoff_note(&i->stream_state->done, i->done);
        if (!i->done)
            continue;
        i->stream_state->queried_round = 0;
        tarn__epoch_fence_completed(&pool->heap, i->stream_state, i->epoch);
    }
    tarn__fences_poll_sweep(pool);
}

bool tarn__fences_poll_end(struct tarn__pool *pool, struct tarn__fences_poll *poll)
{
    bool any = false;

    while (poll->count > 0) {
        unsigned done = query_events(pool, poll->query, poll->count);
        any |= done > 0;
        tarn__pool_lock(pool);
        note_answers(pool, poll);
        poll->count = 0;
        if (poll->which == TARN__FENCES_DUE)
            poll->most -= done < poll->most ? done : poll->most;
        if (poll->which == TARN__FENCES_ALL || (done > 0 && poll->most > 0))
            choose_next(pool, poll);
        tarn__pool_unlock(pool);
    }
    return any;
}

bool tarn__fences_poll(struct tarn__pool *pool, unsigned most)
{
    struct tarn__fences_poll poll;

    tarn__pool_lock(pool);
    tarn__fences_poll_begin(pool, &poll, most);
    tarn__pool_unlock(pool);
    return tarn__fences_poll_end(pool, &poll);
}

bool tarn__fences_poll_all(struct tarn__pool *pool)
{
    struct tarn__fences_poll poll;

    poll.which = TARN__FENCES_ALL;
    poll.most = TARN__FENCES_POLL_MAX;
    tarn__pool_lock(pool);
    poll.round = ++pool->poll_round;
    choose_next(pool, &poll);
    tarn__pool_unlock(pool);
    return tarn__fences_poll_end(pool, &poll);
}
