/* fence.c -- event fences: recording an event for each epoch, and querying which are
 * complete.
 *
 * An epoch is a group of frees of one stream. An event fence is the recorded event that
 * closes it. The order of three steps makes this safe between threads. The pool closes
 * the epoch before it records the event, so that the event does not cover a free in
 * between. It publishes the fence only after the record has succeeded, so that no stream
 * waits for an event that was never recorded. A call pins the events that it uses.
 */
#include "pool/order/fence.h"
#include "pool/order/epoch.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"
#include "pool/pool.h"

/* Bound of free memory without an event fence, as a part of the pool. It limits the
 * memory lost with a stream that the pool never sees again. A smaller bound would make
 * fences cost more than they save. */
#define UNFENCED_MIN ((uint64_t)2 << 20)
#define UNFENCED_PART 8

/* The most frees between two event fences: of a stream by itself, and where other streams
 * may use the memory. */
enum { INTERVAL_ALONE = 4095, INTERVAL_RAW = 100, INTERVAL_REGISTERED = 120 };

/* With more streams than this some have probably ended. The pool deletes those only once
 * the little that each left is fenced. */
enum { STREAMS_MANY = 64 };

static uint64_t bound_of_all(const struct tarn__pool *pool)
{
    uint64_t bound = tarn__pages_reserved(pool->pages) / UNFENCED_PART;

    return bound < UNFENCED_MIN ? UNFENCED_MIN : bound;
}

static uint64_t share_of_each(const struct tarn__pool *pool)
{
    size_t stream_states = pool->heap.with_memory_count;

    return bound_of_all(pool) / (stream_states > 1 ? stream_states : 1);
}

/* Return true if an event fence would be of no use to any stream. A stream that only
 * frees another stream's allocations has all of the free memory, too. The pool learns
 * that once the other stream finds nothing. */
static bool is_of_one_stream(const struct tarn__pool *pool)
{
    return pool->heap.with_memory_count < 2 && !pool->is_shared;
}

/* Return true if the unfenced memory exceeds its bound. A stream keeps its distance
 * between event fences, unless several streams exceed the common bound together, as large
 * blocks do before the distance is over. The frees of a registered stream are fenced when
 * other streams need them. */
static bool is_over_bound(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes)
{
    return !is_of_one_stream(pool) && !stream_state->registration &&
           pool->heap.unfenced_bytes + bytes > bound_of_all(pool);
}

bool tarn__fence_is_due(const struct tarn__pool *pool,
                        const struct tarn__stream_state *stream_state)
{
    tarn__assert_held(&pool->lock);

    uint64_t unfenced = tarn__stream_state_unfenced(stream_state);

    return unfenced > 0 && !stream_state->recording &&
           (stream_state->wanted || ((stream_state->frees >= stream_state->interval ||
                                      is_over_bound(pool, stream_state, 0)) &&
                                     (unfenced > share_of_each(pool) ||
                                      pool->heap.with_memory_count > STREAMS_MANY)));
}

/* Right after an event fence one block may exceed the bound. Otherwise a loop over a
 * large block would record an event at each free. */
bool tarn__fence_can_wait(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    bool is_early =
        stream_state->frees + 1 < stream_state->interval &&
        (stream_state->frees == 0 || !is_over_bound(pool, stream_state, bytes));

    return !stream_state->wanted && !stream_state->recording &&
           (is_early ||
            (tarn__stream_state_unfenced(stream_state) + bytes <= share_of_each(pool) &&
             pool->heap.with_memory_count <= STREAMS_MANY));
}

/* A loop that frees and takes the same memory would be fenced at each free, to no use. So
 * the distance grows while every search finds its memory immediately available. The first
 * search that has to go further makes it short again. For a registered stream it only
 * halves, because the thread that misses can record. */
