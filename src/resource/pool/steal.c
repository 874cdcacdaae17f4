/* steal.c -- cross-stream reuse: another stream's memory, after a wait.
 *
 * The caller's stream waits for an event fence. The fence covers all the work that the
 * source stream queued before it freed the block. A split-off part stays with the source
 * stream, with its event fence. From then on the block is in the order of the caller's
 * stream. When it is freed there, it gets that stream's open epoch, whose event is
 * recorded behind the wait.
 */
#include "resource/pool/steal.h"

struct theft {
    struct tarn__lane *donor;
    CUevent_ event;
    tarn__index block;
};

/* Choose a block and pin its fence. `lock` held. */
static bool choose(struct tarn__caller *caller, const struct tarn__request *request,
                   struct theft *out)
{
    struct tarn__pool *pool = caller->pool;
    size_t fence;

    out->block = tarn__heap_take_from_donor(&pool->heap, caller->lane, request,
                                            &out->donor, &fence);
    if (!out->block)
        return false;
    out->event = tarn__lane_pin(out->donor, &out->donor->fences[fence]);
    pool->waits++;
    return true;
}

/* Delete the lane of a source stream that has ended, and lost its last block here. */
static void let_go(struct tarn__heap *heap, struct tarn__lane *donor, CUevent_ event)
{
    tarn__lane_unpin(donor, event);
    tarn__heap_forget_lane(heap, donor);
}

tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct theft theft;

    if (!caller->may_record || caller->lane->is_capture || atomic_load(&pool->gate))
        return 0;
    tarn__pool_lock(pool);
    bool found = choose(caller, request, &theft);
    tarn__pool_unlock(pool);
    if (!found)
        return 0;
    CUresult_ result =
        TARN_MUTATION(steal_without_wait)
            ? CUDA_SUCCESS_
            : caller->scope.calls->stream_wait_event(caller->handle, theft.event, 0);
    tarn__pool_lock(pool);
    if (result == CUDA_SUCCESS_ || TARN_MUTATION(wait_failed_taken_as_done)) {
        pool->steals++;
    } else {
        /* The stream did not wait: the block returns to the source stream, in its open
         * epoch. */
        tarn__heap_put(&pool->heap, theft.block, theft.donor);
        theft.block = 0;
    }
    let_go(&pool->heap, theft.donor, theft.event);
    tarn__pool_unlock(pool);
    return theft.block;
}

/* --- adjacent blocks of several streams --- */

static void cover(struct tarn__covers *covers, struct tarn__lane *lane, uint64_t epoch)
{
    unsigned i = 0;

    while (i < covers->count && covers->all[i].lane != lane)
        i++;
    if (i == covers->count)
        covers->all[covers->count++] = (struct tarn__cover){lane, epoch, NULL};
    if (covers->all[i].epoch < epoch)
        covers->all[i].epoch = epoch;
}

void tarn__covers_add(struct tarn__covers *covers, const struct tarn__caller *caller,
                      const struct tarn__run *run)
{
    struct tarn__heap *heap = &caller->pool->heap;

    for (size_t i = 0; i < run->count; i++)
        if (run->lanes[i] && run->lanes[i] != caller->lane->index)
            cover(covers, tarn__lane(heap, run->lanes[i]), run->epochs[i]);
}

void tarn__covers_pin(struct tarn__covers *covers, struct tarn__pool *pool)
{
    for (unsigned i = 0; i < covers->count; i++) {
        struct tarn__cover *one = &covers->all[i];
        size_t fence = tarn__lane_fence_for(one->lane, one->epoch);
        one->event = tarn__lane_pin(one->lane, &one->lane->fences[fence]);
    }
    pool->waits += covers->count;
}

bool tarn__covers_wait(const struct tarn__covers *covers,
                       const struct tarn__caller *caller)
{
    for (unsigned i = 0; i < covers->count; i++)
        if (!TARN_MUTATION(steal_without_wait) &&
            caller->scope.calls->stream_wait_event(caller->handle, covers->all[i].event,
                                                   0) != CUDA_SUCCESS_)
            return false;
    return true;
}

void tarn__covers_let_go(const struct tarn__covers *covers, struct tarn__heap *heap)
{
    for (unsigned i = 0; i < covers->count; i++)
        let_go(heap, covers->all[i].lane, covers->all[i].event);
}

/* Take a run, and pin the event fences that cover its pieces. `lock` held. */
static bool choose_run(struct tarn__caller *caller, const struct tarn__request *request,
                       struct tarn__run *run, struct tarn__covers *covers)
{
    covers->count = 0;
    tarn__heap_take_run(&caller->pool->heap, caller->lane, request, run);
    tarn__covers_add(covers, caller, run);
    tarn__covers_pin(covers, caller->pool);
    return run->count > 0;
}

tarn__index tarn__steal_run(struct tarn__caller *caller,
                            const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__run run;
    struct tarn__covers covers;
    tarn__index index = 0;

    if (!caller->may_record || caller->lane->is_capture || atomic_load(&pool->gate))
        return 0;
    tarn__pool_lock(pool);
    bool found = choose_run(caller, request, &run, &covers);
    tarn__pool_unlock(pool);
    if (!found)
        return 0;
    bool waited =
        tarn__covers_wait(&covers, caller) || TARN_MUTATION(wait_failed_taken_as_done);

    tarn__pool_lock(pool);
    if (waited) {
        index = tarn__heap_weld(&pool->heap, &run);
        pool->steals++;
    } else {
        tarn__heap_put_run(&pool->heap, &run);
    }
    tarn__covers_let_go(&covers, &pool->heap);
    tarn__pool_unlock(pool);
    return index;
}
