/* fence.c -- event fences: recording an event for each epoch, and querying which are
 * complete.
 *
 * An epoch is a group of frees of one stream. An event fence is an event that the pool
 * records on the stream after these frees. It covers them and all earlier frees of the
 * stream. Once the event is complete, the device has done the work that was queued before
 * these frees. The order of three steps makes this safe between threads:
 *
 *    close      Later frees belong to the next epoch. This step precedes the record.
 *               Otherwise a free after the record would belong to this epoch, and the
 *               event would not cover it.
 *    record     The thread records the event on the stream, without the pool's lock.
 *    publish    The event fence enters the list of its stream state, where other threads
 *               find it. This step follows a successful record. So no stream waits for an
 *               event that was never recorded.
 *
 * Words of this file:
 *
 *    to fence                 to close the open epoch, record an event for it and publish
 *                             the event fence
 *    unfenced bytes           free memory that no published event fence covers
 *    caller                   an allocation or free under way, with its stream (caller.h)
 *    no-stream state          the stream state of no-stream frees (TARN__KEY_NO_STREAM).
 *                             Its event is recorded after all work of the context.
 *    to pin an event          to count a call that uses it (tarn__events_pin()). Until
 *                             the call unpins it, the pool does not record it for another
 *                             epoch. It has nothing to do with page-locked memory.
 *    heap                     the pool's blocks, free and live, and its stream states
 *    heap.with_memory         the list of the stream states that have free blocks;
 *                             tarn__heap_state(heap, i) is the stream state with index i
 *    immediately available    the caller's same-stream frees, and all completed frees
 *    miss                     a search that found nothing immediately available
 *    users                    the calls, thread caches and captures that hold a stream
 *                             state; it is not deleted before all of them have left
 *    key, identity            the key of a stream state is the id of its stream, or a
 *                             number of Tarn's own: for the legacy stream, no-stream
 *                             frees, orphaned memory and captures (stream_state.h). The
 *                             identity (identity.h) is the table from keys to stream
 *                             states.
 *    capture                  memory of a captured graph has a stream state of its own,
 *                             with `is_capture`. It waits for the owner of the graph, so
 *                             it gets no event fence.
 *    may_record               false while the caller's stream captures, and for the
 *                             legacy stream while any blocking stream captures
 *    pool->pages              the physical memory of the pool (backing/pages.h): VMM, or
 *                             segments of an upstream. It makes the device-wide wait.
 *    scope                    the time in which a call has the primary context of the
 *                             device current (driver/driver.h); scope->calls is the table
 *                             of driver calls
 *    `lock` held              the caller holds the pool's lock, `pool->lock`
 *
 * Types with a trailing underscore are Tarn's own declarations of the driver's types
 * (driver/cuda_abi.h). TARN_MUTATION(x) is a fault that test builds plant; in any other
 * build it is false (mutations.h).
 */
#include "pool/order/fence.h"
#include "pool/order/epoch.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"
#include "pool/pool.h"
#include "driver/stream.h"

/* Bound of the unfenced bytes of all streams: 1/UNFENCED_PART of the reserved bytes (or of
 * tarn__pool_scale()), at least UNFENCED_MIN. No other stream can use unfenced memory, so
 * the pool grows by about as much. The bound also limits the orphaned memory. On eight
 * traces with 4 to 32 streams on an H200, 1/32 needs less memory than 1/8 and less time:
 * an event or a query costs less than the search of a miss. A pool with the policy
 * TARN_POOL_POLICY_TIGHT has UNFENCED_PART_TIGHT in its place. A pool with a low maximum
 * needs its memory sooner: there the least is 1/UNFENCED_MAXIMUM_PART of the maximum, and
 * UNFENCED_LOW. */
#define UNFENCED_MIN ((uint64_t)8 << 20)
#define UNFENCED_LOW ((uint64_t)2 << 20)
enum { UNFENCED_MAXIMUM_PART = 16, UNFENCED_PART = 32, UNFENCED_PART_TIGHT = 64 };

/* The longest interval of a stream: the number of its frees between two event fences.
 * ALONE: no other stream uses the memory. RAW and REGISTERED: others do, and the stream
 * is a raw or a registered one. */
enum { INTERVAL_ALONE = 4095, INTERVAL_RAW = 100, INTERVAL_REGISTERED = 120 };

