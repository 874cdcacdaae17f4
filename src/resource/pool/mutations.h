/* mutations.h -- places at which a test build of the pool does the wrong thing on
 * purpose.
 *
 * tests/order proves that no block is handed out too early. To prove that it would see
 * one, the test breaks the pool, one rule at a time. libtarn is built a second time with
 * TARN_MUTATIONS. There the environment variable TARN_MUTATION names the rule that the
 * process breaks. In every other build TARN_MUTATION(name) is `false` and costs nothing.
 *
 *     if (!TARN_MUTATION(no_renewal))
 *         renew_fence(lane);
 *
 * The list is the test: tests/order/mutations.py runs each line of it. It fails for a
 * line that the order harness does not see, or that no code checks.
 */
#ifndef TARN_POOL_MUTATIONS_H
#define TARN_POOL_MUTATIONS_H

#include <stdbool.h>

/* X(name, the wrong behaviour) */
#define TARN__MUTATIONS(X)                                                               \
    X(no_renewal, "what a thief frees counts as covered by its old fence (RMM #2489)")   \
    X(epoch_closed_after_record, "frees after the record count as covered by it")        \
    X(epoch_closed_after_query, "frees after the question count as done by it")          \
    X(stream_not_queried, "what a stream freed is ready while it is behind")             \
    X(fence_published_before_call, "others wait for an event that is not recorded yet")  \
    X(event_recycled_in_use, "an event is recorded anew while others rely on it")        \
    X(remainder_without_fence, "what is split off a fenced block is ready for anybody")  \
    X(id_not_checked_before_record, "a lane is found by the handle, not by the id")      \
    X(thread_cache_block_to_capture, "a capturing stream is served from a magazine")     \
    X(coalesced_across_streams, "neighbours of different streams become one block")      \
    X(completed_too_early,                                                               \
      "an epoch counts as done with the fence of the one before it")                     \
    X(segment_border_lost,                                                               \
      "what is split off at a segment's border may merge across it")                     \
    X(unmapped_with_fence_pending, "memory is unmapped while queued work may touch it")  \
    X(moved_without_wait, "what another stream freed is moved and used without a wait")  \
    X(moved_taken_as_completed, "what moved behind fences may be had without a wait")    \
    X(assembled_without_wait, "pieces of several streams become one's without a wait")   \
    X(retired_unmapped_early, "what moved is unmapped while queued work may touch it")   \
    X(growth_published_before_mapped, "addresses are handed out before they are mapped") \
    X(wait_failed_taken_as_done, "a wait that the driver refused counts as one")         \
    X(steal_without_wait, "a block of another stream is taken without a wait")           \
    X(device_wait_left_out, "what nobody freed is ready without a barrier")              \
    X(no_stream_is_in_order, "who names no stream has again what nobody freed")          \
    X(event_on_default_stream, "what nobody freed waits for the default stream alone")   \
    X(orphaned_taken_as_completed,                                                       \
      "what a stream that ended left is ready without a wait")

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
#else
#define TARN_MUTATION(name) false
#endif

#endif
