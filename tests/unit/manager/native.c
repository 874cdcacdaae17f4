/* Test the native manager: frees are batched until there are enough of them. */
#include "test.h"
#include <pthread.h>
#include <stdlib.h>

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_native_manager_ops(), NULL, 0, &manager));
    return manager;
}

static void end(tarn_manager *manager)
{
    tarn_manager_release(manager);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(10, 0.2));
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

static tarn_pointer *allocate(tarn_manager *manager, size_t bytes)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memalloc(manager, bytes, TARN_STREAM_NONE, &pointer));
    return pointer;
}

static void come_and_go(tarn_manager *manager, size_t bytes, int times)
{
    for (int i = 0; i < times; i++)
        tarn_pointer_release(allocate(manager, bytes));
}

static size_t pending(void)
{
    size_t count, bytes;

    CHECK_OK(tarn_manager_pending_deallocs(0, &count, &bytes));
    return count;
}

static size_t pending_bytes(void)
{
    size_t count, bytes;

    CHECK_OK(tarn_manager_pending_deallocs(0, &count, &bytes));
    return bytes;
}

TEST(native_serves_memory_that_can_be_used)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 1000);
    unsigned char bytes[1000] = {0};

    CHECK_TEXT("native", tarn_manager_name(manager));
    CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), 0xa5, 1000,
                               TARN_STREAM_LEGACY));
    CHECK_OK(tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)bytes,
                               tarn_pointer_address(pointer), 1000, TARN_STREAM_NONE));
    CHECK_EQUAL(0xa5, bytes[999]);
    tarn_pointer_release(pointer);
    end(manager);
}

TEST(native_flushes_at_the_eleventh_free_a11_a87)
{
    tarn_manager *manager = make();

    for (int i = 1; i <= 10; i++) {
        come_and_go(manager, 100, 1);
        CHECK_EQUAL(i, pending());
    }
    CHECK_EQUAL(1000, pending_bytes());
    CHECK_EQUAL(10, tarn_pointer_deferred_count());
    come_and_go(manager, 100, 1);
    CHECK_EQUAL(0, pending());
    CHECK_EQUAL(0, pending_bytes());
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    end(manager);
}

TEST(native_flushes_at_a_part_of_the_memory_a11)
{
    tarn_manager *manager = make();
    tarn_device_info info;

    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(1000, 0));
    tarn_pointer *pointer = allocate(manager, 1);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, pending()); /* any byte exceeds a ratio of zero */
    CHECK_OK(
        tarn_manager_set_pending_deallocs_limits(1000, 1e6 / (double)info.total_bytes));
    come_and_go(manager, 250000, 4);
    CHECK_EQUAL(4, pending());
    come_and_go(manager, 1000, 1);
    CHECK_EQUAL(0, pending());
    end(manager);
}

TEST(native_keeps_nothing_where_the_limit_is_0)
{
    tarn_manager *manager = make();

    CHECK_OK(tarn_manager_set_pending_deallocs_limits(0, 1));
    come_and_go(manager, 100, 1);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    end(manager);
}

/* Half of the free memory, twice: the second one needs the pending memory first. */
TEST(native_flushes_and_retries_once_when_memory_runs_out)
{
    tarn_manager *manager = make();
    tarn_pointer *none = NULL;
    size_t free_bytes, total;

    if (!on_sim()) {
        end(manager);
        return; /* other programs have memory, too */
    }
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(1000, 1));
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    size_t most = free_bytes / 8 * 5;
    come_and_go(manager, most, 1);
    CHECK_EQUAL(1, pending());
    come_and_go(manager, most, 1);
    CHECK_EQUAL(1, pending());
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager)); /* and even then */
    come_and_go(manager, most, 1);
    CHECK_EQUAL(1, pending());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    tarn_pointer *pointer = allocate(manager, most);
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_memalloc(manager, most, TARN_STREAM_NONE, &none));
    CHECK(none == NULL);
    tarn_pointer_release(pointer);
    end(manager);
}

TEST(native_retries_the_driver_once)
{
    tarn_manager *manager = make();
    tarn_pointer *none = NULL;

    if (on_sim()) {
        come_and_go(manager, 64, 1);
        sim_configure("fail=call:cuMemAlloc");
        CHECK_STATUS(TARN_OUT_OF_MEMORY,
                     tarn_manager_memalloc(manager, 64, TARN_STREAM_NONE, &none));
        CHECK_EQUAL(2, sim_faults());
        sim_configure(NULL);
        CHECK(none == NULL);
        CHECK_EQUAL(0, pending());
    }
    end(manager);
}

TEST(native_keeps_everything_while_cleanup_is_deferred_a12)
{
    tarn_manager *manager = make();

    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    come_and_go(manager, 100, 15);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    come_and_go(manager, 100, 15);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(30, pending());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(0, pending()); /* the last end flushes */
    come_and_go(manager, 100, 3);
    CHECK_EQUAL(3, pending()); /* and everything is as before */
    end(manager);
}

