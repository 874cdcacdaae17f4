/* old.c -- retired mappings: places whose memory moved while queued work still used them.
 *
 * Memory that a stream freed is available to that stream at once, and to another stream
 * after a wait. It cannot be unmapped before the device has finished with it. So the pool
 * maps it a second time, and the stream uses that mapping from now on. In the order of
 * the device, both mappings are the same bytes. The retired mapping stays until an event
 * reports that no work uses it.
 */
#include "resource/pool/idle.h"
#include <stdlib.h>

struct tarn__old {
    tarn__index node; /* the node (OLD) of exactly the span that moved */
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

/* Turn the place into a hole. The driver has unmapped it, or keeps it noted as stuck. */
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

/* The most events queried at once. */
enum { ASK_MAX = 16 };

/* The answers of this round. */
struct answers {
    struct {
        const struct tarn__lane *lane;
        CUevent_ event;
        bool done;
    } all[ASK_MAX];
    unsigned count;
};

/* Return false if the state of this event is unknown. If one of the lane was not
 * complete, the others probably are not. A mapping that is kept longer costs addresses
 * alone. */
static bool is_known(const struct answers *answers, const struct tarn__old *old,
                     bool *done_out)
{
    for (unsigned i = answers->count; i-- > 0;)
        if (answers->all[i].lane == old->lane &&
            (answers->all[i].event == old->event || !answers->all[i].done)) {
            *done_out = answers->all[i].done;
            return true;
        }
    return false;
}

static bool is_done(struct tarn__pool *pool, const struct tarn__old *old,
                    struct answers *answers)
{
    bool done;

    if (TARN_MUTATION(old_place_unmapped_early))
        return true;
    tarn__pool_lock(pool);
    done = old->lane->done_epoch >= old->epoch;
    tarn__pool_unlock(pool);
    if (done || is_known(answers, old, &done))
        return done;
    if (answers->count == ASK_MAX)
        return false;
    done = pool->calls->event_query(old->event) == CUDA_SUCCESS_;
    tarn__pool_lock(pool);
    pool->queries++;
    tarn__pool_unlock(pool);
    answers->all[answers->count].lane = old->lane;
    answers->all[answers->count].event = old->event;
    answers->all[answers->count++].done = done;
    return done;
}

void tarn__old_leave(struct tarn__pool *pool)
{
    struct answers answers = {.count = 0};
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
