/* capture.c -- the memory of captured graphs.
 *
 * A block of a capturing stream is used at each launch of its graph, long after the free
 * was captured. Such memory, and everything freed on a capturing stream, therefore stays
 * with the capture. The pool reuses it on the same stream of the same capture, whose work
 * is in order. No other stream gets it until the graph's owner releases it, or the graph
 * itself is destroyed. To learn of the latter, the pool ties a user object to the graph.
 * The object's destructor only sets a flag, since it must not call the driver. The pool
 * reads the flag at its next search.
 *
 * The pool tells the streams of one capture apart by their handles: querying an id would
 * invalidate the capture.
 */
#include "pool/order/capture.h"
#include "pool/blocks/take.h"
#include "pool/order/identity.h"
#include <stdlib.h>
#include <string.h>

/* State that the graph and the pool share; the last of the two frees it. */
struct tarn__capture_tie {
    atomic_bool gone; /* the graph and everything made of it are destroyed */
    atomic_int owners;
};

/* Destroyed graphs that had memory of any pool. A pool checks its ties when this
 * changes. */
static atomic_uint graphs_gone;

static void drop_tie(struct tarn__capture_tie *tie)
{
    if (tie && atomic_fetch_sub(&tie->owners, 1) == 1)
        free(tie);
}

/* Set the flags: the driver calls this on its own thread when the graph is destroyed. */
static void graph_is_gone(void *data)
{
    struct tarn__capture_tie *tie = data;

    atomic_store(&tie->gone, true);
    atomic_fetch_add(&graphs_gone, 1);
    drop_tie(tie);
}

/* --- finding and making --- */

static struct tarn_pool_capture *by_id(const struct tarn__captures *captures, uint64_t id)
{
    const uint16_t *slot = captures ? tarn__map_get(&captures->by_id, id) : NULL;

    return slot ? captures->slots[*slot] : NULL;
}

/* Return a free slot; 0: every number is in use. */
static unsigned free_slot(struct tarn__captures *captures)
{
    if (captures->spare_count > 0)
        return captures->spare[--captures->spare_count];
    return captures->used < TARN__NODE_PLANNED ? captures->used++ : 0;
}

static struct tarn__captures *make_captures(struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__captures *captures = calloc(1, sizeof *captures);

    if (!captures)
        return NULL;
    captures->nobody = tarn__identity_orphaned(&pool->heap);
    if (!captures->nobody) {
        free(captures);
        return NULL;
    }
    captures->used = 1;
    tarn__map_init(&captures->by_id, sizeof(uint16_t));
    return captures;
}

/* Make a stream state for memory of a capture. */
static struct tarn__stream_state *new_state(struct tarn__pool *pool, bool in_order)
    TARN__REQUIRES(pool_lock)
{
    uint64_t key = TARN__KEY_CAPTURES + ++pool->captures->state_keys;
    struct tarn__stream_state *stream_state = tarn__identity_get(&pool->heap, key);

    if (stream_state) {
        stream_state->is_capture = true;
        stream_state->in_order = in_order;
        stream_state->users++;
    }
    return stream_state;
}

static void drop_state(struct tarn__pool *pool, struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
}

static struct tarn_pool_capture *new_capture(struct tarn__pool *pool, uint64_t id)
    TARN__REQUIRES(pool_lock)
{
    if (!pool->captures)
        pool->captures = make_captures(pool);
    struct tarn__captures *captures = pool->captures;
    if (!captures || !tarn__map_reserve(&captures->by_id, 1))
        return NULL;
    struct tarn_pool_capture *capture = calloc(1, sizeof *capture);
    struct tarn__stream_state *home = capture ? new_state(pool, false) : NULL;
    unsigned slot = home ? free_slot(captures) : 0;
    if (!slot) {
        if (home)
            drop_state(pool, home);
        free(capture);
        return NULL;
    }
    *capture =
        (struct tarn_pool_capture){.pool = pool, .id = id, .slot = slot, .home = home};
    captures->slots[slot] = capture;
    tarn__map_put(&captures->by_id, id, &(uint16_t){(uint16_t)slot});
    return capture;
}

static struct tarn__stream_state *member_state(struct tarn_pool_capture *capture,
                                               CUstream_ handle) TARN__REQUIRES(pool_lock)
{
    for (size_t i = 0; i < capture->member_count; i++)
        if (capture->members[i].handle == handle)
            return capture->members[i].stream_state;
    struct tarn__capture_member *members =
        realloc(capture->members, (capture->member_count + 1) * sizeof *capture->members);
    if (!members)
        return NULL;
    capture->members = members;
    struct tarn__stream_state *stream_state = new_state(capture->pool, true);
    if (stream_state)
        members[capture->member_count++] =
            (struct tarn__capture_member){handle, stream_state};
    return stream_state;
}

