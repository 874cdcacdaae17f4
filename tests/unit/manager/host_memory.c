/* Test host and managed memory of the resource-backed manager. */
#include "cu.h"
#include <stdlib.h>

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    return manager;
}

static tarn_device_ptr at(const void *host)
{
    return (tarn_device_ptr)(uintptr_t)host;
}

TEST(pinned_memory_is_host_memory)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, 0, &pointer));
    CHECK_EQUAL(TARN_POINTER_PINNED, tarn_pointer_get_kind(pointer));
    CHECK_EQUAL(0, tarn_pointer_address(pointer));
    memset(tarn_pointer_host(pointer), 1, 4096);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(mapped_memory_has_an_address_on_the_device)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &pointer));
    CHECK_EQUAL(TARN_POINTER_MAPPED, tarn_pointer_get_kind(pointer));
    CHECK(tarn_pointer_address(pointer) != 0);
    unsigned char *host = tarn_pointer_host(pointer);
    memset(host, 0, 4096);
    CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), 0x5a, 4096,
                               TARN_STREAM_LEGACY));
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_LEGACY));
    CHECK_EQUAL(0x5a, host[4095]);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

static void fail_release(void *owner)
{
    (void)owner;
    fail_msg("an owner was released that was never retained");
}

/* The driver is not called, so the manager was not. */
TEST(mapped_memory_of_a_device_that_cannot_map_is_rejected_before_the_manager_a92)
{
    tarn_pointer *const untouched = (tarn_pointer *)(uintptr_t)77;
    tarn_manager *manager = make();
    tarn_pointer *pointer = untouched;
    void *page = aligned_alloc(4096, 4096);

    if (!on_sim())
        skip();
    sim_configure("attribute=19:0,fail=call:cuMemHostRegister,fail=call:cuMemHostAlloc");
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_manager_mempin(manager, page, 4096, TARN_HOST_MAPPED, page,
                                     fail_release, &pointer));
    CHECK_MESSAGE("mempin: device 0 cannot map host memory");
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &pointer));
    CHECK_MESSAGE("memhostalloc: device 0 cannot map host memory");
    CHECK(pointer == untouched);
    CHECK_EQUAL(0, sim_faults());
    sim_configure("attribute=19:0");
    CHECK_OK(tarn_manager_mempin(manager, page, 4096, 0, NULL, NULL, &pointer));
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, 0, &pointer));
    tarn_pointer_release(pointer);
    sim_configure("fail=call:cuDeviceGetAttribute");
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &pointer));
    sim_configure(NULL);
    CHECK_OK(
        tarn_manager_mempin(manager, page, 4096, TARN_HOST_MAPPED, NULL, NULL, &pointer));
    tarn_pointer_release(pointer);
    free(page);
    tarn_manager_release(manager);
}

/* cuMemHostGetFlags reports the flags of the allocation. */
TEST(host_memory_is_allocated_with_driver_flags_and_freed_to_the_driver)
{
    int (*get_flags)(unsigned *, void *) =
        (int (*)(unsigned *, void *))driver_call("cuMemHostGetFlags");
    tarn_manager *manager = make();
    tarn_pointer *pointer;
    unsigned flags = 0;

    CHECK_OK(tarn_manager_memhostalloc(
        manager, 64, TARN_HOST_PORTABLE | TARN_HOST_WRITE_COMBINED, &pointer));
    void *host = tarn_pointer_host(pointer);
    enter_context();
    CHECK_EQUAL(0, get_flags(&flags, host));
    CHECK_EQUAL(1, flags & 1); /* CU_MEMHOSTALLOC_PORTABLE */
    CHECK_EQUAL(4, flags & 4); /* CU_MEMHOSTALLOC_WRITECOMBINED */
    tarn_pointer_release(pointer);
    CHECK(get_flags(&flags, host) != 0); /* it does not know the address any more */
    leave_context();
    tarn_manager_release(manager);
}

TEST(managed_memory_is_seen_by_host_and_device)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    for (int global = 0; global < 2; global++) {
        CHECK_OK(tarn_manager_memallocmanaged(manager, 4096, global, &pointer));
        CHECK_EQUAL(TARN_POINTER_MANAGED, tarn_pointer_get_kind(pointer));
        unsigned char *host = tarn_pointer_host(pointer);
        CHECK(at(host) == tarn_pointer_address(pointer));
        CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), 3, 4096,
                                   TARN_STREAM_NONE));
        CHECK_OK(tarn_driver_synchronize(0));
        CHECK_EQUAL(3, host[4095]);
        tarn_pointer_release(pointer);
    }
    tarn_manager_release(manager);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

static void *page(void)
{
    void *memory = aligned_alloc(4096, 4096);

    CHECK(memory != NULL);
    return memory;
}

