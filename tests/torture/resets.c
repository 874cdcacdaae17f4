/* Reset the context before the 1st, 2nd, 3rd ... call of a scenario. No call crashes or misuses
 * the driver, a block can be freed, all can be released, and new memory can be had. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"
#include <stdlib.h>

enum { BYTES = 3 << 20, NEVER = 1000 };

static unsigned calls_left; /* until the reset */

/* Before the driver is opened: `system` needs access to pageable memory. */
__attribute__((constructor)) static void ask_for_pageable_access(void)
{
    setenv("TARN_SIM", "attribute=88:1", 1);
}

/* Stands before each call. */
static void step(void)
{
    if (calls_left == 0)
        return;
    calls_left--;
    if (calls_left == 0)
        reset_the_device();
}

#define STEP(call) (step(), (call))

/* The blocks of a scenario. A program that resets a context frees its blocks before it
 * allocates others: a new block may have the address of a lost one. */
static struct {
    tarn_device_ptr at[4];
    size_t bytes[4];
    uint64_t generation;
} blocks;

static void put(tarn_resource *resource, unsigned which, tarn_stream stream)
{
    size_t live = tarn_resource_live_blocks(resource);

    if (!blocks.at[which])
        return;
    CHECK_OK(STEP(tarn_resource_deallocate(resource, blocks.at[which],
                                           blocks.bytes[which], 0, stream)));
    CHECK(tarn_resource_live_blocks(resource) <= live);
    blocks.at[which] = 0;
}

/* A call after a reset may report it, once. */
static void get(tarn_resource *resource, unsigned which, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 77;

    step();
    if (tarn_context_generation(0) != blocks.generation)
        for (unsigned i = 0; i < 4; i++)
            put(resource, i, TARN_STREAM_NONE);
    blocks.generation = tarn_context_generation(0);
    tarn_status status = tarn_resource_allocate(resource, bytes, 0, stream, &block);
    if (status != TARN_OK) {
        CHECK_EQUAL(77, block);
        status = tarn_resource_allocate(resource, bytes, 0, stream, &block);
    }
    if (status == TARN_DRIVER_FAILURE && strstr(tarn_error_last()->message, "was reset"))
        return;
    CHECK_STATUS(TARN_OK, status);
    blocks.at[which] = block;
    blocks.bytes[which] = bytes;
}

static void use(tarn_resource *resource)
{
    size_t free_bytes, total_bytes;

    get(resource, 0, 1000, TARN_STREAM_DEFAULT);
    get(resource, 1, BYTES, TARN_STREAM_DEFAULT);
    get(resource, 2, BYTES, TARN_STREAM_NONE);
    put(resource, 1, TARN_STREAM_PER_THREAD);
    (void)STEP(tarn_resource_memory_info(resource, NULL, &free_bytes, &total_bytes));
    (void)STEP(tarn_resource_trim(resource, 0, NULL));
    get(resource, 3, BYTES, TARN_STREAM_PER_THREAD);
    put(resource, 0, TARN_STREAM_NONE);
    put(resource, 2, TARN_STREAM_NONE);
    put(resource, 3, TARN_STREAM_DEFAULT);
    (void)STEP(tarn_driver_synchronize(0));
}

typedef tarn_status create_fn(int device, tarn_resource **out);

static create_fn *create;

static void live(void)
{
    tarn_resource *resource = NULL, *over = NULL;

    if (STEP(create(0, &resource)) != TARN_OK)
        CHECK_OK(create(0, &resource));
    use(resource);
    CHECK_OK(STEP(tarn_counter_create(resource, &over)));
    use(over);
    CHECK_OK(STEP(tarn_resource_release(over)));
    CHECK_OK(STEP(tarn_resource_release(resource)));
}

/* Pointers outlive their memory. */
static void point(void)
{
    tarn_resource *resource = NULL;
    tarn_pointer *pointer = NULL, *view = NULL;

    if (STEP(create(0, &resource)) != TARN_OK)
        CHECK_OK(create(0, &resource));
    step();
    for (int tries = 0; tries < 2 && !pointer; tries++)
        (void)tarn_pointer_allocate(resource, BYTES, TARN_STREAM_NONE, &pointer);
    if (pointer) { /* a pool cannot be used after a reset */
        CHECK_OK(STEP(tarn_pointer_view(pointer, 100, 200, &view)));
        (void)STEP(tarn_pointer_set_stream(pointer, TARN_STREAM_PER_THREAD));
        step();
        tarn_pointer_release(pointer);
        step();
        tarn_pointer_release(view);
    }
    CHECK_OK(STEP(tarn_pointer_reclaim_deferred()));
    CHECK_OK(STEP(tarn_resource_release(resource)));
}

