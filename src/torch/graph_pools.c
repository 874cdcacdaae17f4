/* graph_pools.c -- the memory of PyTorch's pools of graphs.
 *
 * PyTorch captures a graph into a pool of graphs, which has a number. Several graphs can
 * have one pool: then a graph may read memory that another one allocated. So the memory of
 * all captures of a pool stays until the last of its graphs is released. A capture object
 * of Tarn would end with its own graph, therefore each is held (tarn_pool_capture_hold()).
 *
 * PyTorch names neither the stream nor the graph when a capture begins. The first
 * allocation on a capturing stream shows both. If several pools of graphs are open, the
 * capture belongs to all of them, as it cannot be told which one it is.
 *
 * PyTorch releases a pool before it destroys the executable graph, and launches may still
 * run. The memory is therefore released without a stream: it is reused after all work that
 * is queued at that moment.
 */
#include "torch/graph_pools.h"
#include <tarn/pool.h>
#include "base/error.h"
#include "base/mutex.h"
#include "base/warn.h"
#include "driver/driver.h"
#include "torch/torch_resource.h"
#include <stdatomic.h>
#include <stdlib.h>

/* A pool of graphs. */
struct graph_pool {
    struct graph_pool *next;
    int device;
    tarn_torch_pool_id id;
    size_t uses; /* begins, less releases */
    size_t open; /* begins, less ends */
    size_t count, capacity;
    tarn_pool_capture **captures; /* a reference to each */
};

TARN__STATIC_MUTEX(lock);
static struct graph_pool *graph_pools;
static atomic_size_t open_count; /* sum of all `open` */

bool tarn__graph_pools_is_open(void)
{
    return atomic_load_explicit(&open_count, memory_order_relaxed) > 0;
}

/* Return the link to a pool of graphs, or to the end of the list. `lock` held. */
static struct graph_pool **link_of(int device, tarn_torch_pool_id id)
{
    struct graph_pool **link = &graph_pools;

    while (*link && ((*link)->device != device || (*link)->id.first != id.first ||
                     (*link)->id.second != id.second))
        link = &(*link)->next;
    return link;
}

/* --- captures of a pool --- */

static bool has_capture(const struct graph_pool *pool, const tarn_pool_capture *capture)
{
    for (size_t i = 0; i < pool->count; i++)
        if (pool->captures[i] == capture)
            return true;
    return false;
}

/* Add a capture, whose reference changes hands. Returns false without host memory. */
static bool add_capture(struct graph_pool *pool, tarn_pool_capture *capture)
{
    if (pool->count == pool->capacity) {
        size_t capacity = pool->capacity ? 2 * pool->capacity : 4;
        tarn_pool_capture **captures =
            realloc(pool->captures, capacity * sizeof *captures);
        if (!captures)
            return false;
        pool->captures = captures;
        pool->capacity = capacity;
    }
    pool->captures[pool->count++] = capture;
    return true;
}

/* Give the reference to the first open pool of graphs that lacks the capture. Returns false
 * if there is none, or no host memory. */
static bool give(int device, tarn_pool_capture *capture)
{
    bool is_given = false;

    tarn__mutex_lock(&lock);
    struct graph_pool *pool = graph_pools;
    while (pool &&
           (pool->device != device || pool->open == 0 || has_capture(pool, capture)))
        pool = pool->next;
    if (pool)
        is_given = add_capture(pool, capture);
    tarn__mutex_unlock(&lock);
    return is_given;
}

static bool note(tarn_resource *pool, int device, tarn_stream stream)
{
    tarn_pool_capture *capture;

    while (tarn_pool_get_capture(pool, stream, &capture) == TARN_OK) {
        tarn_pool_capture_hold(capture);
        if (!give(device, capture)) {
            tarn_pool_capture_unreference(capture);
            return true;
        }
    }
    return tarn_error_last()->status != TARN_NOT_FOUND;
}

bool tarn__graph_pools_note(int device, tarn_stream stream)
{
    struct tarn__kept_error kept = tarn__error_keep();
    tarn_resource *pool = tarn__torch_resource_pool(tarn__torch_resource_get(device));
    bool captures = pool && note(pool, device, stream);

    tarn_resource_release(pool); /* not the last reference */
    tarn__error_restore(&kept);
    return captures;
}

/* --- PyTorch's calls --- */

void tarn_torch_begin_graph_pool(int device, tarn_torch_pool_id id, void *filter)
{
    (void)filter;
    if (tarn__driver_gone())
        return;
    tarn__mutex_lock(&lock);
    struct graph_pool **link = link_of(device, id), *pool = *link;
    if (!pool && (pool = calloc(1, sizeof *pool)) != NULL) {
        pool->device = device;
        pool->id = id;
        *link = pool;
    }
    if (pool) {
        pool->uses++;
        pool->open++;
        atomic_fetch_add(&open_count, 1);
    }
    tarn__mutex_unlock(&lock);
    if (!pool)
        tarn__warn("torch: no host memory for a pool of graphs of device %d: its memory "
                   "ends with the graph of its allocation",
                   device);
}

void tarn_torch_end_graph_pool(int device, tarn_torch_pool_id id)
{
    if (tarn__driver_gone())
        return;
    tarn__mutex_lock(&lock);
    struct graph_pool *pool = *link_of(device, id);
    if (pool && pool->open > 0) {
        pool->open--;
        atomic_fetch_sub(&open_count, 1);
    }
    tarn__mutex_unlock(&lock);
}

/* Release the memory of a capture. If that fails, the memory stays with its graph. */
static void release_capture(tarn_pool_capture *capture)
{
    if (tarn_pool_capture_release(capture, TARN_STREAM_NONE) == TARN_OK)
        return;
    tarn__warn("torch: the memory of a graph stays until its graph is destroyed: %s",
               tarn_error_last()->message);
    tarn_pool_capture_unreference(capture);
}

/* Remove a pool of graphs from the list if this was its last use. */
static struct graph_pool *drop_use(int device, tarn_torch_pool_id id)
{
    struct graph_pool *last = NULL;

    tarn__mutex_lock(&lock);
    struct graph_pool **link = link_of(device, id), *pool = *link;
    if (pool)
        pool->uses--; /* a pool in the list has uses */
    if (pool && pool->uses == 0) {
        atomic_fetch_sub(&open_count, pool->open);
        *link = pool->next;
        last = pool;
    }
    tarn__mutex_unlock(&lock);
    return last;
}

void tarn_torch_release_graph_pool(int device, tarn_torch_pool_id id)
{
    if (tarn__driver_gone())
        return;
    struct graph_pool *last = drop_use(device, id);
    if (!last)
        return;
    for (size_t i = 0; i < last->count; i++)
        release_capture(last->captures[i]);
    free(last->captures);
    free(last);
}