TEST(pinning_keeps_the_owner_until_it_is_undone)
{
    tarn_manager *manager = make();
    void *memory = page();
    tarn_pointer *pointer, *view;
    int released = 0;

    CHECK_OK(tarn_manager_mempin(manager, memory, 4096, TARN_HOST_MAPPED, &released,
                                 count_release, &pointer));
    CHECK(tarn_pointer_host(pointer) == memory);
    CHECK(tarn_pointer_address(pointer) != 0);
    CHECK_OK(tarn_pointer_view(pointer, 8, 8, &view));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, released);
    tarn_pointer_release(view);
    CHECK_EQUAL(1, released);

    /* It is unpinned; otherwise it could not be pinned again. */
    CHECK_OK(tarn_manager_mempin(manager, memory, 4096, 0, NULL, NULL, &pointer));
    CHECK_EQUAL(TARN_POINTER_PINNED, tarn_pointer_get_kind(pointer));
    tarn_pointer_release(pointer);
    free(memory);
    tarn_manager_release(manager);
}

TEST(pinning_that_fails_leaves_the_owner_alone)
{
    tarn_manager *manager = make();
    void *memory = page();
    tarn_pointer *pointer, *again = NULL;
    int released = 0;

    CHECK_OK(tarn_manager_mempin(manager, memory, 4096, 0, NULL, NULL, &pointer));
    CHECK_STATUS(
        TARN_DRIVER_FAILURE,
        tarn_manager_mempin(manager, memory, 4096, 0, &released, count_release, &again));
    CHECK_MESSAGE("cuMemHostRegister");
    CHECK(again == NULL);
    CHECK_EQUAL(0, released);
    tarn_pointer_release(pointer);
    free(memory);
    tarn_manager_release(manager);
}

TEST(pinning_is_undone_at_once_even_while_cleanup_is_deferred)
{
    tarn_manager *manager = make();
    void *memory = page();
    tarn_pointer *pinned, *host, *managed;
    int released = 0;

    CHECK_OK(
        tarn_manager_mempin(manager, memory, 4096, 0, &released, count_release, &pinned));
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, 0, &host));
    CHECK_OK(tarn_manager_memallocmanaged(manager, 64, true, &managed));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pinned);
    CHECK_EQUAL(1, released);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_pointer_release(host);
    tarn_pointer_release(managed);
    CHECK_EQUAL(1, tarn_pointer_deferred_count()); /* pinned memory returns to its pool */
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    free(memory);
    tarn_manager_release(manager);
}

TEST(failed_free_of_host_memory_is_retried_at_its_next_allocation)
{
    tarn_manager *manager = make();
    void *memory = page();
    tarn_pointer *pointer, *pinned;

    if (on_sim()) {
        CHECK_OK(tarn_manager_memallocmanaged(manager, 64, true, &pointer));
        sim_configure("fail=call:cuMemFree");
        tarn_pointer_release(pointer);
        sim_configure(NULL);
        CHECK_EQUAL(1, tarn_pointer_deferred_count());
        CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &pointer));
        CHECK_EQUAL(0, tarn_pointer_deferred_count());

        sim_configure("fail=call:cuMemFreeHost");
        tarn_pointer_release(pointer);
        sim_configure(NULL);
        CHECK_EQUAL(1, tarn_pointer_deferred_count());
        CHECK_OK(tarn_manager_mempin(manager, memory, 4096, 0, NULL, NULL, &pinned));
        CHECK_EQUAL(0, tarn_pointer_deferred_count());
        tarn_pointer_release(pinned);
    }
    free(memory);
    tarn_manager_release(manager);
}

TEST(host_memory_that_a_reclaim_makes_available_keeps_the_last_error_message)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_manager_memallocmanaged(manager, 64, true, &pointer));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    tarn_error_set_native(TARN_BAD_FORMAT, 17, "an older failure");
    sim_configure("fail=call:cuMemHostAlloc:1");
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &pointer));
    sim_configure(NULL);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_MESSAGE("an older failure");
    CHECK_EQUAL(17, tarn_error_last()->native);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    tarn_manager_release(manager);
}

TEST(too_large_host_memory_is_rejected_with_a_message_and_not_rounded)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = NULL;

    CHECK(tarn_manager_memhostalloc(manager, SIZE_MAX - 7, 0, &pointer) != TARN_OK);
    CHECK_MESSAGE("exceed the address space");
    CHECK(tarn_manager_memhostalloc(manager, SIZE_MAX - 7, TARN_HOST_MAPPED, &pointer) !=
          TARN_OK);
    CHECK_MESSAGE("cuMemHostAlloc");
    CHECK(tarn_manager_memallocmanaged(manager, SIZE_MAX - 7, true, &pointer) != TARN_OK);
    CHECK(tarn_manager_memalloc(manager, SIZE_MAX - 7, TARN_STREAM_NONE, &pointer) !=
          TARN_OK);
    CHECK(pointer == NULL);
    tarn_manager_release(manager);
}
