/* capture_api.c -- the public functions for the memory of captured graphs. */
#include "pool/order/capture.h"
#include "pool/resolve.h"
#include "resource/internal.h"
#include <string.h>

tarn_status tarn_pool_get_capture(tarn_resource *resource, tarn_stream stream,
                                  tarn_pool_capture **out)
{
    struct tarn__pool *pool;
    struct tarn__caller caller;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && !out)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "pool: get_capture: out is NULL");
    if (status == TARN_OK)
        status = tarn__resolve_begin(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    if (caller.capture_slot) {
        tarn__pool_lock(pool);
        *out = pool->captures->slots[caller.capture_slot];
        if ((*out)->references++ == 0)
            (*out)->resource = tarn_resource_retain(resource);
        tarn__pool_unlock(pool);
    } else {
        status = tarn_error_set(TARN_NOT_FOUND, "pool: stream %p is not capturing%s",
                                (void *)stream,
                                caller.is_lost ? ", its capture was invalidated" : "");
    }
    tarn__resolve_end(&caller);
    return status;
}

tarn_status tarn_pool_capture_hold(tarn_pool_capture *capture)
{
    tarn_status status = tarn__driver_check();

    if (status == TARN_OK && !capture)
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT, "pool: capture_hold: capture is NULL");
    if (status != TARN_OK)
        return status;
    struct tarn__pool *pool = capture->pool;
    tarn__pool_lock(pool);
    bool has_ended = capture->is_let_go;
    capture->is_held = !has_ended;
    tarn__pool_unlock(pool);
    if (has_ended)
        return tarn_error_set(TARN_NOT_FOUND,
                              "pool: the memory of the graph is released already");
    return TARN_OK;
}

/* Drop one reference. After the last one, the caller has to release the returned
 * resource. `lock` held. */
static tarn_resource *drop_reference(tarn_pool_capture *capture) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&capture->pool->lock);

    if (--capture->references > 0)
        return NULL;
    tarn__capture_end_hold(capture);
    tarn_resource *resource = capture->resource;
    tarn__capture_forget(capture);
    return resource;
}

/* Release the pool of a capture whose handle is destroyed. The release fails for the last
 * owner of a pool with live blocks. Such a pool is never destroyed, and there is no
 * handle to try again with. */
static tarn_status release_pool(tarn_resource *resource)
{
    tarn__resource_release_or_warn(resource);
    return TARN_OK;
}

/* Drop a reference; the last one releases the memory into `to`. `lock` held. */
static tarn_resource *release_reference(tarn_pool_capture *capture,
                                        struct tarn__stream_state *to)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&capture->pool->lock);

    if (capture->references == 1)
        tarn__capture_release(capture, to);
    return drop_reference(capture);
}

/* Free the host memory alone: the context is gone, and its device memory with it. */
static tarn_status release_rest(tarn_pool_capture *capture)
{
    struct tarn__pool *pool = capture->pool;

    if (tarn__driver_gone()) /* a lock may be held forever */
        return TARN_OK;
    tarn__pool_lock(pool);
    tarn_resource *resource = release_reference(capture, pool->captures->nobody);
    tarn__pool_unlock(pool);
    return release_pool(resource);
}

tarn_status tarn_pool_capture_release(tarn_pool_capture *capture, tarn_stream stream)
{
    struct tarn__caller caller;

    if (!capture)
        return TARN_OK;
    struct tarn__pool *pool = capture->pool;
    tarn_status status = tarn__resolve_begin(pool, stream, &caller);
    if (status != TARN_OK)
        return tarn__pool_has_ended(pool) ? release_rest(capture) : status;
    if (caller.capturing) {
        tarn__resolve_end(&caller);
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: the memory of a graph cannot be released on stream "
                              "%p, which is capturing",
                              (void *)stream);
    }
    tarn__pool_lock(pool);
    tarn_resource *resource = release_reference(capture, caller.stream_state);
    tarn__pool_unlock(pool);
    tarn__resolve_end(&caller);
    return release_pool(resource);
}

tarn_status tarn_pool_capture_unreference(tarn_pool_capture *capture)
{
    if (!capture || tarn__driver_gone()) /* a lock may be held forever */
        return TARN_OK;
    struct tarn__pool *pool = capture->pool;
    tarn__pool_lock(pool);
    tarn_resource *resource = drop_reference(capture);
    tarn__pool_unlock(pool);
    return release_pool(resource);
}

static tarn_pool_capture_statistics count(const struct tarn_pool_capture *capture)
    TARN__REQUIRES(pool_lock)
{
    tarn_pool_capture_statistics all = {.live = capture->live_bytes,
                                        .live_blocks = capture->live,
                                        .streams = capture->member_count,
                                        .has_ended = capture->is_let_go};

    all.retained = capture->home ? capture->home->free.bytes : 0;
    for (size_t i = 0; i < capture->member_count; i++)
        all.retained += capture->members[i].stream_state->free.bytes;
    return all;
}

tarn_status tarn_pool_capture_get_statistics(tarn_pool_capture *capture,
                                             tarn_pool_capture_statistics *out)
{
    if (!capture || !out || out->size < sizeof out->size)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: capture_get_statistics: capture or out is NULL, or "
                              "out.size is not set");
    struct tarn__pool *pool = capture->pool;
    if (!tarn__pool_lock_if_possible(pool))
        return tarn_error_set(
            TARN_BUSY, "pool: the pool is locked by a thread that no longer exists");
    tarn__captures_collect(pool);
    tarn_pool_capture_statistics all = count(capture);
    tarn__pool_unlock(pool);
    size_t known = out->size < sizeof all ? out->size : sizeof all;
    all.size = known;
    memcpy(out, &all, known);
    return TARN_OK;
}
