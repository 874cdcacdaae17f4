/* capture.c -- the memory of graphs that are captured.
 *
 * What a capturing stream is given is used whenever its graph is launched, long after the
 * free was captured. So such memory, and what is freed on a capturing stream, stays with the
 * capture: it is handed out again on the same stream of the same capture, whose work is in
 * order, and to nobody else until the graph's owner lets it go, or the graph itself is gone. For the
 * latter a user object is tied to the graph; its destructor only sets a flag, since it
 * may not call the driver, and the pool looks at the flag when it next searches.
 *
 * Streams of one capture are told apart by their handles: asking for an id would end it.
 */
#include "resource/pool/pool.h"
#include <stdlib.h>

/* What the graph and the pool share; the last of the two frees it. */
struct tie {
    atomic_bool gone; /* the graph and all that was made of it */
    atomic_int owners;
};

struct tarn_pool_capture {
    struct tarn__pool *pool;
    tarn_resource *resource; /* retained while a user has a reference */
    uint64_t id;             /* of the capture, as the driver counts; never given twice */
    unsigned slot;
    unsigned references; /* of users */
    bool is_let_go;
    uint64_t live;           /* blocks that are out and belong to it */
    struct tarn__lane *home; /* of blocks that are freed elsewhere: nobody's to reuse */
    struct member {
        CUstream_ handle;
        struct tarn__lane *lane;
    } * members;
    size_t member_count;
    struct tie *tie; /* or NULL: the driver has no user objects */
};

struct tarn__captures {
    struct tarn_pool_capture *slots[UINT16_MAX + 1]; /* 0 is never used */
    unsigned used;                                   /* slots below have been used */
    uint64_t lane_keys;
};

static void drop_tie(struct tie *tie)
{
    if (tie && atomic_fetch_sub(&tie->owners, 1) == 1)
        free(tie);
}

/* Called on a thread of the driver, when the graph is gone. */
static void graph_is_gone(void *data)
{
    struct tie *tie = data;

    atomic_store(&tie->gone, true);
    drop_tie(tie);
}

/* --- finding and making --- */

static struct tarn_pool_capture *by_id(const struct tarn__captures *captures, uint64_t id)
{
    for (unsigned i = 1; captures && i < captures->used; i++)
        if (captures->slots[i] && captures->slots[i]->id == id &&
            !captures->slots[i]->is_let_go)
            return captures->slots[i];
    return NULL;
}

static unsigned free_slot(struct tarn__captures *captures)
{
    for (unsigned i = 1; i < captures->used; i++)
        if (!captures->slots[i])
            return i;
    return captures->used <= UINT16_MAX ? captures->used++ : 0;
}

/* A lane for memory of a capture. */
static struct tarn__lane *new_lane(struct tarn__pool *pool, bool in_order)
{
    uint64_t key = TARN__KEY_CAPTURES + ++pool->captures->lane_keys;
    struct tarn__lane *lane = tarn__heap_lane(&pool->heap, key);

    if (lane) {
        lane->is_capture = true;
        lane->in_order = in_order;
        lane->users++;
    }
    return lane;
}

static struct tarn_pool_capture *new_capture(struct tarn__pool *pool, uint64_t id)
{
    if (!pool->captures)
        pool->captures = calloc(1, sizeof *pool->captures);
    if (!pool->captures)
        return NULL;
    if (pool->captures->used == 0)
        pool->captures->used = 1;
    struct tarn_pool_capture *capture = calloc(1, sizeof *capture);
    unsigned slot = capture ? free_slot(pool->captures) : 0;
    if (slot)
        capture->home = new_lane(pool, false);
    if (!slot || !capture->home) {
        free(capture);
        return NULL;
    }
    capture->pool = pool;
    capture->id = id;
    capture->slot = slot;
    pool->captures->slots[slot] = capture;
    return capture;
}

static struct tarn__lane *member_lane(struct tarn_pool_capture *capture, CUstream_ handle)
{
    for (size_t i = 0; i < capture->member_count; i++)
        if (capture->members[i].handle == handle)
            return capture->members[i].lane;
    struct member *members =
        realloc(capture->members, (capture->member_count + 1) * sizeof *capture->members);
    if (!members)
        return NULL;
    capture->members = members;
    struct tarn__lane *lane = new_lane(capture->pool, true);
    if (lane)
        members[capture->member_count++] = (struct member){handle, lane};
    return lane;
}

struct tarn__lane *tarn__capture_lane(struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn_pool_capture *capture = by_id(pool->captures, caller->capture_id);

    if (!capture)
        capture = new_capture(pool, caller->capture_id);
    caller->capture_slot = capture ? capture->slot : 0;
    return capture ? member_lane(capture, caller->handle) : NULL;
}

/* Have the graph say when it is gone. Without that, its owner has to. */
static void tie_to(const struct tarn__caller *caller, struct tie *tie)
{
    const struct tarn__calls *calls = caller->scope.calls;
    CUuserObject_ object;

    if (calls->user_object_create(&object, tie, graph_is_gone, 1,
                                  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC_) != CUDA_SUCCESS_) {
        drop_tie(tie);
        return;
    }
    if (calls->graph_retain_user_object(caller->capture_graph, object, 1,
                                        CU_GRAPH_USER_OBJECT_MOVE_) == CUDA_SUCCESS_)
        return;
    /* Nobody will tell: the flag must not be set by the end of the object. */
    tarn__pool_lock(caller->pool);
    struct tarn_pool_capture *capture =
        caller->pool->captures->slots[caller->capture_slot];
    if (capture && capture->tie == tie) {
        capture->tie = NULL;
        drop_tie(tie);
    }
    tarn__pool_unlock(caller->pool);
    calls->user_object_release(object, 1);
}