TEST(native_shares_pending_deallocs_with_host_and_managed_memory_a103)
{
    tarn_manager *manager = make();
    tarn_pointer *pointers[4];

    pointers[0] = allocate(manager, 100);
    CHECK_OK(tarn_manager_memhostalloc(manager, 200, 0, &pointers[1]));
    CHECK_OK(tarn_manager_memhostalloc(manager, 300, TARN_HOST_MAPPED, &pointers[2]));
    CHECK_OK(tarn_manager_memallocmanaged(manager, 400, true, &pointers[3]));
    for (int i = 0; i < 4; i++)
        tarn_pointer_release(pointers[i]);
    CHECK_EQUAL(4, pending());
    CHECK_EQUAL(800, pending_bytes()); /* only pinned: not the device's memory */
    end(manager);
}

TEST(native_unpins_at_once_a98)
{
    tarn_manager *manager = make();
    void *memory = aligned_alloc(4096, 4096);
    tarn_pointer *pointer;

    CHECK(memory != NULL);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    for (int i = 0; i < 2; i++) { /* otherwise it could not be pinned again */
        CHECK_OK(tarn_manager_mempin(manager, memory, 4096, 0, NULL, NULL, &pointer));
        tarn_pointer_release(pointer);
        CHECK_EQUAL(0, pending());
    }
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    free(memory);
    end(manager);
}

TEST(native_reset_flushes_and_pointers_outlive_it)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 64);

    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    come_and_go(manager, 100, 3);
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(0, pending());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    tarn_manager_release(manager);
    CHECK_OK(
        tarn_memset_async(0, tarn_pointer_address(pointer), 7, 64, TARN_STREAM_LEGACY));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, pending()); /* without an instance, too */
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, pending());
}

TEST(native_exports_its_memory)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 64), *view;
    tarn_ipc_handle handle;

    CHECK_OK(tarn_pointer_view(pointer, 16, 16, &view));
    CHECK_OK(tarn_manager_get_ipc_handle(manager, view, &handle));
    CHECK_EQUAL(16, handle.offset);
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    end(manager);
}

static tarn_stream freed_on;

static void note_stream(void *data, const tarn_observer_event *event)
{
    (void)data;
    if (event->action == TARN_ACTION_FREE)
        freed_on = event->stream;
}

/* A raw stream may be destroyed when its memory is freed. The free does not name it,
 * because an observer or a resource might use the handle. */
TEST(native_needs_no_stream_to_free_memory)
{
    tarn_manager *manager = make();
    tarn_stream stream;
    tarn_pointer *pointer;

    CHECK_OK(tarn_stream_create(0, true, &stream));
    CHECK_OK(tarn_manager_memalloc(manager, 64, stream, &pointer));
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_stream_destroy(0, stream));
    freed_on = stream;
    CHECK_OK(tarn_resource_set_observer(note_stream, NULL));
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK(freed_on == TARN_STREAM_NONE);
    end(manager);
}

/* A failed free is not lost, and does not delay others. */
TEST(native_flush_that_fails_is_tried_again)
{
    tarn_manager *manager = make();

    if (on_sim()) {
        come_and_go(manager, 100, 10);
        sim_configure("fail=call:cuMemFree:2");
        come_and_go(manager, 100, 1);
        CHECK_EQUAL(1, sim_faults());
        sim_configure(NULL);
        CHECK_EQUAL(0, pending());
        CHECK(tarn_pointer_deferred_count() > 0);
        come_and_go(manager, 100, 1);
        CHECK_EQUAL(1, tarn_pointer_deferred_count()); /* the one that is pending now */
    }
    end(manager);
}

/* A free that fails ends the flush of a release. Those after it have not failed. */
TEST(native_frees_that_a_failed_flush_leaves_are_waiting)
{
    tarn_deferred_frees frees = {.size = sizeof frees};
    tarn_manager *manager = make();

    if (on_sim()) {
        come_and_go(manager, 100, 10);
        sim_configure("fail=call:cuMemFree:3");
        come_and_go(manager, 100, 1);
        sim_configure(NULL);
        CHECK_OK(tarn_pointer_deferred_frees(&frees));
        CHECK_EQUAL(1, frees.failed_count);
        CHECK_EQUAL(100, frees.failed_bytes);
        CHECK_EQUAL(8, frees.waiting_count);
        CHECK_EQUAL(800, frees.waiting_bytes);
    }
    end(manager);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 200 };

static void *work(void *data)
{
    tarn_manager *manager = data;

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 5 == 0)
            CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
        come_and_go(manager, 256, 3);
        if (i % 5 == 0)
            CHECK_OK(tarn_manager_defer_cleanup_end(manager));
        if (i % 50 == 0)
            CHECK_OK(tarn_manager_reset(manager));
    }
    return NULL;
}

TEST(native_shared_by_threads_frees_everything)
{
    tarn_manager *manager = make();
    pthread_t threads[THREADS];
    tarn_runtime_counts counts;

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, work, manager));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end(manager);
    tarn_pointer_counts(&counts);
    CHECK_EQUAL(counts.created, counts.destroyed);
}