static void set_interval(const struct tarn__pool *pool,
                         struct tarn__stream_state *stream_state)
{
    bool steady = stream_state->misses == pool->heap.misses;
    unsigned among_others =
        stream_state->registration ? INTERVAL_REGISTERED : INTERVAL_RAW;
    unsigned most = is_of_one_stream(pool) ? INTERVAL_ALONE : among_others;
    unsigned shorter = stream_state->registration ? stream_state->interval / 2 : 0;

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
    if (scope->calls->event_create(&event, CU_EVENT_DISABLE_TIMING_) != CUDA_SUCCESS_)
        return NULL;
    return event;
}

static void keep_event(struct tarn__pool *pool, const struct tarn__scope *scope,
                       CUevent_ event)
{
    tarn__pool_lock(pool);
    bool kept = tarn__events_keep(&pool->heap, event);
    tarn__pool_unlock(pool);
    if (!kept)
        scope->calls->event_destroy(event);
}

enum { SWEEP_MAX = 512 };

/* Make finished frees completed. `lock` held. */
static void sweep(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    while (tarn__epoch_sweep(&pool->heap, SWEEP_MAX)) {
        tarn__pool_unlock(pool); /* other threads may take it in between */
        tarn__pool_lock(pool);
    }
}

/* Record an event. For no-stream frees it is behind all work of the context. */
static CUresult_ record(struct tarn__pool *pool, const struct tarn__scope *scope,
                        const struct tarn__stream_state *stream_state, CUstream_ handle,
                        CUevent_ event)
{
    if (stream_state->key == TARN__KEY_NO_STREAM &&
        !TARN_MUTATION(event_on_default_stream))
        return scope->calls->ctx_record_event(pool->context, event);
    return scope->calls->event_record(event, handle);
}

/* Close the epoch. Returns false if another thread is recording, or there is nothing to
 * fence. */
static bool close_epoch(struct tarn__pool *pool, struct tarn__stream_state *stream_state,
                        uint64_t *epoch_out)
{
    tarn__pool_lock(pool);
    bool closes =
        !stream_state->recording && tarn__stream_state_unfenced(stream_state) > 0;
    if (closes)
        *epoch_out = tarn__epoch_close(&pool->heap, stream_state);
    tarn__pool_unlock(pool);
    return closes;
}

/* `lock` held. */
static void reopen(struct tarn__pool *pool, struct tarn__stream_state *stream_state)
{
    tarn__assert_held(&pool->lock);

    stream_state->recording = false;
    stream_state->wanted = false;
    set_interval(pool, stream_state);
}

/* Record and publish. Without an event the epoch stays closed, and the next event fence
 * covers it. */
static void fence_by_event(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state, CUstream_ handle,
                           uint64_t epoch)
{
    CUevent_ event = tarn__fence_event(pool, scope);
    CUresult_ result = CUDA_SUCCESS_;

    if (TARN_MUTATION(fence_published_before_call)) {
        tarn__pool_lock(pool);
        tarn__epoch_publish_fence(&pool->heap, stream_state, epoch, event);
        tarn__pool_unlock(pool);
    }
    if (event)
        result = record(pool, scope, stream_state, handle, event);

    tarn__pool_lock(pool);
    reopen(pool, stream_state);
    pool->counters.fences += event != NULL;
    if (TARN_MUTATION(epoch_closed_after_record))
        epoch = stream_state->open_epoch++;
    bool published = event && result == CUDA_SUCCESS_ &&
                     (TARN_MUTATION(fence_published_before_call) ||
                      tarn__epoch_publish_fence(&pool->heap, stream_state, epoch, event));
    tarn__pool_unlock(pool);
    if (event && !published)
        keep_event(pool, scope, event);
}

/* --- an idle stream needs no event --- */

/* A blocking stream with an empty queue may still be ordered behind the legacy stream's
 * work, and legacy behind that of blocking streams. An event covers that work, and a
 * query of the stream does not. */
static bool is_non_blocking(struct tarn__pool *pool, const struct tarn__scope *scope,
                            struct tarn__stream_state *stream_state, CUstream_ handle)
{
    unsigned flags = 0;