/* With more stream states than this that have free memory, some of their streams have
 * probably been destroyed. The pool cannot delete such a stream state while its frees are
 * unfenced. So it then fences frees of less than share_of_each(), too. */
enum { STREAMS_MANY = 64 };

/* Return the bound of the unfenced bytes of all streams together. */
static uint64_t bound_of_all(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    unsigned part = tarn__pool_is_tight(pool) ? UNFENCED_PART_TIGHT : UNFENCED_PART;
    uint64_t bound = tarn__pool_scale(pool) / part;
    uint64_t least = tarn__pool_maximum(pool) / UNFENCED_MAXIMUM_PART;

    least = least < UNFENCED_MIN ? least : UNFENCED_MIN;
    least = least < UNFENCED_LOW ? UNFENCED_LOW : least;
    return bound < least ? least : bound;
}

/* Return the part of the bound that one stream may use. */
static uint64_t share_of_each(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    size_t stream_states = pool->heap.with_memory.count;

    return bound_of_all(pool) / (stream_states > 1 ? stream_states : 1);
}

/* Return true if no stream needs an event fence: one stream has all of the free memory,
 * and no other stream has had a miss. One stream may free all that another stream
 * allocates. The freeing stream then has all of the free memory, too. The first miss of
 * the other stream sets `is_shared`, and the result is false from then on. */
static bool is_of_one_stream(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    return pool->heap.with_memory.count < 2 && !pool->is_shared;
}

/* Return true if the unfenced bytes of all streams and `bytes` more exceed the bound. A
 * fence can then be due before the interval has passed (tarn__fence_is_due()): with large
 * blocks a few frees exceed the bound. */
static bool is_over_bound(const struct tarn__pool *pool, uint64_t bytes)
    TARN__REQUIRES(pool_lock)
{
    return !is_of_one_stream(pool) &&
           pool->heap.unfenced_bytes + bytes > bound_of_all(pool);
}

/* A fence is due if the stream state has unfenced bytes, no thread is recording an event
 * for it, and one of these holds:
 *
 *    - Another stream needs the memory (`wanted`).
 *    - The interval has passed, or the bound is exceeded. And the stream state has more
 *      than its share of the bound, or there are many stream states. */
bool tarn__fence_is_due(const struct tarn__pool *pool,
                        const struct tarn__stream_state *stream_state)
{
    tarn__assert_held(&pool->lock);

    uint64_t unfenced = tarn__stream_state_unfenced(stream_state);

    return unfenced > 0 && !stream_state->recording &&
           (stream_state->wanted ||
            ((stream_state->frees >= stream_state->interval || is_over_bound(pool, 0)) &&
             (unfenced > share_of_each(pool) ||
              pool->heap.with_memory.count > STREAMS_MANY)));
}

/* `is_early` is true for the first free after an event fence, unless the interval is 0 or
 * 1, also if that block exceeds the bound. Otherwise a loop that allocates and frees one
 * large block would record an event at each free. */
bool tarn__fence_can_wait(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    bool is_early = stream_state->frees + 1 < stream_state->interval &&
                    (stream_state->frees == 0 || !is_over_bound(pool, bytes));

    return !stream_state->wanted && !stream_state->recording &&
           (is_early ||
            (tarn__stream_state_unfenced(stream_state) + bytes <= share_of_each(pool) &&
             pool->heap.with_memory.count <= STREAMS_MANY));
}

/* Choose the interval until the next event fence: how many frees of the stream may come
 * before it. A loop that frees and allocates the same memory has no misses and needs no
 * event fences. So the new interval is:
 *
 *    no miss of any stream since the last event fence    twice the old one, plus 1
 *    a miss, raw stream                                  0
 *    a miss, registered stream                           half of the old one
 *
 * The thread that misses can itself fence the frees of a registered stream, so the
 * interval of such a stream only halves. */
static void set_interval(const struct tarn__pool *pool,
                         struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    bool steady = stream_state->misses == pool->heap.misses;
    unsigned among_others =
        stream_state->identity.registration ? INTERVAL_REGISTERED : INTERVAL_RAW;
    unsigned most = is_of_one_stream(pool) ? INTERVAL_ALONE : among_others;
    unsigned shorter =
        stream_state->identity.registration ? stream_state->interval / 2 : 0;

    stream_state->interval = steady ? 2 * stream_state->interval + 1 : shorter;
    if (stream_state->interval > most)
        stream_state->interval = most;
    stream_state->misses = pool->heap.misses;
    stream_state->frees = 0;
}

