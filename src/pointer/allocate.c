/* allocate.c -- pointers over blocks of a resource.
 *
 * With a stream, the resource's own stream order applies. Without one (TARN_STREAM_NONE),
 * the caller may use the block on any stream, and may release it while any stream still
 * works on it. Where tarn_resource_supports_no_stream() is true, that is safe without
 * further waits. Elsewhere two waits make it safe:
 *
 *   - At the release, Tarn waits for the whole device before the block returns.
 *   - At the allocation, Tarn waits for the stream that the resource prepared it on.
 *
 * That is slow and always correct. The first wait ends every stream capture in the
 * context. Memory that belongs to no device has no device to wait for.
 */
#include "pointer/allocate.h"
#include "driver/stream.h"
#include "pointer/deferred_frees.h"
#include "driver/driver.h"
#include "base/blocking_hook.h"
#include "base/error.h"
#include "resource/block_generation.h"

/* Does a block that is allocated and freed without a stream need Tarn's own waits? */
static bool needs_waits(const tarn_resource *resource, tarn_stream stream)
{
    return stream == TARN_STREAM_NONE &&
           tarn_resource_device(resource) != TARN_DEVICE_NONE &&
           !tarn_resource_supports_no_stream(resource);
}

/* No work may be pending behind a block that was allocated without a stream. A resource
 * that orders by stream prepared it on the default stream. Of other resources nothing is
 * known. */
static tarn_status wait_until_ready(tarn_resource *resource, tarn_stream stream)
{
    if (!needs_waits(resource, stream))
        return TARN_OK;
    tarn__blocking_hook_call();
    if (tarn_resource_supports_streams(resource))
        return tarn_stream_synchronize(tarn_resource_device(resource),
                                       TARN_STREAM_LEGACY);
    return tarn_driver_synchronize(tarn_resource_device(resource));
}

/* After exit has begun Tarn starts no driver call, so there is no wait either. */
static tarn_status wait_for_last_use(tarn_resource *resource, tarn_stream stream)
{
    if (!needs_waits(resource, stream) || tarn__driver_gone())
        return TARN_OK;
    tarn__blocking_hook_call();
    return tarn_driver_synchronize(tarn_resource_device(resource));
}

/* The resource is notified even where a context reset took the block, so that the
 * accounting of adaptors stays right. */
static tarn_status deallocate(const tarn_pointer *pointer, tarn_stream stream)
{
    uint64_t before = tarn__block_generation_set(pointer->context_generation);
    tarn_status status = tarn_resource_deallocate(pointer->resource, pointer->address,
                                                  pointer->bytes, 0, stream);

    tarn__block_generation_set(before);
    return status;
}

/* Return the block first, then the reference to the resource. Releasing the reference can
 * also fail, while another caller has live blocks and no reference. `address` records the
 * progress. */
static tarn_status return_block(tarn_pointer *pointer)
{
    tarn_stream stream = atomic_load(&pointer->stream);
    tarn_status status = TARN_OK;

    if (pointer->address) {
        if (tarn__context_generation_is_current(pointer->device,
                                                pointer->context_generation))
            status = wait_for_last_use(pointer->resource, stream);
        if (status == TARN_OK)
            status = deallocate(pointer, stream);
        if (status != TARN_OK)
            return status;
        pointer->address = 0;
    }
    return tarn_resource_release(pointer->resource);
}

/* Out of memory is final only after all deferred frees were reclaimed without success. A
 * second attempt that succeeds leaves the last error as it was. */
__attribute__((noinline)) static tarn_status obtain_or_reclaim(tarn_resource *resource,
                                                               size_t bytes,
                                                               tarn_stream stream,
                                                               tarn_device_ptr *out)
{
    struct tarn__kept_error before = tarn__error_keep();
    tarn_status status = tarn_resource_allocate(resource, bytes, 0, stream, out);

    if (tarn__deferred_frees_reclaimed(status))
        status = tarn_resource_allocate(resource, bytes, 0, stream, out);
    if (status == TARN_OK)
        tarn__error_restore(&before);
    return status;
}

static tarn_status obtain(tarn_resource *resource, size_t bytes, tarn_stream stream,
                          tarn_device_ptr *out)
{
    if (tarn_pointer_deferred_count() == 0)
        return tarn_resource_allocate(resource, bytes, 0, stream, out);
    return obtain_or_reclaim(resource, bytes, stream, out);
}

/* Put a block of `resource` behind a blank pointer. */
static tarn_status fill(tarn_pointer *pointer, tarn_resource *resource,
                        tarn_stream stream)
{
    tarn_device_ptr block = 0;
    tarn_status status = obtain(resource, pointer->bytes, stream, &block);

    if (status != TARN_OK)
        return status;
    pointer->resource = tarn_resource_retain(resource);
    atomic_store(&pointer->stream, stream);
    tarn__pointer_place(pointer, block,
                        pointer->device == TARN_DEVICE_NONE ? (void *)(uintptr_t)block
                                                            : NULL,
                        return_block);
    return wait_until_ready(resource, stream);
}

tarn_status tarn__allocate_pointer(tarn_resource *resource, size_t bytes,
                                   tarn_stream stream, bool deferrable,
                                   tarn_pointer **out)
{
    tarn_pointer *pointer;

    if (!resource || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pointer: allocate: %zu bytes, but %s is NULL", bytes,
                              resource ? "out" : "resource");
    tarn__deferred_frees_retry();
    tarn_status status = tarn__pointer_blank(
        TARN_POINTER_DEVICE, tarn_resource_device(resource), bytes, &pointer);
    if (status != TARN_OK)
        return status;
    pointer->deferrable = deferrable;
    if (bytes)
        status = fill(pointer, resource, stream);
    if (status != TARN_OK) {
        tarn__pointer_drop(pointer);
        return status;
    }
    *out = pointer;
    return TARN_OK;
}

tarn_status tarn_pointer_allocate(tarn_resource *resource, size_t bytes,
                                  tarn_stream stream, tarn_pointer **out)
{
    return tarn__allocate_pointer(resource, bytes, stream, false, out);
}

/* Detect a wrong stream here, where the call can report it, and not when the block
 * returns.
 */
static tarn_status check_stream(int device, tarn_stream stream)
{
    struct tarn__scope scope;

    if (device == TARN_DEVICE_NONE)
        return TARN_OK;
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("pointer", &scope, stream, device);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_pointer_set_stream(tarn_pointer *pointer, tarn_stream stream)
{
    if (!pointer)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pointer: set_stream: pointer is NULL");
    tarn_pointer *owner = pointer->base ? pointer->base : pointer;
    if (!owner->resource)
        return tarn_error_set(
            TARN_NOT_SUPPORTED,
            "pointer: set_stream: %zu bytes at 0x%llx were not allocated from a resource",
            pointer->bytes, pointer->address);
    tarn_status status = check_stream(owner->device, stream);
    if (status == TARN_OK)
        atomic_store(&owner->stream, stream);
    return status;
}
