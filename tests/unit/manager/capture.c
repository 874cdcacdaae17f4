/* Check that no capture ends because a manager allocates or frees memory. */
#include "capturing.h"
#include "test.h"
#include <stdlib.h>

static tarn_manager *manager;
static void *memory; /* to pin */

static tarn_status allocate_and_release(void)
{
    tarn_pointer *host = NULL, *managed = NULL, *pinned = NULL;
    tarn_status status =
        tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &host);

    if (status == TARN_OK)
        status = tarn_manager_memallocmanaged(manager, 4096, true, &managed);
    if (status == TARN_OK)
        status = tarn_manager_mempin(manager, memory, 4096, TARN_HOST_MAPPED, NULL, NULL,
                                     &pinned);
    tarn_pointer_release(pinned);
    tarn_pointer_release(managed);
    tarn_pointer_release(host);
    if (status == TARN_OK && tarn_pointer_deferred_count() != 0)
        status = TARN_STILL_IN_USE;
    return status;
}

/* One of each kind, and two of them are freed meanwhile: more than one exceeds the limit.
 */
static tarn_status take_and_flush(void)
{
    tarn_pointer *pointers[3] = {NULL, NULL, NULL};
    tarn_status status =
        tarn_manager_memalloc(manager, 4096, TARN_STREAM_NONE, &pointers[0]);

    if (status == TARN_OK)
        status = tarn_manager_memhostalloc(manager, 4096, 0, &pointers[1]);
    if (status == TARN_OK)
        status = tarn_manager_memallocmanaged(manager, 4096, true, &pointers[2]);
    for (int i = 0; i < 3; i++)
        tarn_pointer_release(pointers[i]);
    if (status == TARN_OK && tarn_pointer_deferred_count() > 1)
        status = TARN_STILL_IN_USE;
    return status;
}

TEST(native_manager_ends_no_capture_when_it_flushes)
{
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(1, 1));
    CHECK_OK(tarn_manager_create(tarn_native_manager_ops(), NULL, 0, &manager));
    CHECK_OK(tarn_manager_initialize(manager));
    capture_survives(take_and_flush);
    tarn_manager_release(manager);
    CHECK_OK(tarn_pointer_reclaim_deferred());
}

TEST(manager_ends_no_capture_with_host_memory)
{
    memory = aligned_alloc(4096, 4096);
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    capture_survives(allocate_and_release);
    tarn_manager_release(manager);
    free(memory);
}