CUevent_ tarn__fence_event(struct tarn__pool *pool, const struct tarn__scope *scope)
{
    tarn__pool_lock(pool);
    CUevent_ event = tarn__events_take(&pool->heap);
    tarn__pool_unlock(pool);
    if (event)
        return event;
    tarn__pages_note_call(pool->pages);
    if (scope->calls->event_create(&event, CU_EVENT_DISABLE_TIMING_) != CUDA_SUCCESS_)
        return NULL;
    return event;
}

/* Keep an unused event for reuse. If the list of unused events cannot grow for lack of
 * host memory, destroy the event. */
static void keep_event(struct tarn__pool *pool, const struct tarn__scope *scope,
                       CUevent_ event)
{
    tarn__pool_lock(pool);
    bool kept = tarn__events_keep(&pool->heap, event);
    tarn__pool_unlock(pool);
    if (kept)
        return;
    tarn__pages_note_call(pool->pages);
    scope->calls->event_destroy(event);
}

/* Record an event after the queued work of the stream. For the no-stream state, record it
 * after all queued work of the context; `handle` is then unused. */
static CUresult_ record(struct tarn__pool *pool, const struct tarn__scope *scope,
                        const struct tarn__stream_state *stream_state, CUstream_ handle,
                        CUevent_ event)
{
    if (stream_state->identity.key == TARN__KEY_NO_STREAM &&
        !TARN_MUTATION(event_on_default_stream))
        return scope->calls->ctx_record_event(pool->context, event);
    return scope->calls->event_record(event, handle);
}

/* How to fence: always by an event, or for an idle stream by a query. */
enum how { BY_EVENT, BY_QUERY_IF_IDLE };

/* One fencing of a stream state. It holds the lock at its begin and at its end, and makes
 * its driver calls in between. */
struct fencing {
    struct tarn__stream_state *stream_state; /* the call is one of its users */
    CUstream_ handle; /* valid, and of that stream; NULL: of the no-stream state */
    uint64_t epoch;   /* the closed one */
    bool may_query;   /* a query of the stream may replace the event */
    bool is_non_blocking, has_queried, is_idle; /* as far as known */
    CUevent_ event;                             /* NULL: none yet */
    bool is_recorded;
    bool is_others; /* other threads may use the stream during the fencing */
};

/* Close the open epoch. Returns false if another thread is recording an event for this
 * stream state, or if the stream state has no unfenced bytes. The back-off `idle` skips
 * the query if the last ones found the stream busy. `lock` held. */
static bool begin_fencing(struct tarn__pool *pool, struct fencing *fencing, enum how how)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__stream_state *stream_state = fencing->stream_state;

    if (stream_state->recording || tarn__stream_state_unfenced(stream_state) == 0)
        return false;
    fencing->epoch = tarn__epoch_close(&pool->heap, stream_state);
    fencing->may_query = how == BY_QUERY_IF_IDLE &&
                         stream_state->identity.kind != TARN__KIND_BLOCKING &&
                         tarn__backoff_next(&stream_state->idle);
    fencing->is_non_blocking = stream_state->identity.kind == TARN__KIND_NON_BLOCKING;
    if (!fencing->may_query)
        fencing->event = tarn__events_take(&pool->heap);
    return true;
}

/* End the fencing of a stream state, after success and after failure. It changes three
 * things:
 *
 *    recording          false: other threads may fence the stream state again
 *    wanted             false: the request of another stream has ended. After a failure,
 *                       the next miss of that stream sets it again.
 *    frees, interval    the count of frees begins at 0, with a new interval
 *
 * `lock` held. */
static void reopen(struct tarn__pool *pool, struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    stream_state->recording = false;
    stream_state->wanted = false;
    set_interval(pool, stream_state);
}

/* Record an event for the closed epoch. Another thread's stream may have joined a capture
 * before the record, and the event is then an event of that capture: a query of it would
 * invalidate the capture, and a stream that waits for it would join it. Such an event
 * counts as not recorded. */
