/* steal.c -- memory of another stream, behind a wait.
 *
 * The caller's stream is made to wait for a fence that covers all that the donor queued
 * before it freed the block. What is cut off stays the donor's, with the fence it has. The
 * block is in the order of the caller's stream from then on: when it is freed there, it
 * gets that stream's open epoch, whose fence is recorded behind the wait.
 */
#include "resource/pool/pool.h"

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
    out->event = out->donor->fences[fence].event;
    out->donor->fences[fence].pins++;
    out->donor->users++;
    pool->waits++;
    return true;
}

static void unpin(const struct theft *theft)
{
    for (size_t i = 0; i < theft->donor->fence_count; i++)
        if (theft->donor->fences[i].event == theft->event)
            theft->donor->fences[i].pins--;
    theft->donor->users--;
}

tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct theft theft;

    if (!caller->may_record || caller->lane->is_capture)
        return 0;
    tarn__pool_lock(pool);
    bool found = choose(caller, request, &theft);
    tarn__pool_unlock(pool);
    if (!found)
        return 0;
    CUresult_ result = TARN_MUTATION(steal_without_wait)
                           ? CUDA_SUCCESS_
                           : caller->scope.calls->stream_wait_event(caller->handle,
                                                                    theft.event, 0);
    tarn__pool_lock(pool);
    unpin(&theft);
    if (result == CUDA_SUCCESS_ || TARN_MUTATION(wait_failed_taken_as_done)) {
        pool->steals++;
    } else {
        /* Nothing was waited for: it is the donor's as before, of its open epoch. */
        tarn__heap_put(&pool->heap, theft.block, theft.donor);
        theft.block = 0;
    }
    tarn__pool_unlock(pool);
    return theft.block;
}
