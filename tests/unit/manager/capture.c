/* No capture ends because somebody asks a manager for host or managed memory. */
#include "capturing.h"
#include "test.h"
#include <stdlib.h>

static tarn_manager *manager;
static void *memory; /* to pin */

static tarn_status take_and_let_go(void)
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
    if (status == TARN_OK && tarn_pointer_unreturned() != 0)
        status = TARN_STILL_IN_USE;
    return status;
}

TEST(manager_ends_no_capture_with_host_memory)
{
    memory = aligned_alloc(4096, 4096);
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    capture_survives(take_and_let_go);
    tarn_manager_release(manager);
    free(memory);
}