void tarn__capture_tie(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;
    const struct tarn__calls *calls = caller->scope.calls;
    struct tie *tie = NULL;

    if (!caller->capture_graph || !calls->user_object_create ||
        !calls->graph_retain_user_object || !calls->user_object_release)
        return;
    tarn__pool_lock(pool);
    struct tarn_pool_capture *capture = pool->captures->slots[caller->capture_slot];
    if (capture && !capture->tie && (tie = calloc(1, sizeof *tie)) != NULL) {
        atomic_init(&tie->owners, 2);
        capture->tie = tie;
    }
    tarn__pool_unlock(pool);
    if (tie)
        tie_to(caller, tie);
}

void tarn__capture_note(struct tarn__caller *caller, struct tarn__node *node)
{
    node->capture = (uint16_t)caller->capture_slot;
    if (caller->capture_slot)
        caller->pool->captures->slots[caller->capture_slot]->live++;
}

/* --- going --- */

/* The slot is free again when nobody knows the capture any more. */
static void forget(struct tarn_pool_capture *capture)
{
    if (!capture->is_let_go || capture->live || capture->references)
        return;
    capture->pool->captures->slots[capture->slot] = NULL;
    drop_tie(capture->tie);
    free(capture->members);
    free(capture);
}

/* All free blocks of a capture's lane go to `to`, in its open epoch. */
static void empty_into(struct tarn__pool *pool, struct tarn__lane *lane,
                       struct tarn__lane *to)
{
    while (lane->oldest) {
        tarn__index index = lane->oldest;
        tarn__heap_take_whole(&pool->heap, index);
        tarn__heap_put(&pool->heap, index, to);
    }
    lane->users--;
    tarn__heap_forget_lane(&pool->heap, lane);
}

static void let_go(struct tarn_pool_capture *capture, struct tarn__lane *to)
{
    struct tarn__pool *pool = capture->pool;

    if (capture->is_let_go)
        return;
    capture->is_let_go = true;
    for (size_t i = 0; i < capture->member_count; i++)
        empty_into(pool, capture->members[i].lane, to);
    empty_into(pool, capture->home, to);
    capture->home = NULL;
    capture->member_count = 0;
}

struct tarn__lane *tarn__capture_home(struct tarn__pool *pool, unsigned slot)
{
    struct tarn_pool_capture *capture = pool->captures->slots[slot];
    struct tarn__lane *home = capture->home;

    capture->live--;
    if (capture->is_let_go)
        forget(capture);
    return home;
}

void tarn__captures_collect(struct tarn__pool *pool)
{
    for (unsigned i = 1; pool->captures && i < pool->captures->used; i++) {
        struct tarn_pool_capture *capture = pool->captures->slots[i];
        if (!capture || !capture->tie || !atomic_load(&capture->tie->gone) ||
            capture->is_let_go)
            continue;
        /* The driver keeps a graph's objects until its last launch is done. */
        let_go(capture, NULL);
        forget(capture);
    }
}

void tarn__captures_free(struct tarn__pool *pool)
{
    for (unsigned i = 1; pool->captures && i < pool->captures->used; i++) {
        if (!pool->captures->slots[i])
            continue;
        drop_tie(pool->captures->slots[i]->tie);
        free(pool->captures->slots[i]->members);
        free(pool->captures->slots[i]);
    }
    free(pool->captures);
}

/* --- by hand --- */

tarn_status tarn_pool_capture_of(tarn_resource *resource, tarn_stream stream,
                                 tarn_pool_capture **out)
{
    struct tarn__pool *pool;
    struct tarn__caller caller;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && !out)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "pool: a capture into NULL");
    if (status == TARN_OK)
        status = tarn__caller_begin(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    if (caller.capturing) {
        tarn__pool_lock(pool);
        *out = pool->captures->slots[caller.capture_slot];
        if ((*out)->references++ == 0)
            (*out)->resource = tarn_resource_retain(resource);
        tarn__pool_unlock(pool);
    } else {
        status = tarn_error_set(TARN_NOT_FOUND, "pool: stream %p does not capture",
                                (void *)stream);
    }
    tarn__caller_end(&caller);
    return status;
}

tarn_status tarn_pool_capture_release(tarn_pool_capture *capture, tarn_stream stream)
{
    struct tarn__caller caller;

    if (!capture)
        return TARN_OK;
    struct tarn__pool *pool = capture->pool;
    tarn_resource *resource = NULL;
    tarn_status status = tarn__caller_begin(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    if (caller.capturing) {
        tarn__caller_end(&caller);
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: a graph's memory is let go on stream %p, which "
                              "captures",
                              (void *)stream);
    }
    tarn__pool_lock(pool);
    if (--capture->references == 0) {
        resource = capture->resource;
        let_go(capture, caller.lane);
        forget(capture);
    }
    tarn__pool_unlock(pool);
    tarn__caller_end(&caller);
    /* The last owner may be this one. */
    return tarn_resource_release(resource);
}
