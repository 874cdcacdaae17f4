/* old.c -- places in a pool's range whose memory moved while queued work still used them.
 *
 * Memory that a stream freed may be had again on that stream at once, and by another one
 * behind a wait, but it cannot be unmapped before the device is done with it. So it is mapped
 * at a second place, where the stream uses it from now on: in order on the device, it is the
 * same bytes at either. The old place stays mapped until an event says that nobody uses it.
 */
#include "resource/pool/idle.h"
#include <stdlib.h>

struct tarn__old {
    tarn__index node; /* OLD; it is exactly the span that moved */
    struct tarn__lane *lane;
    uint64_t epoch;
    CUevent_ event; /* behind the last use; pinned */
};

enum { OLD_MAX = 4096 };

bool tarn__old_reserve(struct tarn__pool *pool, unsigned count)
{
    size_t need = pool->old_count + count;

    if (need <= pool->old_room || need > OLD_MAX)
        return need <= pool->old_room;
    struct tarn__old *olds = realloc(pool->olds, 2 * need * sizeof *olds);
    if (!olds)
        return false;
    pool->olds = olds;
    pool->old_room = 2 * need;
    return true;
}

void tarn__old_add(struct tarn__pool *pool, tarn__index node, struct tarn__lane *lane,
                   uint64_t epoch, CUevent_ event)
{
    tarn__heap_make_old(&pool->heap, node);
    pool->olds[pool->old_count++] = (struct tarn__old){node, lane, epoch, event};
}

/* The driver has unmapped it, or keeps it noted as stuck: a hole. */
static void leave(struct tarn__pool *pool, const struct tarn__old *old)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, old->node);

    tarn__pages_leave(pool->pages,
                      (struct tarn__span){node->address, tarn__node_bytes(node)});
    tarn__pool_lock(pool);
    tarn__heap_end_old(&pool->heap, old->node);
    tarn__heap_make_hole(&pool->heap, old->node);
    tarn__lane_unpin(old->lane, old->event);
    tarn__heap_forget_lane(&pool->heap, old->lane);
    tarn__pool_unlock(pool);
}

/* Events that are asked about; the one that was asked last is behind most of what follows
 * it in the list. */
enum { ASK_MAX = 16 };

struct answers {
    CUevent_ event;
    bool done;
    unsigned asked;
};

static bool is_done(struct tarn__pool *pool, const struct tarn__old *old,
                    struct answers *answers)
{
    if (TARN_MUTATION(old_place_unmapped_early))
        return true;
    tarn__pool_lock(pool);
    bool done = old->lane->done_epoch >= old->epoch;
    pool->queries += !done && answers->event != old->event && answers->asked < ASK_MAX;
    tarn__pool_unlock(pool);
    if (done || answers->event == old->event)
        return done || answers->done;
    if (answers->asked == ASK_MAX)
        return false;
    CUresult_ result = pool->calls->event_query(old->event);
    *answers = (struct answers){old->event, result == CUDA_SUCCESS_, answers->asked + 1};
    return answers->done;
}

void tarn__old_leave(struct tarn__pool *pool)
{
    struct answers answers = {0};
    CUstreamCaptureMode_ mode;
    size_t kept = 0;

    /* A query would end captures of this thread, or of others in global mode. */
    if (pool->old_count == 0 || tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return;
    for (size_t i = 0; i < pool->old_count; i++)
        if (is_done(pool, &pool->olds[i], &answers))
            leave(pool, &pool->olds[i]);
        else
            pool->olds[kept++] = pool->olds[i];
    pool->old_count = kept;
    tarn__relaxed_leave(pool->calls, mode);
}

void tarn__old_leave_all(struct tarn__pool *pool)
{
    while (pool->old_count > 0)
        leave(pool, &pool->olds[--pool->old_count]);
}
