/* make.c -- creation and destruction of a pool.
 *
 * Creation starts with the parts that need a context, and undoes them in reverse order.
 * Others learn of the pool (threads that unregister streams, threads that end) only when
 * it is complete. Destruction releases the memory only when the device has finished with
 * it. Where that cannot be known any more, because the process ends, it makes no driver
 * call. A reset of the context ends all its work. Physical memory and addresses of VMM,
 * and memory of the driver's pools, outlive the reset, so the pool releases them even
 * then.
 */
#include "pool/make.h"
#include "resource/discards.h"
#include "resource/internal.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_cache.h"
#include "pool/cache/thread_table.h"
#include "pool/compact/background.h"
#include "pool/compact/grow.h"
#include "pool/follow/learn.h"
#include "pool/follow/state.h"
#include "pool/oom_callback.h"
#include "pool/order/capture.h"
#include "pool/order/events.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "pool/pool.h"
#include "pool/resolve.h"
#include "base/error.h"
#include "base/options.h"
#include <stdlib.h>
#include <string.h>

static tarn_status check_maximum(const char *name, size_t bytes,
                                 const tarn_pool_options *options)
{
    if (options->maximum_bytes == 0 || bytes <= options->maximum_bytes)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT, "pool: %s %zu exceeds maximum_bytes %zu",
                          name, bytes, options->maximum_bytes);
}

static tarn_status check_policy(const char *name, unsigned value, unsigned most)
{
    if (value <= most)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: %s %d is unknown, this version knows 0 to %u", name,
                          (int)value, most);
}

/* A free over the threshold unmaps memory at any time, so nobody can deregister it
 * before. */
static tarn_status check_moves(const tarn_pool_options *options)
{
    if (options->moves != TARN_POOL_MOVES_NEVER || options->release_threshold_bytes == 0)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: release_threshold_bytes %zu has frees unmap memory, "
                          "moves %d forbids it",
                          options->release_threshold_bytes, (int)options->moves);
}

/* A learned plan moves the memory that the pool has by then to planned addresses. */
static tarn_status check_learn(const tarn_pool_options *options)
{
    if (options->learn && options->plan)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pool: learn is true, and there is a plan: a pool follows one "
            "or learns its own");
    if (options->detect_steps && !options->learn)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pool: detect_steps is true, and learn is false: no step is learned");
    if (options->learn && options->moves == TARN_POOL_MOVES_NEVER)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: learn is true, moves %d forbids that memory moves",
                              (int)options->moves);
    return TARN_OK;
}

static tarn_status check_options(int device, tarn_resource *upstream,
                                 const tarn_pool_options *options)
{
    tarn_status status = check_maximum("initial_bytes", options->initial_bytes, options);

    if (status == TARN_OK)
        status = check_maximum("growth_bytes", options->growth_bytes, options);
    if (status == TARN_OK)
        status =
            check_policy("oom_policy", (unsigned)options->oom_policy, TARN_POOL_OOM_FAIL);
    if (status == TARN_OK)
        status = check_policy("suspended_policy", (unsigned)options->suspended_policy,
                              TARN_POOL_SUSPENDED_RESUME);
    if (status == TARN_OK)
        status = check_policy("no_stream_policy", (unsigned)options->no_stream_policy,
                              TARN_POOL_NO_STREAM_SINGLE);
    if (status == TARN_OK)
        status =
            check_policy("policy", (unsigned)options->policy, TARN_POOL_POLICY_TIGHT);
    if (status == TARN_OK)
        status = check_policy("moves", (unsigned)options->moves, TARN_POOL_MOVES_NEVER);
    if (status == TARN_OK)
        status = check_moves(options);
    if (status == TARN_OK)
        status = check_learn(options);
    if (status != TARN_OK)
        return status;
    if (upstream && tarn_resource_device(upstream) != device &&
        tarn_resource_device(upstream) != TARN_DEVICE_NONE)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: upstream %s is of device %d, the pool of device %d",
                              tarn_resource_name(upstream),
                              tarn_resource_device(upstream), device);
    return TARN_OK;
}

static tarn_status open_plan(struct tarn__pool *pool)
{
    tarn_status status = tarn__state_open(pool, pool->options.plan);

    if (status == TARN_OK && pool->options.learn && !tarn__learn_open(pool))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to learn plans");
    return status;
}

