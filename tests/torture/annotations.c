/* Run resources whose blocks a tool sees, with the 1st, 2nd, 3rd ... driver call or host
 * allocation failing. The tool sees no region twice and no end without a begin, and no region
 * or heap is left. */
#define _GNU_SOURCE
#include "nvtx_log.h"
#include "test.h"
#include <stdlib.h>

enum { BYTES = 1000, LARGE = 5 << 20, BLOCKS = 4 };

__attribute__((constructor)) static void use_tool(void)
{
    nvtx_use_tool(NULL);
}

/* A call that fails because of a fault succeeds when it is tried again. */
#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static void live_over(tarn_resource *resource, tarn_stream stream)
{
    tarn_device_ptr blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = i == 1 ? LARGE : BYTES;
        blocks[i] = 77;
        if (tarn_resource_allocate(resource, bytes, 0, stream, &blocks[i]) != TARN_OK) {
            CHECK_EQUAL(77, blocks[i]);
            CHECK_OK(tarn_resource_allocate(resource, bytes, 0, stream, &blocks[i]));
        }
    }
    nvtx_read();
    for (int i = 0; i < BLOCKS; i++)
        WORKS_IN_THE_END(tarn_resource_deallocate(resource, blocks[i],
                                                  i == 1 ? LARGE : BYTES, 0, stream));
    nvtx_read();
    CHECK_OK(tarn_resource_release(resource));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
    CHECK_EQUAL(0, nvtx_heap_count());
    nvtx_use_tool(NULL); /* a new log */
}

static void live_over_pool(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_over(pool, TARN_STREAM_DEFAULT);
}

static void live_over_pool_without_a_stream(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_over(pool, TARN_STREAM_NONE);
}

static void live_over_segments(void)
{
    tarn_resource *cuda, *pool;

    WORKS_IN_THE_END(tarn_cuda_create(0, &cuda));
    WORKS_IN_THE_END(tarn_pool_create(0, cuda, NULL, &pool));
    CHECK_OK(tarn_resource_release(cuda));
    live_over(pool, TARN_STREAM_DEFAULT);
}

static void live_over_cuda(void)
{
    tarn_resource *cuda;

    WORKS_IN_THE_END(tarn_cuda_create(0, &cuda));
    live_over(cuda, TARN_STREAM_NONE);
}

TEST(annotations_survive_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    live_over_pool(); /* attaches the tool */
    torture(live_over_pool);
    torture(live_over_pool_without_a_stream);
    torture(live_over_segments);
    torture(live_over_cuda);
}

/* --- host allocations --- */

/* The sanitizers replace malloc() themselves. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "starving.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

void *malloc(size_t bytes)
{
    return starving_fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return starving_fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return starving_fails() ? NULL : __libc_realloc(block, bytes);
}

static void live_without_memory(void)
{
    tarn_resource *pool;
    tarn_device_ptr block;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    for (int i = 0; i < 3; i++) {
        WORKS_IN_THE_END(tarn_resource_allocate(pool, BYTES, 0, NULL, &block));
        WORKS_IN_THE_END(tarn_resource_deallocate(pool, block, BYTES, 0, NULL));
    }
    CHECK_OK(tarn_resource_release(pool));
}

TEST(annotations_survive_any_host_allocation_failing)
{
    if (!on_sim())
        skip();
    live_without_memory(); /* what a process allocates once */
    for (unsigned nth = 1;; nth++) {
        nvtx_use_tool(NULL);
        has_failed = false;
        allocations_left = nth;
        live_without_memory();
        allocations_left = 0;
        nvtx_read();
        CHECK_EQUAL(0, nvtx_region_count());
        CHECK_EQUAL(0, nvtx_heap_count());
        if (!has_failed)
            return;
    }
}
#endif
