/* pools.h -- helpers of the tests of a whole pool: driver calls, streams that are held
 * up, and statistics.
 *
 * The driver calls are those that a program beside Tarn has.
 */
#ifndef TARN_TESTS_POOLS_H
#define TARN_TESTS_POOLS_H

#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"
#include "pool/cache/thread_cache.h"
#include "pool/resolve.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Return the pool of a resource. */
static inline struct tarn__pool *inside(tarn_resource *resource)
{
    struct tarn__pool *pool = NULL;

    CHECK_OK(tarn__pool_of(resource, "pool", &pool));
    return pool;
}

/* Have no thread bypass its caches, however long the frees took that a test has made. */
static inline void use_caches(tarn_resource *resource)
{
    struct tarn__pool *pool = inside(resource);

    tarn__pool_lock(pool);
    for (struct tarn__thread_cache *i = pool->caches; i;
         i = i->in[TARN__CACHES_OF_POOL].next) {
        i->is_bypassed = false;
        i->bypass.frees = 0;
    }
    tarn__pool_unlock(pool);
}

enum { NON_BLOCKING = 1, CAPTURE_GLOBAL = 0, CAPTURE_RELAXED = 2 };

static struct {
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxReset_v2)(int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuCtxSynchronize)(void);
    int (*cuStreamCreate)(void *out, unsigned flags);
    int (*cuStreamDestroy_v2)(tarn_stream stream);
    int (*cuStreamSynchronize)(tarn_stream stream);
    int (*cuStreamGetId)(tarn_stream stream, unsigned long long *out);
    int (*cuStreamIsCapturing)(tarn_stream stream, int *out);
    int (*cuStreamBeginCapture_v2)(tarn_stream stream, int mode);
    int (*cuStreamEndCapture)(tarn_stream stream, void **graph);
    int (*cuGraphInstantiateWithFlags)(void **exec, void *graph,
                                       unsigned long long flags);
    int (*cuGraphLaunch)(void *exec, tarn_stream stream);
    int (*cuGraphExecDestroy)(void *exec);
    int (*cuGraphDestroy)(void *graph);
    int (*cuLaunchHostFunc)(tarn_stream stream, void (*call)(void *), void *data);
    int (*cuMemsetD8Async)(tarn_device_ptr at, unsigned char value, size_t bytes,
                           tarn_stream stream);
    int (*cuMemcpyDtoH_v2)(void *to, tarn_device_ptr from, size_t bytes);
    int (*cuMemsetD8_v2)(tarn_device_ptr at, unsigned char value, size_t bytes);
} cu;

#define POOLS_FIND(name) find_call(#name, &cu.name)

/* The driver is open, and the primary context of a device current. */
static inline void use_driver(int device)
{
    tarn_driver_info info;
    void *context;

    if (tarn_driver_get_info(&info) != TARN_OK)
        abort();
    POOLS_FIND(cuDevicePrimaryCtxRetain);
    POOLS_FIND(cuDevicePrimaryCtxReset_v2);
    POOLS_FIND(cuCtxSetCurrent);
    POOLS_FIND(cuCtxSynchronize);
    POOLS_FIND(cuStreamCreate);
    POOLS_FIND(cuStreamDestroy_v2);
    POOLS_FIND(cuStreamSynchronize);
    POOLS_FIND(cuStreamGetId);
    POOLS_FIND(cuStreamIsCapturing);
    POOLS_FIND(cuStreamBeginCapture_v2);
    POOLS_FIND(cuStreamEndCapture);
    POOLS_FIND(cuGraphInstantiateWithFlags);
    POOLS_FIND(cuGraphLaunch);
    POOLS_FIND(cuGraphExecDestroy);
    POOLS_FIND(cuGraphDestroy);
    POOLS_FIND(cuLaunchHostFunc);
    POOLS_FIND(cuMemsetD8Async);
    POOLS_FIND(cuMemcpyDtoH_v2);
    POOLS_FIND(cuMemsetD8_v2);
    if (cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context))
        abort();
}

#define CU(call) CHECK_EQUAL(0, cu.call)