struct tarn__stream_state *tarn__capture_state(struct tarn__caller *caller)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__pool *pool = caller->pool;

    /* An invalidated capture is never launched: no stream uses its memory, and it is soon
     * available to all. */
    if (caller->is_lost)
        return tarn__identity_orphaned(&pool->heap);
    tarn__captures_collect(pool); /* a new one may need the slot of one that is gone */
    struct tarn_pool_capture *capture = by_id(pool->captures, caller->capture_id);
    if (!capture)
        capture = new_capture(pool, caller->capture_id);
    struct tarn__stream_state *stream_state =
        capture ? member_state(capture, caller->handle) : NULL;
    if (!stream_state)
        return NULL;
    caller->capture_slot = capture->slot;
    capture->callers++;
    return stream_state;
}

/* Undo the tie: the graph will not notify the pool. The next call on the capture tries
 * again. */
static void untie(const struct tarn__caller *caller, struct tarn__capture_tie *tie)
{
    tarn__pool_lock(caller->pool);
    caller->pool->captures->slots[caller->capture_slot]->tie = NULL;
    tarn__pool_unlock(caller->pool);
    drop_tie(tie);
}

/* Have the graph notify the pool when it is destroyed. Otherwise its owner has to. */
static void tie_to(const struct tarn__caller *caller, struct tarn__capture_tie *tie)
{
    const struct tarn__calls *calls = caller->scope.calls;
    struct tarn__pages *pages = caller->pool->pages;
    CUuserObject_ object;

    tarn__pages_note_call(pages);
    if (calls->user_object_create(&object, tie, graph_is_gone, 1,
                                  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC_) != CUDA_SUCCESS_) {
        untie(caller, tie);
        drop_tie(tie);
        return;
    }
    tarn__pages_note_call(pages);
    if (calls->graph_retain_user_object(caller->capture_graph, object, 1,
                                        CU_GRAPH_USER_OBJECT_MOVE_) == CUDA_SUCCESS_)
        return;
    untie(caller, tie); /* first: the object's end reports that the graph is destroyed */
    tarn__pages_note_call(pages);
    if (calls->user_object_release(object, 1) == CUDA_SUCCESS_)
        return;
    tarn__pages_note_call(pages);
    calls->user_object_release(object, 1);
}

void tarn__capture_tie(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;
    const struct tarn__calls *calls = caller->scope.calls;
    struct tarn__capture_tie *tie = NULL;

    if (!caller->capture_slot || !caller->capture_graph || !calls->user_object_create ||
        !calls->graph_retain_user_object || !calls->user_object_release)
        return;
    tarn__pool_lock(pool);
    struct tarn_pool_capture *capture = pool->captures->slots[caller->capture_slot];
    if (!capture->tie && !capture->is_let_go && (tie = calloc(1, sizeof *tie)) != NULL) {
        atomic_init(&tie->owners, 2);
        capture->tie = tie;
    }
    tarn__pool_unlock(pool);
    if (tie)
        tie_to(caller, tie);
}

void tarn__capture_note(struct tarn__caller *caller, struct tarn__node *node)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn_pool_capture *capture;

    if (!caller->capture_slot)
        return;
    tarn__node_set_capture(node, (uint16_t)caller->capture_slot);
    capture = caller->pool->captures->slots[caller->capture_slot];
    capture->live++;
    capture->live_bytes += tarn__node_bytes(node);
}

/* --- going --- */

/* Free the slot once no reference, call or block uses the capture. */
void tarn__capture_forget(struct tarn_pool_capture *capture)
{
    tarn__assert_held(&capture->pool->lock);

    struct tarn__captures *captures = capture->pool->captures;

    if (!capture->is_let_go || capture->live || capture->references || capture->callers)
        return;
    captures->slots[capture->slot] = NULL;
    captures->spare[captures->spare_count++] = (uint16_t)capture->slot;
    drop_tie(capture->tie);
    free(capture->members);
    free(capture);
}

/* The blocks for which empty_into() holds the lock. */
enum { MOVED_AT_ONCE = 128 };

/* Move all free blocks of a capture's stream state to `to`, in its open epoch. `lock`
 * held, and released in between; in the end not, so that the stream state is empty. */