/* The number of calls before the reset grows until no reset comes any more. */
static void reset_at_each(void (*scenario)(void))
{
    for (unsigned call = 1; call < NEVER; call++) {
        unsigned long long misuses = sim_misuses();
        CHECK_OK(tarn_driver_synchronize(0));
        calls_left = call;
        scenario();
        CHECK_OK(tarn_pointer_reclaim_deferred());
        if (sim_misuses() != misuses || sim_live_bytes() != 0)
            fail_msg("with a reset before call %u: %llu misuses, %llu bytes live", call,
                     sim_misuses() - misuses, sim_live_bytes());
        if (calls_left > 0)
            return;
    }
    fail_msg("the scenario does not end");
}

static tarn_status create_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

static tarn_status create_system(int device, tarn_resource **out)
{
    return tarn_system_create(device, NULL, out);
}

static tarn_status create_pool(int device, tarn_resource **out)
{
    return tarn_pool_create(device, NULL, NULL, out);
}

static tarn_status create_tight(int device, tarn_resource **out)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = 8 << 20,
                                       .policy = TARN_POOL_POLICY_TIGHT};

    return tarn_pool_create(device, NULL, &options, out);
}

/* Create the upstream, and something over it that keeps it. */
static tarn_status over(create_fn *make_upstream, int device,
                        tarn_status (*make)(tarn_resource *, tarn_resource **),
                        tarn_resource **out)
{
    tarn_resource *upstream = NULL;
    tarn_status status = make_upstream(device, &upstream);

    if (status == TARN_OK)
        status = make(upstream, out);
    CHECK_OK(tarn_resource_release(upstream));
    return status;
}

static tarn_status make_pool(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_pool_create(0, upstream, NULL, out);
}

static tarn_status make_binning(tarn_resource *upstream, tarn_resource **out)
{
    const tarn_binning_options options = {sizeof options, 10, 16};

    return tarn_binning_create(upstream, &options, out);
}

static tarn_status make_guard(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_guard_create(upstream, NULL, out);
}

static tarn_status create_pool_on_cuda(int device, tarn_resource **out)
{
    return over(tarn_cuda_create, device, make_pool, out);
}

static tarn_status create_exportable(int device, tarn_resource **out)
{
    return tarn_exportable_create(device, NULL, out);
}

static tarn_status create_pool_on_exportable(int device, tarn_resource **out)
{
    return over(create_exportable, device, make_pool, out);
}

static tarn_status create_binning(int device, tarn_resource **out)
{
    return over(tarn_cuda_create, device, make_binning, out);
}

static tarn_status create_binning_on_pool(int device, tarn_resource **out)
{
    return over(create_pool, device, make_binning, out);
}

static tarn_status create_guard(int device, tarn_resource **out)
{
    return over(tarn_cuda_create, device, make_guard, out);
}

static tarn_status create_guard_on_pool(int device, tarn_resource **out)
{
    return over(create_pool, device, make_guard, out);
}

#define RESETS(kind, creation)                    \
    TEST(kind##_survives_a_reset_before_any_call) \
    {                                             \
        if (!on_sim())                            \
            skip();                               \
        create = creation;                        \
        memset(&blocks, 0, sizeof blocks);        \
        reset_at_each(live);                      \
        reset_at_each(point);                     \
    }

RESETS(cuda, tarn_cuda_create)
RESETS(async, create_async)
RESETS(managed, tarn_managed_create)
RESETS(pinned, tarn_pinned_create)
RESETS(system, create_system)
RESETS(exportable, create_exportable)
RESETS(pool, create_pool)
RESETS(tight_pool, create_tight)
RESETS(pool_on_cuda, create_pool_on_cuda)
RESETS(pool_on_exportable, create_pool_on_exportable)
RESETS(binning, create_binning)
RESETS(binning_on_pool, create_binning_on_pool)
RESETS(guard, create_guard)
RESETS(guard_on_pool, create_guard_on_pool)
