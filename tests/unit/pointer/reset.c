/* Test pointers from before a reset of the device's context. They free nothing of the
 * blocks that have the same addresses now. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "driver_calls.h"

enum { BYTES = 4096, TRIES = 64 };

static void release_after_a_reset(void)
{
    tarn_resource *cuda, *limiter;
    tarn_device_ptr later[TRIES], address;
    tarn_pointer *before;
    size_t used = 77;
    bool same = false;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_limiter_create(cuda, BYTES, &limiter));
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(limiter, BYTES, TARN_STREAM_NONE, &before));
    address = tarn_pointer_address(before);
    reset_the_device();
    for (int i = 0; i < TRIES; i++) {
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(cuda, BYTES, 0, NULL, &later[i]));
        same = same || later[i] == address;
    }
    /* Otherwise the test shows nothing. A GPU's driver may give other addresses. */
    CHILD_CHECK(same || !has_sim());

    tarn_pointer_release(before);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    CHILD_STATUS(TARN_OK, tarn_limiter_used_bytes(limiter, &used));
    CHILD_CHECK(used == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(limiter));

    CHILD_CHECK(tarn_resource_live_blocks(cuda) == TRIES);
    for (int i = 0; i < TRIES; i++) {
        CHILD_STATUS(TARN_OK, tarn_memset_async(0, later[i], 7, BYTES, NULL));
        CHILD_STATUS(TARN_OK, tarn_resource_deallocate(cuda, later[i], BYTES, 0, NULL));
    }
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(pointer_of_before_a_reset_leaves_the_next_owner_of_its_address_alone)
{
    in_child(release_after_a_reset);
}

static void release_host_memory_after_a_reset(void)
{
    static char page[8192];
    tarn_manager *manager;
    tarn_pointer *host, *pinned, *managed;

    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    CHILD_STATUS(TARN_OK, tarn_manager_memhostalloc(manager, BYTES, 0, &host));
    CHILD_STATUS(TARN_OK,
                 tarn_manager_mempin(manager, page, sizeof page, 0, NULL, NULL, &pinned));
    CHILD_STATUS(TARN_OK, tarn_manager_memallocmanaged(manager, BYTES, true, &managed));
    reset_the_device();
    tarn_pointer_release(host);
    tarn_pointer_release(pinned);
    tarn_pointer_release(managed);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    /* The manager serves the new generation of the context. */
    CHILD_STATUS(TARN_OK, tarn_manager_memhostalloc(manager, BYTES, 0, &host));
    CHILD_STATUS(TARN_OK,
                 tarn_manager_mempin(manager, page, sizeof page, 0, NULL, NULL, &pinned));
    tarn_pointer_release(host);
    tarn_pointer_release(pinned);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    tarn_manager_release(manager);
}

TEST(host_memory_from_before_a_reset_is_dropped)
{
    in_child(release_host_memory_after_a_reset);
}
