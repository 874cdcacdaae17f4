/* mutations.h -- places at which a test build of the pool does the wrong thing on
 * purpose.
 *
 * tests/order proves that no block is handed out too early. To prove that it would see
 * one, the test breaks the pool, one rule at a time. libtarn is built a second time with
 * TARN_MUTATIONS. There the environment variable TARN_MUTATION names the rule that the
 * process breaks. In every other build TARN_MUTATION(name) is `false` and costs nothing.
 *
 *     if (!TARN_MUTATION(no_renewal))
 *         renew_fence(stream_state);
 *
 * The list is the test: tests/order/mutations.py runs each line of it. It fails for a
 * line that the order harness does not see, or that no code checks.
 */
#ifndef TARN_POOL_MUTATIONS_H
#define TARN_POOL_MUTATIONS_H

#include <stdbool.h>

/* X(name, the wrong behaviour) */
#define TARN__MUTATIONS(X)                                                               \
    X(no_renewal, "a consumer stream's frees keep their old event fence (RMM #2489)")    \
    X(epoch_closed_after_record, "frees after the record count as part of its epoch")    \
    X(epoch_closed_after_query, "frees after the query count as completed by it")        \
    X(stream_not_queried, "frees count as completed while their stream still works")     \
    X(fence_published_before_call, "a stream waits for an event not recorded yet")       \
    X(event_recycled_in_use, "an event is recorded again while others wait for it")      \
    X(remainder_without_fence, "the remainder of a split counts as completed")           \
    X(id_not_checked_before_record, "a stream state is found by its handle, not its id") \
    X(thread_cache_block_to_capture, "a thread cache serves a capturing stream")         \
    X(refill_in_capture,                                                                 \
      "a registered stream that joined a capture is served from its earlier frees")      \
    X(cache_kept_in_capture, "the thread caches of such a stream keep their blocks")     \
    X(coalesced_across_streams, "free neighbours of two streams are coalesced")          \
    X(completed_too_early, "an epoch completes with the fence of the previous one")      \
    X(segment_border_lost,                                                               \
      "a remainder at a segment's border may be coalesced across it")                    \
    X(unmapped_with_fence_pending, "memory is unmapped while queued work may use it")    \
    X(moved_without_wait, "another stream's free is moved and used without a wait")      \
    X(moved_taken_as_completed,                                                          \
      "memory moved behind event fences is used without a wait")                         \
    X(plan_not_checked,                                                                  \
      "memory moves that was taken since the plan to move it was made")                  \
    X(assembled_without_wait, "memory gathered from several streams is used unwaited")   \
    X(retired_unmapped_early, "moved memory is unmapped while queued work may use it")   \
    X(moves_anyway, "memory leaves its addresses in a pool that must not move any")      \
    X(growth_published_before_mapped, "addresses are published before they are mapped")  \
    X(wait_failed_taken_as_done, "a wait that failed in the driver counts as done")      \
    X(steal_without_wait, "a block of another stream is stolen without a wait")          \
    X(wait_noted_before_call, "a wait counts as made before the driver was called")      \
    X(wait_remembered_too_far, "a wait counts for the epoch after its fence, too")       \
    X(wait_used_in_capture,                                                              \
      "a capture takes what its stream has waited for before the capture")               \
    X(device_wait_left_out, "no-stream frees complete without a device-wide wait")       \
    X(closed_after_device_wait, "frees during a device-wide wait complete with it")      \
    X(no_stream_is_in_order, "no-stream allocations reuse no-stream frees unwaited")     \
    X(event_on_default_stream, "no-stream frees wait for the default stream alone")      \
    X(returned_taken_as_completed,                                                       \
      "what another thread returns from a thread cache counts as completed")             \
    X(plan_trusted_for_order, "a planned address is used without a wait for its order")  \
    X(orphaned_taken_as_completed, "frees of a destroyed stream complete without a "     \
                                   "wait")

#ifdef TARN_MUTATIONS
enum tarn__mutation {
#define X(name, what) TARN__MUTATION_##name,
    TARN__MUTATIONS(X)
#undef X
        TARN__MUTATION_COUNT
};
/* Return true if this rule is the one to break. Counts its calls, which the test
 * reads. */
bool tarn__mutation(enum tarn__mutation which);
#define TARN_MUTATION(name) tarn__mutation(TARN__MUTATION_##name)
/* Run other calls of the test in this thread, which holds no lock but maybe `growth`
 * (`has_growth`). So they come between two holds of the lock, in each run alike. */
void tarn__mutation_window(bool has_growth);
#define TARN_WINDOW(has_growth) tarn__mutation_window(has_growth)
#else
#define TARN_MUTATION(name) false
#define TARN_WINDOW(has_growth) ((void)0)
#endif

#endif