static inline tarn_stream new_stream(void)
{
    tarn_stream stream;

    CU(cuStreamCreate(&stream, NON_BLOCKING));
    return stream;
}

/* --- a stream that is held up until the test releases it --- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_open;
};

static inline void wait_at_gate(void *data)
{
    struct gate *gate = data;

    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->change, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* The gates of hold_up() outlive the test, which may fail before it opens them. */
static struct held_gate {
    struct gate gate;
    const struct gate *of; /* the gate of the test; NULL: it is open */
    atomic_bool is_used;   /* the stream is not past it yet */
} held_gates[64];

static inline void wait_at_held_gate(void *data)
{
    struct held_gate *held = data;

    wait_at_gate(&held->gate);
    atomic_store(&held->is_used, false);
}

static inline void open_held_gate(struct held_gate *held)
{
    held->of = NULL;
    pthread_mutex_lock(&held->gate.lock);
    held->gate.is_open = true;
    pthread_cond_broadcast(&held->gate.change);
    pthread_mutex_unlock(&held->gate.lock);
}

/* Open a gate. NULL: each one that a failed test has left, which would block the next test. */
static inline void let_through(const struct gate *gate)
{
    for (size_t i = 0; i < sizeof held_gates / sizeof *held_gates; i++)
        if (held_gates[i].of && (!gate || held_gates[i].of == gate))
            open_held_gate(&held_gates[i]);
}

static inline void open_left_gates(void)
{
    let_through(NULL);
}

static inline void hold_up(tarn_stream stream, const struct gate *gate)
{
    struct held_gate *held = held_gates;

    while (atomic_load(&held->is_used))
        CHECK(++held < held_gates + sizeof held_gates / sizeof *held_gates);
    test_after_each(open_left_gates);
    held->gate =
        (struct gate){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    held->of = gate;
    atomic_store(&held->is_used, true);
    CU(cuLaunchHostFunc(stream, wait_at_held_gate, held));
}

static inline void let_on(const struct gate *gate)
{
    let_through(gate);
    CU(cuCtxSynchronize());
}

/* --- pools --- */

static inline tarn_resource *new_pool(const tarn_pool_options *options)
{
    tarn_resource *pool = NULL;

    CHECK_OK(tarn_pool_create(0, NULL, options, &pool));
    return pool;
}

/* A bounded number of calls, and no device-wide wait. */
static inline tarn_resource *strict_pool(size_t maximum)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = maximum,
                                 .oom_policy = TARN_POOL_OOM_FAIL};

    return new_pool(&options);
}

static inline tarn_pool_statistics statistics(tarn_resource *pool)
{
    tarn_pool_statistics all = {.size = sizeof all};

    CHECK_OK(tarn_pool_get_statistics(pool, &all));
    return all;
}

static inline tarn_device_ptr take(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 0;

    CHECK_OK(tarn_resource_allocate(pool, bytes, 0, stream, &block));
    return block;
}

static inline void put(tarn_resource *pool, tarn_device_ptr block, size_t bytes,
                       tarn_stream stream)
{
    CHECK_OK(tarn_resource_deallocate(pool, block, bytes, 0, stream));
}

static inline bool is_refused(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 77;
    tarn_status status = tarn_resource_allocate(pool, bytes, 0, stream, &block);

    if (status == TARN_OK)
        put(pool, block, bytes, stream);
    else
        CHECK_EQUAL(77, block);
    return status == TARN_OUT_OF_MEMORY;
}

static inline void end_pool(tarn_resource *pool)
{
    CHECK_OK(tarn_resource_release(pool));
}

/* Check that the statistics add up. */
static inline void adds_up(tarn_resource *pool)
{
    tarn_pool_statistics all = statistics(pool);

    CHECK_EQUAL(all.reserved, all.live + all.thread_cached + all.cached + all.captured);
    CHECK(all.unfenced <= all.cached);
    CHECK(all.largest_free <= all.cached);
    CHECK_EQUAL(all.live_blocks, all.allocations - all.frees);
}

#endif
