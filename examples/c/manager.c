/* manager.c -- a memory manager used from C, without Python.
 *
 * A runtime that wants somebody else to look after its memory talks to a tarn_manager:
 * one instance a context, with the operations of NBEP 7. This program is such a runtime.
 * The manager here serves from Tarn's resources; another table of operations in the place
 * of tarn_resource_manager_ops() is another manager, and nothing else changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>

/* Say what went wrong and return false. */
static bool ok(tarn_status status)
{
    if (status != TARN_OK)
        fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    return status == TARN_OK;
}

/* Device memory, a window into it, and what another process would need to open it. */
static bool use_device_memory(tarn_manager *manager)
{
    tarn_pointer *pointer, *view;
    tarn_ipc_handle handle;

    if (!ok(tarn_manager_memalloc(manager, 4096, TARN_STREAM_NONE, &pointer)))
        return false;
    if (!ok(tarn_pointer_view(pointer, 1024, 512, &view))) {
        tarn_pointer_release(pointer);
        return false;
    }
    tarn_pointer_release(pointer); /* the view keeps the memory */
    printf("memalloc:     a view of %zu bytes\n", tarn_pointer_bytes(view));

    bool is_exported = ok(tarn_manager_get_ipc_handle(manager, view, &handle));
    if (is_exported)
        printf("ipc handle:   %zu bytes at %zu of their allocation, device %d\n",
               handle.bytes, handle.offset, handle.device);
    tarn_pointer_release(view); /* the memory goes back here */
    return is_exported;
}

/* Host memory that the device can write by itself. */
static bool use_mapped_memory(tarn_manager *manager)
{
    tarn_pointer *pointer;

    if (!ok(tarn_manager_memhostalloc(manager, 256, TARN_HOST_MAPPED, &pointer)))
        return false;
    unsigned char *host = tarn_pointer_host(pointer);
    bool is_filled =
        ok(tarn_fill(tarn_pointer_device(pointer), tarn_pointer_address(pointer), 7, 256,
                     TARN_STREAM_LEGACY)) &&
        ok(tarn_stream_synchronize(tarn_pointer_device(pointer), TARN_STREAM_LEGACY)) &&
        host[255] == 7;
    printf("memhostalloc: the device wrote %d, the host reads it\n", host[255]);
    tarn_pointer_release(pointer);
    return is_filled;
}

static void release_memory(void *memory)
{
    printf("mempin:       unpinned, its owner may go\n");
    free(memory);
}

/* The program's own memory, page-locked as long as somebody uses it. From a successful
 * mempin on the pointer owns the memory. */
static bool use_pinned_memory(tarn_manager *manager)
{
    void *memory = aligned_alloc(4096, 4096);
    tarn_pointer *pointer;

    if (!memory || !ok(tarn_manager_mempin(manager, memory, 4096, 0, memory,
                                           release_memory, &pointer))) {
        free(memory);
        return false;
    }
    memset(tarn_pointer_host(pointer), 1, tarn_pointer_bytes(pointer));
    tarn_pointer_release(pointer);
    return true;
}

static bool tell_memory(tarn_manager *manager)
{
    size_t free_bytes, total_bytes;

    if (!ok(tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes)))
        return false;
    printf("memory info:  %zu MiB free of %zu MiB\n", free_bytes >> 20,
           total_bytes >> 20);
    return true;
}

int main(void)
{
    tarn_manager *manager;
    tarn_runtime_counts counts;

    if (!ok(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager)))
        return 1;
    bool is_good = use_device_memory(manager) && use_mapped_memory(manager) &&
                   use_pinned_memory(manager) && tell_memory(manager);
    tarn_manager_release(manager);
    tarn_pointer_counts(&counts);
    printf("pointers:     %llu made, %llu gone\n", (unsigned long long)counts.created,
           (unsigned long long)counts.destroyed);
    return is_good && counts.created == counts.destroyed ? 0 : 1;
}