    tarn__pool_lock(pool);
    enum tarn__stream_kind kind = stream_state->kind;
    tarn__pool_unlock(pool);
    if (kind != TARN__KIND_UNKNOWN)
        return kind == TARN__KIND_NON_BLOCKING;
    kind = stream_state->key < TARN__KEY_CAPTURES &&
                   (tarn_stream)handle != TARN_STREAM_PER_THREAD &&
                   scope->calls->stream_get_flags(handle, &flags) == CUDA_SUCCESS_ &&
                   (flags & CU_STREAM_NON_BLOCKING_)
               ? TARN__KIND_NON_BLOCKING
               : TARN__KIND_BLOCKING;
    tarn__pool_lock(pool);
    stream_state->kind = kind;
    tarn__pool_unlock(pool);
    return kind == TARN__KIND_NON_BLOCKING;
}

/* Return true if all work queued on the stream is done. One query then replaces an event
 * and the query of that event. */
static bool query_idle(struct tarn__pool *pool, const struct tarn__scope *scope,
                       struct tarn__stream_state *stream_state, CUstream_ handle)
{
    CUstreamCaptureMode_ mode;

    if (!is_non_blocking(pool, scope, stream_state, handle))
        return false;
    tarn__pool_lock(pool);
    bool may_query = tarn__backoff_next(&stream_state->idle);
    tarn__pool_unlock(pool);
    if (!may_query || tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return false;
    bool idle = scope->calls->stream_query(handle) == CUDA_SUCCESS_;
    tarn__relaxed_leave(pool->calls, mode);
    tarn__pool_lock(pool);
    pool->counters.queries++;
    tarn__backoff_note(&stream_state->idle,
                       idle || TARN_MUTATION(epoch_closed_after_query));
    tarn__pool_unlock(pool);
    return idle || TARN_MUTATION(stream_not_queried);
}

/* Close, record and publish; or close and query, if the stream is idle. `handle` is
 * valid, and is the stream of `stream_state`, which has a user. */
enum how { BY_EVENT, BY_QUERY_IF_IDLE };

static void fence(struct tarn__pool *pool, const struct tarn__scope *scope,
                  struct tarn__stream_state *stream_state, CUstream_ handle, enum how how)
{
    uint64_t epoch;

    if (!close_epoch(pool, stream_state, &epoch))
        return;
    if (how == BY_EVENT || !query_idle(pool, scope, stream_state, handle)) {
        fence_by_event(pool, scope, stream_state, handle, epoch);
        return;
    }
    tarn__pool_lock(pool);
    reopen(pool, stream_state);
    if (TARN_MUTATION(epoch_closed_after_query))
        epoch = stream_state->open_epoch++;
    tarn__epoch_complete(&pool->heap, stream_state, epoch);
    sweep(pool);
    tarn__pool_unlock(pool);
}

void tarn__fence_no_stream(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state)
{
    fence(pool, scope, stream_state, NULL, BY_EVENT);
}

/* Event fences queried whenever a new one is recorded. */
enum { POLLS = 2 };

void tarn__fence_if_due(struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;

    if (!caller->may_record || caller->stream_state->is_capture)
        return;
    tarn__pool_lock(pool);
    bool due = tarn__fence_is_due(pool, caller->stream_state);
    tarn__pool_unlock(pool);
    if (!due)
        return;
    fence(pool, &caller->scope, caller->stream_state, caller->handle, BY_QUERY_IF_IDLE);
    /* Older event fences are usually complete by now. */
    tarn__fences_poll(pool, POLLS);
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

/* --- completed event fences --- */

enum { POLL_MAX = 32 };

struct query {
    struct tarn__stream_state *stream_state;
    CUevent_ event;
    uint64_t epoch;
    bool done;
};

/* Return the oldest event fence that is not known to be complete, or NULL. */
static struct tarn__fence *next_fence(const struct tarn__stream_state *stream_state)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].epoch > stream_state->done_epoch)
            return &stream_state->fences[i];
    return NULL;
}

/* A stream state whose event fence was not complete the last time may be skipped in its
 * next rounds. */
enum which { DUE, ALL };

