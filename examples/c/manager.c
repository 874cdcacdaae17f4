/* manager.c -- use a memory manager from C, without Python.
 *
 * A runtime that delegates its memory management uses a tarn_manager: one instance per
 * context, with the operations of NBEP 7. This program is such a runtime, and works with
 * any manager:
 *
 *     ./manager                                   Tarn's, with the current device resource
 *     TARN_MEMORY_MANAGER=native ./manager        another manager of Tarn
 *     TARN_MEMORY_MANAGER=./plugin.so ./manager   a plugin
 *     ./manager ./plugin.so                       the same, by a call
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>

/* Print the error and return false. */
static bool ok(tarn_status status)
{
    if (status != TARN_OK)
        fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    return status == TARN_OK;
}

/* Allocate device memory, create a view of it, and a handle for another process. */
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

    tarn_status status = tarn_manager_get_ipc_handle(manager, view, &handle);
    if (status == TARN_OK)
        printf("ipc handle:   %zu bytes at %zu of their allocation, device %d\n",
               handle.bytes, handle.offset, handle.device);
    else if (status == TARN_NOT_SUPPORTED) /* not all memory has a handle */
        printf("ipc handle:   %s\n", tarn_error_last()->message);
    tarn_pointer_release(view); /* this frees the memory */
    return status == TARN_OK || status == TARN_NOT_SUPPORTED;
}

/* Allocate host memory that the device can access. */
static bool use_mapped_memory(tarn_manager *manager)
{
    tarn_pointer *pointer;

    if (!ok(tarn_manager_memhostalloc(manager, 256, TARN_HOST_MAPPED, &pointer)))
        return false;
    unsigned char *host = tarn_pointer_host(pointer);
    bool is_filled =
        ok(tarn_memset_async(tarn_pointer_device(pointer), tarn_pointer_address(pointer),
                             7, 256, TARN_STREAM_LEGACY)) &&
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

/* Pin the program's own memory for the lifetime of a pointer. From a successful mempin on
 * the pointer owns the memory. */
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

/* Call it before the first use, and once: a second, other manager is rejected. */
static bool load_manager(const char *path)
{
    const tarn_manager_ops *ops;

    return ok(tarn_manager_load(path, NULL, &ops)) &&
           ok(tarn_set_memory_manager(ops, NULL));
}

int main(int count, char **arguments)
{
    tarn_manager *manager;
    tarn_runtime_counts counts;

    if (count > 1 && !load_manager(arguments[1]))
        return 1;
    if (!ok(tarn_memory_manager(0, &manager)))
        return 1;
    printf("served by:    %s\n", tarn_manager_name(manager));
    bool is_good = use_device_memory(manager) && use_mapped_memory(manager) &&
                   use_pinned_memory(manager) && tell_memory(manager) &&
                   ok(tarn_manager_reset(manager)); /* frees its cached memory */
    tarn_manager_release(manager);
    tarn_pointer_counts(&counts);
    printf("pointers:     %llu made, %llu gone\n", (unsigned long long)counts.created,
           (unsigned long long)counts.destroyed);
    return is_good && counts.created == counts.destroyed ? 0 : 1;
}
