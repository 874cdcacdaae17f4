/* Test pinned memory that a manager caches: the cost of a pair, and that no block is
 * reused while work of any stream still uses it. */
#define _GNU_SOURCE
#include "cu.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { BYTES = 100000, THREADS = 4, TURNS = 200 };

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    return manager;
}

static tarn_pointer *take(tarn_manager *manager, size_t bytes)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memhostalloc(manager, bytes, 0, &pointer));
    return pointer;
}

/* Return whether the driver knows the address as pinned memory. */
static bool is_pinned(void *host)
{
    int (*get_flags)(unsigned *, void *) =
        (int (*)(unsigned *, void *))driver_call("cuMemHostGetFlags");
    unsigned flags;

    enter_context();
    bool known = get_flags(&flags, host) == 0;
    leave_context();
    return known;
}

TEST(pinned_block_reports_its_kind_and_is_writable)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = take(manager, BYTES), *view;

    CHECK_EQUAL(TARN_POINTER_PINNED, tarn_pointer_get_kind(pointer));
    CHECK_EQUAL(BYTES, tarn_pointer_bytes(pointer));
    CHECK_EQUAL(0, tarn_pointer_device(pointer));
    CHECK_EQUAL(1, tarn_pointer_use_count(pointer));
    CHECK(is_pinned(tarn_pointer_host(pointer)));
    memset(tarn_pointer_host(pointer), 1, BYTES);
    CHECK_OK(tarn_pointer_view(pointer, 100, 200, &view));
    tarn_pointer_release(pointer);
    memset(tarn_pointer_host(view), 2, 200);
    tarn_pointer_release(view);
    tarn_manager_release(manager);
}

TEST(pinned_pairs_need_no_driver_allocation)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = take(manager, BYTES);
    void *host = tarn_pointer_host(pointer);

    tarn_pointer_release(pointer);
    for (int i = 0; i < TURNS; i++) {
        pointer = take(manager, BYTES);
        tarn_pointer_release(pointer);
    }
    CHECK(is_pinned(host)); /* the first one is still mapped, for any owner */
    tarn_manager_release(manager);
    CHECK(!is_pinned(host));
}

TEST(free_pinned_memory_is_released_by_a_reset_and_live_memory_stays)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = take(manager, BYTES);
    void *host = tarn_pointer_host(pointer);

    CHECK_OK(tarn_manager_reset(manager));
    CHECK(is_pinned(host));
    memset(host, 1, BYTES);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_reset(manager));
    CHECK(!is_pinned(host));
    CHECK_OK(tarn_manager_reset(manager));
    tarn_manager_release(manager);
}

TEST(pinned_blocks_may_outlive_their_manager)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = take(manager, BYTES);
    void *host = tarn_pointer_host(pointer);

    tarn_manager_release(manager);
    CHECK(is_pinned(host));
    memset(host, 1, BYTES);
    tarn_pointer_release(pointer);
    CHECK(!is_pinned(host));
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

/* Another generation of the context has a pool of its own. Live blocks of the old one
 * ended with it, and none of their addresses is reused as if it were valid. */
TEST(pinned_memory_is_available_again_after_a_context_reset)
{
    tarn_manager *manager = make();
    tarn_pointer *old = take(manager, BYTES), *idle = take(manager, BYTES);

    tarn_pointer_release(idle);
    CHECK_OK(tarn_manager_reset(manager));
    reset_the_device();
    tarn_pointer *fresh = take(manager, BYTES);
    CHECK(is_pinned(tarn_pointer_host(fresh)));
    memset(tarn_pointer_host(fresh), 1, BYTES);
    tarn_pointer_release(old);
    tarn_pointer *second = take(manager, BYTES);
    CHECK(is_pinned(tarn_pointer_host(second)));
    CHECK(tarn_pointer_host(second) != tarn_pointer_host(fresh));
    tarn_pointer_release(fresh);
    tarn_pointer_release(second);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_manager_release(manager);
}

/* --- the promise -------------------------------------------------------------------- */

static atomic_bool gate;

static void wait_at_gate(void *unused)
{
    (void)unused;
    while (!atomic_load(&gate))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Queue a copy from a block behind a gate, on a stream that waits for no other, and free
 * the block. Allocate another block, and write into it from the host. */
TEST(pinned_memory_is_not_reused_while_a_copy_of_it_is_queued)
{
    int (*create)(tarn_stream *, unsigned) =
        (int (*)(tarn_stream *, unsigned))driver_call("cuStreamCreate");
    int (*destroy)(tarn_stream) = (int (*)(tarn_stream))driver_call("cuStreamDestroy_v2");
    int (*launch)(tarn_stream, void (*)(void *), void *) =
        (int (*)(tarn_stream, void (*)(void *), void *))driver_call("cuLaunchHostFunc");
    int (*to_device)(tarn_device_ptr, const void *, size_t, tarn_stream) =
        (int (*)(tarn_device_ptr, const void *, size_t, tarn_stream))driver_call(
            "cuMemcpyHtoDAsync_v2");
    int (*to_host)(void *, tarn_device_ptr, size_t) =
        (int (*)(void *, tarn_device_ptr, size_t))driver_call("cuMemcpyDtoH_v2");
    static unsigned char seen[BYTES];
    tarn_manager *manager = make();
    tarn_pointer *device, *pinned = take(manager, BYTES);
    tarn_stream stream;

    CHECK_OK(tarn_manager_memalloc(manager, BYTES, TARN_STREAM_NONE, &device));
    enter_context();
    CHECK_EQUAL(0, create(&stream, 1));
    memset(tarn_pointer_host(pinned), 7, BYTES);
    atomic_store(&gate, false);
    CHECK_EQUAL(0, launch(stream, wait_at_gate, NULL));
    CHECK_EQUAL(0, to_device(tarn_pointer_address(device), tarn_pointer_host(pinned),
                             BYTES, stream));
    tarn_pointer_release(pinned);
    pinned = take(manager, BYTES);
    memset(tarn_pointer_host(pinned), 9, BYTES);
    CHECK_EQUAL(0, destroy(stream));
    atomic_store(&gate, true);
    CHECK_OK(tarn_driver_synchronize(0));
    CHECK_EQUAL(0, to_host(seen, tarn_pointer_address(device), BYTES));
    for (size_t i = 0; i < BYTES; i++)
        CHECK_EQUAL(7, seen[i]);
    tarn_pointer_release(pinned);
    tarn_pointer_release(device);
    leave_context();
    tarn_manager_release(manager);
}

/* --- threads ------------------------------------------------------------------------ */

static void *work(void *argument)
{
    tarn_manager *manager = argument;

    for (size_t i = 1; i <= TURNS; i++) {
        tarn_pointer *pointer = take(manager, i * 100);
        unsigned char *host = tarn_pointer_host(pointer);
        memset(host, (int)i, i * 100);
        if (host[0] != (unsigned char)i || host[i * 100 - 1] != (unsigned char)i)
            fail_msg("a block of %zu bytes overlaps a live block", i * 100);
        tarn_pointer_release(pointer);
    }
    return NULL;
}

TEST(pinned_memory_is_allocated_by_many_threads)
{
    tarn_manager *manager = make();
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, work, manager));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    tarn_manager_release(manager);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}