/* Open the parts that need a context; they are undone in reverse order. No other thread
 * knows the pool yet, so it takes no lock. */
static tarn_status open_pool(struct tarn__pool *pool,
                             tarn_resource *upstream) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(pool->device, &scope);

    if (status != TARN_OK)
        return status;
    pool->context_generation = scope.context_generation;
    pool->calls = scope.calls;
    size_t free_bytes = 0, total_bytes = 0;
    pool->device_bytes = UINT64_MAX;
    if (scope.calls->mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS_)
        pool->device_bytes = total_bytes;
    tarn__scope_leave(&scope);
    status = tarn__context_primary(pool->device, &pool->context);
    if (status != TARN_OK)
        return status;
    status = tarn__pages_open(pool->device, upstream, pool->options.growth_bytes,
                              &pool->pages);
    if (status != TARN_OK)
        return status;
    tarn__pages_note_call(pool->pages); /* cuMemGetInfo, above */
    tarn__pages_set_maximum(pool->pages, pool->limit);
    /* Handles between blocks that stay cannot move to planned addresses: small ones pin
     * little. */
    tarn__pages_set_tight(pool->pages, tarn__pool_is_tight(pool) || pool->options.learn);
    struct tarn__stream_state *nobody =
        tarn__identity_get(&pool->heap, TARN__KEY_NO_STREAM);
    if (!nobody)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    nobody->users++; /* it is never deleted */
    if (pool->options.plan || pool->options.learn)
        return open_plan(pool);
    if (tarn__pages_is_vmm(pool->pages)) {
        struct tarn__span range = tarn__pages_range(pool->pages);
        if (!tarn__ranges_add(&pool->heap, range.address, range.bytes))
            return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    }
    return TARN_OK;
}

/* Without a lock, for the same reason. */
static struct tarn__pool *new_pool(int device, const tarn_pool_options *options,
                                   size_t block_bytes) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    struct tarn__pool *pool = tarn__cache_line_allocate(sizeof *pool);

    if (!pool)
        return NULL;
    pool->device = device;
    pool->options = *options;
    pool->limit = options->maximum_bytes ? options->maximum_bytes : UINT64_MAX;
    pool->moves_freely = options->learn;
    pool->least_bytes = block_bytes;
    pool->most_bytes =
        block_bytes ? block_bytes : (size_t)(UINT32_MAX / 2) << TARN__QUANTUM_SHIFT;
    pthread_mutex_init(&pool->growth.mutex, NULL);
    pthread_mutex_init(&pool->device_wait, NULL);
    tarn__heap_init(&pool->heap);
    tarn__process_barrier_open();
    return pool;
}

/* Free the parts that need no context. No thread uses the pool any more. */
static void free_pool(struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    if (tarn__pool_lifecycle(pool) & TARN__POOL_SUSPENDED)
        tarn__discards_count_suspended(true);
    tarn__learn_free(pool);
    tarn__state_free(pool);
    tarn__heap_free(&pool->heap);
    free(pool->retired);
    tarn__oom_callbacks_free(&pool->oom_callbacks);
    pthread_mutex_destroy(&pool->device_wait);
    pthread_mutex_destroy(&pool->growth.mutex);
    free(pool);
}

/* Discard a pool that never became a resource. */
static void discard(struct tarn__pool *pool)
{
    if (pool->pages)
        tarn__pages_close(pool->pages);
    free_pool(pool);
}

/* Handle the unregistration of a stream: a last event fence, after which the pool does
 * not use the handle. */
static void stream_closes(void *data, tarn_stream stream,
                          struct tarn__registration *registration)
{
    struct tarn__pool *pool = data;

    if (tarn__pool_has_ended(pool))
        return;
    tarn__thread_caches_close(pool, stream, registration);
    tarn__fence_last(pool, stream, registration);
}

/* --- destruction --- */

/* Events of a context that was reset went with it. No thread uses the pool any more. */
static void free_events(struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    struct tarn__scope scope;
    CUevent_ event;

    if (tarn__scope_enter(pool->device, &scope) != TARN_OK)
        return;
    tarn__events_collect(&pool->heap);
    while (scope.context_generation == pool->context_generation &&
           (event = tarn__events_take(&pool->heap)) != NULL)
        scope.calls->event_destroy(event);
    tarn__scope_leave(&scope);
}