static void record_event(struct tarn__pool *pool, const struct tarn__scope *scope,
                         struct fencing *fencing)
{
    if (!fencing->event)
        fencing->event = tarn__fence_event(pool, scope);
    if (TARN_MUTATION(fence_published_before_call)) {
        tarn__pool_lock(pool);
        tarn__epoch_publish_fence(&pool->heap, fencing->stream_state, fencing->epoch,
                                  fencing->event);
        tarn__pool_unlock(pool);
    }
    if (fencing->event)
        fencing->is_recorded = record(pool, scope, fencing->stream_state, fencing->handle,
                                      fencing->event) == CUDA_SUCCESS_;
    if (fencing->is_recorded && fencing->is_others)
        fencing->is_recorded = !tarn__stream_may_capture(scope->calls, fencing->handle);
}

/* Publish the event fence, after its event was recorded. Returns false if the event
 * remains the caller's. Without an event fence the epoch stays closed and unfenced, and
 * the next event fence covers it. `lock` held. */
static bool publish(struct tarn__pool *pool, const struct fencing *fencing)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__stream_state *stream_state = fencing->stream_state;
    uint64_t epoch = fencing->epoch;

    pool->counters.fences += fencing->event != NULL;
    if (TARN_MUTATION(epoch_closed_after_record))
        epoch = stream_state->open_epoch++;
    return fencing->is_recorded &&
           (TARN_MUTATION(fence_published_before_call) ||
            tarn__epoch_publish_fence(&pool->heap, stream_state, epoch, fencing->event));
}

/* --- an idle stream needs no event --- */

/* Return true if the stream was created with CU_STREAM_NON_BLOCKING.
 *
 * Only for such a stream can a query (cuStreamQuery) replace an event. A blocking stream
 * and the legacy stream wait for the work of each other. So a free on a blocking stream
 * may be ordered after work that is queued on another stream. An event on the blocking
 * stream covers that work. A query covers the queue of the blocking stream alone, and the
 * queue may be empty.
 *
 * Only keys below TARN__KEY_CAPTURES are ids of streams (stream_state.h). A stream state
 * with another key counts as blocking, and so does a per-thread default stream. */
static bool is_non_blocking(struct tarn__pool *pool, const struct tarn__scope *scope,
                            const struct fencing *fencing)
{
    struct tarn__state_identity *identity = &fencing->stream_state->identity;
    enum tarn__stream_kind kind = TARN__KIND_BLOCKING;
    unsigned flags = 0;

    if (identity->key < TARN__KEY_CAPTURES &&
        (tarn_stream)fencing->handle != TARN_STREAM_PER_THREAD) {
        tarn__pages_note_call(pool->pages);
        if (scope->calls->stream_get_flags(fencing->handle, &flags) == CUDA_SUCCESS_ &&
            (flags & CU_STREAM_NON_BLOCKING_))
            kind = TARN__KIND_NON_BLOCKING;
    }
    tarn__pool_lock(pool);
    identity->kind = kind;
    tarn__pool_unlock(pool);
    return kind == TARN__KIND_NON_BLOCKING;
}

/* Query whether the stream is idle: all work queued on it is done. One query of the
 * stream then replaces an event and the query of that event. The query is made in relaxed
 * capture mode. In another mode it can invalidate captures (relaxed.c). */
static void query_idle(struct tarn__pool *pool, const struct tarn__scope *scope,
                       struct fencing *fencing)
{
    CUstreamCaptureMode_ mode;

    if (tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return;
    fencing->has_queried = true;
    fencing->is_idle = scope->calls->stream_query(fencing->handle) == CUDA_SUCCESS_ ||
                       TARN_MUTATION(stream_not_queried);
    tarn__relaxed_leave(pool->calls, mode);
}

/* Make the driver calls of a fencing: the query of a stream that may be idle, or the
 * record of an event. `lock` not held. */
static void call_driver(struct tarn__pool *pool, const struct tarn__scope *scope,
                        struct fencing *fencing)
{
    bool is_known = fencing->is_non_blocking;

    if (fencing->may_query && (is_known || is_non_blocking(pool, scope, fencing)))
        query_idle(pool, scope, fencing);
    if (!fencing->is_idle)
        record_event(pool, scope, fencing);
}

/* Complete the closed epoch of an idle stream, or publish the event fence. Returns false
 * if the event of `fencing` remains the caller's. `lock` held, and released in between. */
static bool end_fencing(struct tarn__pool *pool, const struct fencing *fencing)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__stream_state *stream_state = fencing->stream_state;
    uint64_t epoch = fencing->epoch;

