/* resolve.c -- stream resolution: the checks of a stream before the pool does anything on
 * it.
 *
 * A raw handle may name another stream than the last time, so the pool queries its id.
 * Before that it queries whether the stream captures, because querying the id of a
 * capturing stream invalidates the capture. The legacy stream has a constant key:
 * querying its id can invalidate a capture on another stream.
 */
#include "pool/resolve.h"
#include "pool/cache/thread_cache.h"
#include "pool/order/capture.h"
#include "pool/order/identity.h"
#include "pool/pool.h"
#include "base/blocking_hook.h"
#include "driver/stream.h"

/* Legacy orders against all blocking streams. While one of those captures, the pool must
 * not do anything on it. */
static void resolve_legacy(struct tarn__caller *caller)
{
    caller->handle = NULL;
    caller->may_record = !tarn__stream_may_capture(caller->scope.calls, NULL);
}

static void note_capture(struct tarn__caller *caller, CUstreamCaptureStatus_ status)
{
    caller->capturing = status != CU_STREAM_CAPTURE_STATUS_NONE_;
    caller->is_lost = status == CU_STREAM_CAPTURE_STATUS_INVALIDATED_;
    caller->may_record = !caller->capturing;
}

/* Query the capture and its graph. The capture may have ended since the last query. */
static tarn_status query_graph(struct tarn__caller *caller)
{
    CUstreamCaptureStatus_ status;
    CUgraph_ graph = NULL;
    uint64_t id = 0;
    CUresult_ result = caller->scope.calls->stream_get_capture_info(
        caller->handle, &status, &id, &graph, NULL, NULL);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuStreamGetCaptureInfo", result, "stream %p",
                                   (void *)caller->stream);
    note_capture(caller, status);
    caller->capture_id = id;
    caller->capture_graph = graph;
    return TARN_OK;
}

/* Query whether the stream captures. */
static tarn_status query_capture(struct tarn__caller *caller)
{
    CUstreamCaptureStatus_ capture = CU_STREAM_CAPTURE_STATUS_NONE_;
    tarn_status status = tarn__stream_query_capture(
        "pool", &caller->scope, caller->stream, caller->handle, &capture);

    if (status != TARN_OK)
        return status;
    note_capture(caller, capture);
    if (capture == CU_STREAM_CAPTURE_STATUS_ACTIVE_ &&
        caller->scope.calls->stream_get_capture_info)
        return query_graph(caller);
    return TARN_OK;
}

static tarn_status closed(const struct tarn__caller *caller)
{
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "pool: %p is not a registered stream: it was unregistered, or never registered",
        (void *)caller->stream);
}

/* Note the registration of a registered stream: its owner has declared what it is. */
static tarn_status note_registration(struct tarn__caller *caller,
                                     struct tarn__registration *registration)
{
    if (registration->device != caller->pool->device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: stream %p is of device %d, the pool of device %d",
                              (void *)caller->stream, registration->device,
                              caller->pool->device);
    caller->registration = registration;
    return TARN_OK;
}

static tarn_status resolve(struct tarn__caller *caller, uint64_t *key)
{
    struct tarn__stream_identity identity;
    tarn_status status = TARN_OK;

    if (!tarn__stream_identify(caller->stream, &identity))
        return closed(caller);
    if (identity.form == TARN__STREAM_FORM_NONE) {
        *key = TARN__KEY_NO_STREAM;
        return TARN_OK;
    }
    if (identity.registration)
        status = note_registration(caller, identity.registration);
    if (status != TARN_OK)
        return status;
    caller->handle = identity.handle;
    if (identity.is_legacy) {
        resolve_legacy(caller);
        *key = TARN__KEY_LEGACY;
        return TARN_OK;
    }
    status = query_capture(caller);
    if (identity.registration)
        *key = identity.registration->id;
    else if (status == TARN_OK && !caller->capturing) {
        unsigned long long id = 0;
        status = tarn__stream_query_id("pool", &caller->scope, caller->stream, &id);
        *key = id;
    }
    return status;
}

/* Return true if the stream has a handle of its own that its stream state does not know
 * yet. No other stream has such a handle at the same time. All per-thread streams have
 * one handle. A capturing stream has another stream state, since its id cannot be
 * queried. `lock` held. */
static bool has_new_handle(const struct tarn__caller *caller) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&caller->pool->lock);

    return caller->stream_state->identity.handle != caller->handle &&
           !caller->capturing &&
           (uintptr_t)caller->handle > (uintptr_t)TARN_STREAM_PER_THREAD;
}

/* Query the context of the stream: cuStreamGetCtx invalidates no capture. */
static tarn_status check_context(struct tarn__caller *caller)
{
    if (tarn__stream_form(caller->stream) == TARN__STREAM_FORM_RAW)
        tarn__pages_note_call(caller->pool->pages);
    return tarn__stream_check("pool", &caller->scope, caller->stream,
                              caller->pool->device);
}

/* Find the stream state of the key. The pool first queries the context of a stream that
 * is new here. */
static tarn_status find_state(struct tarn__caller *caller, uint64_t key)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__stream_state *ended = NULL;

    tarn__pool_lock(pool);
    if (caller->capturing || !tarn__identity_find(&pool->heap, key)) {
        tarn__pool_unlock(pool);
        tarn_status status = check_context(caller);
        if (status != TARN_OK)
            return status;
        tarn__pool_lock(pool);
    }
    caller->stream_state = caller->capturing ? tarn__capture_state(caller)
                                             : tarn__identity_get(&pool->heap, key);
    if (caller->stream_state) {
        caller->stream_state->users++;
        if (caller->registration && !caller->capturing)
            caller->stream_state->identity.registration = caller->stream;
        if (has_new_handle(caller))
            ended = tarn__identity_bind_handle(&pool->heap, caller->stream_state,
                                               caller->handle);
        if (ended)
            tarn__thread_caches_end_stream(pool, ended);
    }
    tarn__pool_unlock(pool);
    if (!caller->stream_state)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory for stream %p",
                              (void *)caller->stream);
    if (caller->capturing)
        tarn__capture_tie(caller);
    return TARN_OK;
}

/* A pool on a lost device makes no more driver calls; frees still return a status. */
static tarn_status note_loss(struct tarn__pool *pool, tarn_status status)
{
    if (status == TARN_DRIVER_FAILURE &&
        tarn__driver_classify(tarn_error_last()->native) == TARN__FAILURE_CONTEXT_LOST)
        atomic_fetch_or(&pool->lifecycle, TARN__POOL_ENDED);
    return status;
}

tarn_status tarn__resolve_begin(struct tarn__pool *pool, tarn_stream stream,
                                struct tarn__caller *out)
{
    struct tarn__caller caller = {.pool = pool, .stream = stream};
    uint64_t key = 0;

    tarn__blocking_hook_call();
    tarn_status status = tarn__scope_enter(pool->device, &caller.scope);

    if (status != TARN_OK)
        return note_loss(pool, status);
    if (caller.scope.context_generation != pool->context_generation)
        status = tarn__pool_fail_ended(pool);
    if (status == TARN_OK)
        status = resolve(&caller, &key);
    if (status == TARN_OK)
        status = find_state(&caller, key);
    if (status != TARN_OK) {
        tarn__scope_leave(&caller.scope);
        return note_loss(pool, status);
    }
    *out = caller;
    return TARN_OK;
}

void tarn__resolve_end(struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;

    tarn__pool_lock(pool);
    tarn__capture_leave(caller);
    caller->stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, caller->stream_state);
    tarn__pool_unlock(pool);
    tarn__scope_leave(&caller->scope);
}