/* Return true if no memory of the pool is in use. No other thread uses the pool. */
static bool is_all_completed(const struct tarn__pool *pool)
    TARN__NO_THREAD_SAFETY_ANALYSIS
{
    return pool->heap.completed_bytes == pool->heap.free_bytes &&
           pool->retired_count == 0;
}

/* Return true if the device has finished with all memory of the pool. The wait is tried
 * twice. After two failures the answer is still true if the context was reset meanwhile.
 * If not, the memory may be in use, and it is leaked rather than released. */
static bool wait_for_last_use(struct tarn__pool *pool)
{
    tarn__fences_poll_all(pool);
    return is_all_completed(pool) ||
           tarn__pages_wait_for_device(pool->pages) == TARN_OK ||
           tarn__pages_wait_for_device(pool->pages) == TARN_OK ||
           tarn__pool_end_after_reset(pool);
}

/* Return true if the pool has a background thread. No other thread uses the pool. */
static bool has_background(const struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    return pool->background != NULL;
}

/* End the background thread. No other thread uses the pool. */
static void stop_background(struct tarn__pool *pool)
{
    if (tarn__pool_take_growth(pool) != TARN_OK)
        return; /* not reached: this thread does not hold it */
    tarn__pool_assert_growth(pool);
    tarn__background_stop(pool);
    tarn__pool_leave_growth(pool);
}

/* Destroy a pool without users. Its memory is released only when the device has finished
 * with it. */
static void destroy(void *self)
{
    struct tarn__pool *pool = self;

    /* In a forked child the lock of the list of pools may be held forever, too. At exit
     * other threads may still use the pool. The pool's host memory ends with the
     * process. */
    if (tarn__driver_gone()) {
        if (!has_background(pool)) /* else its thread may still use them */
            tarn__pages_close(pool->pages);
        return;
    }
    stop_background(pool);
    tarn__registration_callback_remove(stream_closes, pool);
    tarn__thread_table_remove_pool(pool);
    tarn__thread_caches_free(pool);
    bool is_done = tarn__pool_end_after_reset(pool) || wait_for_last_use(pool);
    if (!tarn__pool_has_ended(pool))
        free_events(pool);
    if (is_done)
        tarn__pages_close(pool->pages);
    tarn__captures_free(pool);
    free_pool(pool);
}

/* --- creation --- */

/* Make it a resource, and make it known to threads that unregister streams and to threads
 * that end. */
static tarn_status register_pool(struct tarn__pool *pool, tarn_resource *upstream)
{
    tarn_resource_ops ops = tarn__pool_ops;
    tarn_status status = tarn__registration_callback_add(stream_closes, pool);

    if (status != TARN_OK)
        return status;
    ops.destroy = destroy;
    ops.name = pool->least_bytes ? "slab" : "pool";
    status = tarn_resource_create_with_upstream(&ops, pool, pool->device, upstream,
                                                &pool->resource);
    if (status != TARN_OK) {
        tarn__registration_callback_remove(stream_closes, pool);
        return status;
    }
    pool->resource->is_pool = true;
    pool->resource->none_is_default =
        pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE;
    tarn__thread_table_add_pool(pool);
    return TARN_OK;
}

/* Memory comes in whole pages. A page that the maximum would split is not obtained, at
 * the start either. */
static size_t initial_bytes(const tarn_pool_options *options)
{
    size_t most = options->maximum_bytes - options->maximum_bytes % TARN__PAGE_BYTES;

    return most > 0 && options->initial_bytes > most ? most : options->initial_bytes;
}

/* Most bytes of one growth, as a request of half the quanta that 32 bits can count; and
 * the most growths at creation. */
#define GROWTH_MAX ((uint64_t)1 << (30 + TARN__QUANTUM_SHIFT))
enum { GROWTHS_MAX = 256 };

/* Return the bytes of the next growth towards `rest` more. `most` is the limit. Segments
 * never coalesce, so under a maximum they have sizes of powers of two. Blocks of such a
 * size can then use all of the maximum. The blocks of a slab have their own size, and it
 * has one segment. */