static void empty_into(struct tarn__pool *pool, struct tarn__stream_state *stream_state,
                       struct tarn__stream_state *to) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    for (unsigned moved = 1; stream_state->free.oldest; moved++) {
        tarn__index index = stream_state->free.oldest;
        tarn__take_whole(&pool->heap, index);
        tarn__heap_put(&pool->heap, index, to);
        if (moved % MOVED_AT_ONCE == 0)
            tarn__pool_relock(pool);
    }
    drop_state(pool, stream_state);
}

/* Release the memory of a capture. Blocks that only the graph used get the order of `to`,
 * or are completed. Other streams used the blocks at home too; neither the end of the
 * graph nor its last launch waits for those streams. */
void tarn__capture_release(struct tarn_pool_capture *capture,
                           struct tarn__stream_state *to)
{
    tarn__assert_held(&capture->pool->lock);

    struct tarn__pool *pool = capture->pool;

    if (capture->is_let_go)
        return;
    capture->is_let_go = true;
    capture->callers++; /* tarn__capture_forget() leaves it meanwhile */
    tarn__map_take(&pool->captures->by_id, capture->id, NULL);
    while (capture->member_count > 0) {
        empty_into(pool, capture->members[capture->member_count - 1].stream_state, to);
        capture->member_count--;
    }
    empty_into(pool, capture->home, pool->captures->nobody);
    capture->home = NULL;
    capture->callers--;
}

void tarn__capture_leave(struct tarn__caller *caller)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn_pool_capture *capture;

    if (caller->capture_slot == 0)
        return;
    capture = caller->pool->captures->slots[caller->capture_slot];
    capture->callers--;
    tarn__capture_forget(capture);
}

/* Return the stream state for the frees of a capturing caller: its graph can run
 * again. */
static struct tarn__stream_state *state_of_capturing(struct tarn__caller *caller,
                                                     bool is_own)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__captures *captures = caller->pool->captures;

    if (caller->capture_slot == 0)
        return caller->stream_state;
    struct tarn_pool_capture *capture = captures->slots[caller->capture_slot];
    if (capture->is_let_go)
        return captures->nobody;
    return is_own ? caller->stream_state : capture->home;
}

struct tarn__stream_state *tarn__capture_state_for_free(struct tarn__caller *caller,
                                                        const struct tarn__node *node)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__stream_state *home = NULL;
    bool is_own =
        caller->capturing && node->capture && node->capture == caller->capture_slot;

    if (node->capture) {
        struct tarn_pool_capture *capture = caller->pool->captures->slots[node->capture];
        home = is_own ? NULL : capture->home;
        capture->live--;
        capture->live_bytes -= tarn__node_bytes(node);
        tarn__capture_forget(capture);
    }
    if (home)
        return home;
    return caller->capturing ? state_of_capturing(caller, is_own) : caller->stream_state;
}

void tarn__captures_collect(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    struct tarn__captures *captures = pool->captures;
    unsigned gone = atomic_load(&graphs_gone);

    if (!captures || captures->gone_seen == gone)
        return;
    captures->gone_seen = gone;
    for (unsigned i = 1; i < captures->used; i++) {
        struct tarn_pool_capture *capture = captures->slots[i];
        if (!capture || !capture->tie || !atomic_load(&capture->tie->gone) ||
            capture->is_let_go || capture->is_held)
            continue;
        /* The driver keeps a graph's objects until its last launch is done. */
        tarn__capture_release(capture, NULL);
        tarn__capture_forget(capture);
    }
}

void tarn__capture_end_hold(struct tarn_pool_capture *capture)
{
    tarn__assert_held(&capture->pool->lock);

    if (capture->is_held)
        capture->pool->captures->gone_seen--;
    capture->is_held = false;
}

bool tarn__captures_any(const struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    const struct tarn__captures *captures = pool->captures;

    return captures && captures->by_id.count > 0;
}

size_t tarn__captures_metadata(const struct tarn__pool *pool)
{
    return pool->captures ? sizeof *pool->captures : 0;
}

/* Without the lock: see the declaration. */
void tarn__captures_free(struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    for (unsigned i = 1; pool->captures && i < pool->captures->used; i++) {
        if (!pool->captures->slots[i])
            continue;
        drop_tie(pool->captures->slots[i]->tie);
        free(pool->captures->slots[i]->members);
        free(pool->captures->slots[i]);
    }
    if (pool->captures)
        tarn__map_free(&pool->captures->by_id);
    free(pool->captures);
}