    if (fencing->has_queried) {
        pool->counters.queries++;
        tarn__backoff_note(&stream_state->idle,
                           fencing->is_idle || TARN_MUTATION(epoch_closed_after_query));
    }
    reopen(pool, stream_state);
    if (!fencing->is_idle)
        return publish(pool, fencing);
    if (TARN_MUTATION(epoch_closed_after_query))
        epoch = stream_state->open_epoch++;
    tarn__epoch_complete(&pool->heap, stream_state, epoch);
    tarn__fences_poll_sweep(pool);
    return true;
}

/* Fence the frees of a stream state: close the epoch, record an event and publish it.
 * With BY_QUERY_IF_IDLE an idle stream needs no event: its closed epoch is complete. */
static void fence(struct tarn__pool *pool, const struct tarn__scope *scope,
                  struct tarn__stream_state *stream_state, CUstream_ handle, enum how how)
{
    struct fencing fencing = {
        .stream_state = stream_state, .handle = handle, .is_others = handle != NULL};

    tarn__pool_lock(pool);
    bool begins = begin_fencing(pool, &fencing, how);
    tarn__pool_unlock(pool);
    if (!begins)
        return;
    call_driver(pool, scope, &fencing);
    tarn__pool_lock(pool);
    bool is_kept = end_fencing(pool, &fencing);
    tarn__pool_unlock(pool);
    if (fencing.event && !is_kept)
        keep_event(pool, scope, fencing.event);
}

void tarn__fence_no_stream(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state)
{
    fence(pool, scope, stream_state, NULL, BY_EVENT);
}

/* --- the frees of the caller's stream --- */

/* The complete event fences that a call looks for after it has fenced its stream. */
enum { POLLS = 2 };

void tarn__fence_if_due(struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;
    struct fencing fencing = {.stream_state = caller->stream_state,
                              .handle = caller->handle};
    struct tarn__fences_poll poll;

    if (!caller->may_record || caller->stream_state->is_capture)
        return;
    tarn__pool_lock(pool);
    bool begins = tarn__fence_is_due(pool, caller->stream_state) &&
                  begin_fencing(pool, &fencing, BY_QUERY_IF_IDLE);
    tarn__pool_unlock(pool);
    if (!begins)
        return;
    call_driver(pool, &caller->scope, &fencing);
    tarn__pool_lock(pool);
    bool is_kept = end_fencing(pool, &fencing);
    /* Older event fences are usually complete by now. */
    tarn__fences_poll_begin(pool, &poll, POLLS);
    tarn__pool_unlock(pool);
    if (fencing.event && !is_kept)
        keep_event(pool, &caller->scope, fencing.event);
    tarn__fences_poll_end(pool, &poll);
}

void tarn__fence_same_stream(struct tarn__caller *caller)
{
    if (!caller->may_record)
        return;
    tarn__pool_lock(caller->pool);
    if (tarn__stream_state_unfenced(caller->stream_state) > 0)
        atomic_store(&caller->stream_state->wanted, true);
    tarn__pool_unlock(caller->pool);
    tarn__fence_if_due(caller);
}

/* --- other streams' unfenced memory --- */

/* The most stream states of one step. Between two steps the lock is released. */
enum { STEP_MAX = 128, REQUEST_MAX = 8 };

/* Mark the stream states of other streams that have unfenced bytes as `wanted`. The
 * function looks at the first STEP_MAX of the list `with_memory`: those that got memory
 * last. A thread of the marked stream fences its frees at its next call.
 *
 * Store up to REQUEST_MAX of them that belong to registered streams in `open`, each with
 * one user more, and return their number. This thread can fence these itself, because the
 * handle of a registered stream is valid while the lock of its registration is held. It
 * has no valid handle of a raw stream. `lock` held. */
static unsigned mark_wanted(struct tarn__pool *pool, const struct tarn__caller *caller,
                            struct tarn__stream_state **open) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    unsigned count = 0, looks = 0;

    for (tarn__index i = pool->heap.with_memory.first; i && looks < STEP_MAX;
         i = tarn__heap_state(&pool->heap, i)->with_memory.next, looks++) {
        struct tarn__stream_state *stream_state = tarn__heap_state(&pool->heap, i);
        if (stream_state == caller->stream_state || stream_state->is_capture ||
            tarn__stream_state_unfenced(stream_state) == 0)
            continue;
        stream_state->wanted = true;
        if (stream_state->identity.registration && count < REQUEST_MAX) {
            stream_state->users++;
            open[count++] = stream_state;
        }
    }
    return count;
}