static uint64_t next_growth(const struct tarn__pool *pool, uint64_t rest, uint64_t most)
{
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    bool is_last = tarn__pages_round_up(reserved + rest) >= most;

    if (rest > GROWTH_MAX)
        return GROWTH_MAX;
    if (tarn__pages_is_vmm(pool->pages) || pool->least_bytes > 0 || most == UINT64_MAX ||
        is_last)
        return rest;
    return (uint64_t)1 << (63 - __builtin_clzll(rest));
}

/* Reserve `bytes`. Each block stays in transit until all are there, so the next growth
 * does not find it. `growth` held. */
static tarn_status grow_to(struct tarn__caller *caller, uint64_t bytes)
    TARN__REQUIRES(growth)
{
    tarn__assert_held(&caller->pool->growth);

    struct tarn__pool *pool = caller->pool;
    tarn__index blocks[GROWTHS_MAX];
    unsigned count = 0;
    tarn_status status = TARN_OK;
    uint64_t reserved;

    tarn__pool_lock(pool);
    uint64_t most = pool->limit;
    tarn__pool_unlock(pool);
    while (status == TARN_OK && count < GROWTHS_MAX &&
           (reserved = tarn__pages_reserved(pool->pages)) < bytes) {
        uint64_t growth = next_growth(pool, bytes - reserved, most);
        struct tarn__request request = {
            (uint32_t)((growth + TARN__QUANTUM - 1) >> TARN__QUANTUM_SHIFT),
            TARN__QUANTUM};
        blocks[count] = 0;
        status = tarn__grow(caller, &request, &blocks[count++]);
    }
    tarn__pool_lock(pool);
    while (count > 0)
        if (blocks[--count])
            tarn__heap_put(&pool->heap, blocks[count], NULL);
    tarn__pool_unlock(pool);
    return status;
}

static tarn_status grow_initially(struct tarn__pool *pool, uint64_t bytes)
{
    struct tarn__caller caller;
    tarn_status status = tarn__resolve_begin(pool, TARN_STREAM_NONE, &caller);

    if (status != TARN_OK)
        return status;
    status = tarn__pool_take_growth(pool);
    if (status == TARN_OK) {
        tarn__pool_assert_growth(pool);
        status = grow_to(&caller, bytes);
        tarn__pool_leave_growth(pool);
    }
    tarn__resolve_end(&caller);
    return status;
}

static tarn_status reserve_initial_bytes(struct tarn__pool *pool)
{
    if (pool->options.initial_bytes == 0)
        return TARN_OK;
    tarn_status status = grow_initially(pool, initial_bytes(&pool->options));
    if (status == TARN_OK)
        return TARN_OK;
    struct tarn__kept_error words = tarn__error_keep();
    tarn_resource_release(pool->resource);
    return tarn__error_restore(&words);
}

tarn_status tarn_pool_create(int device, tarn_resource *upstream,
                             const tarn_pool_options *options, tarn_resource **out)
{
    return tarn__make_pool(device, upstream, options, 0, out);
}

tarn_status tarn__make_pool(int device, tarn_resource *upstream,
                            const tarn_pool_options *given, size_t block_bytes,
                            tarn_resource **out)
{
    tarn_pool_options options;
    tarn_status status = tarn__device_check("pool", device);

    if (status == TARN_OK && !out)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "pool: create: out is NULL");
    if (status == TARN_OK)
        status = tarn__options_read("pool", given, sizeof given->size, &options,
                                    sizeof options);
    if (status == TARN_OK)
        status = check_options(device, upstream, &options);
    if (status != TARN_OK)
        return status;
    struct tarn__pool *pool = new_pool(device, &options, block_bytes);
    if (!pool)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    status = open_pool(pool, upstream);
    if (status == TARN_OK)
        status = register_pool(pool, upstream);
    if (status != TARN_OK) {
        discard(pool);
        return status;
    }
    tarn_resource *resource = pool->resource;
    pool->options.plan = NULL; /* the caller's */
    tarn__state_check_maximum(pool);
    status = reserve_initial_bytes(pool);
    if (status == TARN_OK)
        *out = resource;
    return status;
}