/* Pin an event fence of each stream state that has fenced memory and was not queried in
 * this round. `lock` held. */
static unsigned choose(struct tarn__pool *pool, uint64_t round, unsigned most,
                       enum which which, struct query *query)
{
    tarn__assert_held(&pool->lock);

    unsigned count = 0;

    for (tarn__index i = pool->heap.with_memory; i && count < most;
         i = tarn__heap_state(&pool->heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__heap_state(&pool->heap, i);
        struct tarn__fence *fence = next_fence(stream_state);
        if (!fence || stream_state->queried_round >= round)
            continue;
        stream_state->queried_round = round;
        if (which == DUE && !tarn__backoff_next(&stream_state->done))
            continue;
        query[count++] = (struct query){
            stream_state, tarn__events_pin(stream_state, fence), fence->epoch, false};
    }
    return count;
}

static unsigned query_events(struct tarn__pool *pool, struct query *query, unsigned count)
{
    CUstreamCaptureMode_ mode;
    unsigned done = 0;

    /* A query would end captures of this thread, or of others in global mode. */
    if (tarn__relaxed_enter(pool->calls, &mode) != TARN_OK)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        query[i].done = pool->calls->event_query(query[i].event) == CUDA_SUCCESS_;
        done += query[i].done;
    }
    tarn__relaxed_leave(pool->calls, mode);
    return done;
}

enum { THIS_ROUND = 0 };

/* Query some stream states that `round` has not come to. A stream state whose event fence
 * was complete may be queried for its next one. Returns the number of queries. */
static unsigned poll_some(struct tarn__pool *pool, uint64_t round, unsigned most,
                          enum which which, unsigned *done_out)
{
    struct query query[POLL_MAX];

    *done_out = 0;
    tarn__pool_lock(pool);
    if (round == THIS_ROUND)
        round = pool->poll_round;
    unsigned count = choose(pool, round, most < POLL_MAX ? most : POLL_MAX, which, query);
    pool->counters.queries += count;
    tarn__pool_unlock(pool);
    if (count == 0)
        return 0;
    *done_out = query_events(pool, query, count);

    tarn__pool_lock(pool);
    for (unsigned i = 0; i < count; i++) {
        tarn__events_unpin(query[i].stream_state, query[i].event);
        tarn__backoff_note(&query[i].stream_state->done, query[i].done);
        if (!query[i].done)
            continue;
        query[i].stream_state->queried_round = 0;
        tarn__epoch_fence_completed(&pool->heap, query[i].stream_state, query[i].epoch);
    }
    sweep(pool);
    tarn__pool_unlock(pool);
    return count;
}

static uint64_t next_round(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    uint64_t round = ++pool->poll_round;
    tarn__pool_unlock(pool);
    return round;
}

/* Continues where the last call ended, so that stream states that are behind do not hide
 * others. */
bool tarn__fences_poll(struct tarn__pool *pool, unsigned most)
{
    unsigned done;
    bool any = false;

    if (poll_some(pool, THIS_ROUND, most, DUE, &done) == 0)
        poll_some(pool, next_round(pool), most, DUE, &done);
    while (done > 0) {
        any = true;
        most = most > done ? most - done : 0;
        if (most == 0)
            break;
        poll_some(pool, THIS_ROUND, most, DUE, &done);
    }
    return any;
}

bool tarn__fences_poll_all(struct tarn__pool *pool)
{
    uint64_t round = next_round(pool);
    unsigned done;
    bool any = false;

    while (poll_some(pool, round, POLL_MAX, ALL, &done) > 0)
        any |= done > 0;
    return any;
}

/* --- other streams' unfenced memory --- */

enum { REQUEST_MAX = 8 };

/* Mark stream states that have unfenced memory, and choose those of registered streams.
 * Their owner guarantees that the handle is valid while the stream's lock is held. */
static unsigned mark_wanted(struct tarn__pool *pool, const struct tarn__caller *caller,
                            struct tarn__stream_state **open)
{
    tarn__assert_held(&pool->lock);