/* Fence the frees of a registered stream that is not the caller's, unless it captures.
 * `stream` is the value that tarn_stream_register() returned. The stream may have been
 * unregistered since, so the function looks for its registration again under the lock.
 *
 * `registration->captures` is true during a capture that the program has announced. A
 * stream can also join a capture by waiting for an event of a capturing stream. The
 * program does not announce that, so the pool queries the driver. */
static void fence_registered(struct tarn__pool *pool, const struct tarn__scope *scope,
                             struct tarn__stream_state *stream_state, tarn_stream stream)
{
    struct tarn__registration *registration = tarn__registration_find(stream);

    if (!registration)
        return;
    pthread_mutex_lock(&registration->lock);
    if (tarn__registration_find(stream) == registration &&
        !atomic_load(&registration->captures) &&
        !tarn__stream_may_capture(scope->calls, registration->handle))
        fence(pool, scope, stream_state, registration->handle, BY_EVENT);
    pthread_mutex_unlock(&registration->lock);
}

/* Record the last event fence of a stream that is being unregistered. The caller holds
 * `registration->lock`, so the handle is still valid. Afterwards the pool has no valid
 * handle of the stream. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__registration *registration)
{
    struct tarn__scope scope;

    tarn__pool_lock(pool);
    struct tarn__stream_state *stream_state =
        tarn__identity_find_registered(&pool->heap, registration);
    if (stream_state) {
        stream_state->users++;
        if (stream_state->identity.registration == stream)
            stream_state->identity.registration = NULL;
    }
    tarn__pool_unlock(pool);
    if (!stream_state)
        return;
    if (tarn__scope_enter(pool->device, &scope) == TARN_OK) {
        if (scope.context_generation == pool->context_generation &&
            !tarn__stream_may_capture(scope.calls, registration->handle))
            fence(pool, &scope, stream_state, registration->handle, BY_QUERY_IF_IDLE);
        tarn__scope_leave(&scope);
    }
    tarn__pool_lock(pool);
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
    tarn__pool_unlock(pool);
}

/* Mark the stream states whose memory the caller needs, and fence those of registered
 * streams. A raw stream's handle is valid only in calls on that stream, so its next call
 * fences its frees. */
void tarn__fences_request(struct tarn__pool *pool, const struct tarn__caller *caller)
{
    struct tarn__stream_state *open[REQUEST_MAX];
    tarn_stream streams[REQUEST_MAX];

    tarn__pool_lock(pool);
    unsigned count = mark_wanted(pool, caller, open);
    for (unsigned i = 0; i < count; i++)
        streams[i] = open[i]->identity.registration;
    tarn__pool_unlock(pool);
    for (unsigned i = 0; i < count; i++)
        fence_registered(pool, &caller->scope, open[i], streams[i]);
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < count; i++) {
        open[i]->users--;
        tarn__identity_delete_if_unused(&pool->heap, open[i]);
    }
    tarn__pool_unlock(pool);
}

/* "Locked" is the mutex `device_wait`, not `lock`. The epochs are closed before the wait,
 * and only these are completed after it: a free during the wait is not covered. */
tarn_status tarn__fences_wait_for_device_locked(struct tarn__pool *pool)
{
    tarn__index next = 1;

    tarn__pool_lock(pool);
    while (tarn__epoch_close_some(&pool->heap, &next, STEP_MAX))
        tarn__pool_relock(pool);
    pool->counters.device_waits++;
    tarn__pool_unlock(pool);
    tarn_status status = TARN_MUTATION(device_wait_left_out)
                             ? TARN_OK
                             : tarn__pages_wait_for_device(pool->pages);
    if (status != TARN_OK)
        return status;
    next = 1;
    tarn__pool_lock(pool);
    while (tarn__epoch_complete_some(&pool->heap, &next, STEP_MAX))
        tarn__pool_relock(pool);
    tarn__fences_poll_sweep(pool);
    tarn__pool_unlock(pool);
    return TARN_OK;
}

tarn_status tarn__fences_wait_for_device(struct tarn__pool *pool)
{
    tarn__pool_take_device_wait(pool);
    tarn_status status = tarn__fences_wait_for_device_locked(pool);
    tarn__pool_leave_device_wait(pool);
    return status;
}