    unsigned count = 0;

    for (tarn__index i = pool->heap.with_memory; i;
         i = tarn__heap_state(&pool->heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__heap_state(&pool->heap, i);
        if (stream_state == caller->stream_state || stream_state->is_capture ||
            tarn__stream_state_unfenced(stream_state) == 0)
            continue;
        stream_state->wanted = true;
        if (stream_state->registration && count < REQUEST_MAX) {
            stream_state->users++;
            open[count++] = stream_state;
        }
    }
    return count;
}

/* Record on a registered stream that is not the caller's. Such a stream may have joined a
 * capture without notice, so the pool queries it. */
static void fence_registered(struct tarn__pool *pool, const struct tarn__scope *scope,
                             struct tarn__stream_state *stream_state, tarn_stream stream)
{
    struct tarn__registration *registration = tarn__registration_find(stream);
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_ACTIVE_;

    if (!registration)
        return;
    pthread_mutex_lock(&registration->lock);
    if (tarn__registration_find(stream) == registration &&
        !atomic_load(&registration->captures) &&
        scope->calls->stream_is_capturing(registration->handle, &status) ==
            CUDA_SUCCESS_ &&
        status == CU_STREAM_CAPTURE_STATUS_NONE_)
        fence(pool, scope, stream_state, registration->handle, BY_EVENT);
    pthread_mutex_unlock(&registration->lock);
}

/* The stream's lock is held, and its handle is valid. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__registration *registration)
{
    struct tarn__scope scope;
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_ACTIVE_;
    uint64_t key =
        (uintptr_t)registration->handle <= 1 ? TARN__KEY_LEGACY : registration->id;

    tarn__pool_lock(pool);
    struct tarn__stream_state *stream_state = tarn__identity_find(&pool->heap, key);
    if (stream_state) {
        stream_state->users++;
        if (stream_state->registration == stream)
            stream_state->registration = NULL;
    }
    tarn__pool_unlock(pool);
    if (!stream_state)
        return;
    if (tarn__scope_enter(pool->device, &scope) == TARN_OK) {
        if (scope.context_generation == pool->context_generation &&
            scope.calls->stream_is_capturing(registration->handle, &status) ==
                CUDA_SUCCESS_ &&
            status == CU_STREAM_CAPTURE_STATUS_NONE_)
            fence(pool, &scope, stream_state, registration->handle, BY_QUERY_IF_IDLE);
        tarn__scope_leave(&scope);
    }
    tarn__pool_lock(pool);
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
    tarn__pool_unlock(pool);
}

void tarn__fences_request(struct tarn__pool *pool, const struct tarn__caller *caller)
{
    struct tarn__stream_state *open[REQUEST_MAX];
    tarn_stream streams[REQUEST_MAX];

    tarn__pool_lock(pool);
    unsigned count = mark_wanted(pool, caller, open);
    for (unsigned i = 0; i < count; i++)
        streams[i] = open[i]->registration;
    tarn__pool_unlock(pool);
    for (unsigned i = 0; i < count; i++)
        fence_registered(pool, &caller->scope, open[i], streams[i]);
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < count; i++)
        open[i]->users--;
    tarn__pool_unlock(pool);
}

tarn_status tarn__fences_wait_for_device_locked(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    tarn__epoch_close_all(&pool->heap);
    pool->counters.device_waits++;
    tarn__pool_unlock(pool);
    tarn_status status = TARN_MUTATION(device_wait_left_out)
                             ? TARN_OK
                             : tarn__pages_wait_for_device(pool->pages);
    if (status != TARN_OK)
        return status;
    tarn__pool_lock(pool);
    tarn__epoch_complete_all(&pool->heap);
    tarn__pool_unlock(pool);
    return TARN_OK;
}

tarn_status tarn__fences_wait_for_device(struct tarn__pool *pool)
{
    pthread_mutex_lock(&pool->device_wait);
    tarn_status status = tarn__fences_wait_for_device_locked(pool);
    pthread_mutex_unlock(&pool->device_wait);
    return status;
}
