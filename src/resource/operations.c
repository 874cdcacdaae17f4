/* operations.c -- the public operations of resources: allocate, free and queries.
 *
 * A resource is a table of operations and a `self`. The functions here check what any
 * resource would have to check: 0 bytes, alignment, sizes that overflow, NULL. They count
 * blocks for resources that do not, and check the results of a foreign resource. So an
 * operation can be short. The operations do only what needs a resource's own knowledge:
 * whether a block is its own, and how many bytes it has.
 */
#include "resource/operations.h"
#include "resource/internal.h"
#include "resource/intercept.h"
#include "resource/observer.h"
#include "base/blocking_hook.h"
#include "base/error.h"
#include "base/size.h"

/* Return true if the calls on this object count its blocks. They do not where the
 * resource counts by itself. They also do not where it has its own equality: a block may
 * then be freed on another object that is equal. */
static bool counts_blocks(const tarn_resource *resource)
{
    return !resource->ops.live_blocks && !resource->ops.is_equal;
}

/* Set `*alignment` to the value that operations receive. */
static tarn_status check_alignment(const tarn_resource *resource, size_t *alignment)
{
    if (*alignment != 0 && !tarn__size_is_power_of_two(*alignment))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: the alignment %zu is not a power of two",
                              resource->ops.name, *alignment);
    if (*alignment < TARN_ALIGNMENT)
        *alignment = TARN_ALIGNMENT;
    return TARN_OK;
}

/* Return the failure of an operation to the caller. A user's own operation may have left
 * no message, and that of an older failure would be wrong. It may also have returned a
 * value that is no status. `before` is the count of failures before the call. */
static tarn_status relay_failure(const tarn_resource *resource, const char *operation,
                                 unsigned before, tarn_status status)
{
    if ((unsigned)status >= TARN_STATUS_COUNT)
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "%s: %s returned %d, which is not a status",
                              resource->ops.name, operation, (int)status);
    if (!tarn__error_has_message(before, status))
        tarn_error_set(status, "%s: %s failed, device %d", resource->ops.name, operation,
                       resource->device);
    return status;
}

static inline tarn_status relay(const tarn_resource *resource, const char *operation,
                                unsigned before, tarn_status status)
{
    return status == TARN_OK ? TARN_OK
                             : relay_failure(resource, operation, before, status);
}

/* Return a block that breaks the contract of allocate() to the resource, and fail. */
static tarn_status reject_block(tarn_resource *resource, tarn_device_ptr block,
                                size_t bytes, size_t alignment, tarn_stream stream)
{
    if (block != 0)
        resource->ops.deallocate(resource->self, block, bytes, alignment, stream);
    return tarn_error_set(TARN_PLUGIN_FAILURE,
                          "%s: allocate returned 0x%llx for %zu bytes aligned to %zu",
                          resource->ops.name, block, bytes, alignment);
}

/* Begin a call that does not go straight to a pool. Return the word of the interceptor, or 0
 * inside another call. */
static unsigned begin_call(const tarn_resource *resource)
{
    unsigned word = tarn__intercept_load();

    if (word != 0 && !tarn__observer_call_is_outermost())
        word = 0;
    if (word != 0 || !resource->is_pool)
        tarn__blocking_hook_call();
    return word;
}

/* Inline, since each cache hit runs it. */
static inline tarn_status allocate(tarn_resource *resource, size_t bytes,
                                   size_t alignment, tarn_stream stream,
                                   tarn_device_ptr *out)
{
    tarn_device_ptr block = 0;
    unsigned before = tarn__error_count;
    size_t rounded;

    /* From here on any resource may round up to the alignment without a check. */
    if (!tarn__size_round_up(bytes, alignment, &rounded))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%s: %zu bytes aligned to %zu exceed the address space",
                              resource->ops.name, bytes, alignment);
    tarn_status status =
        resource->ops.allocate(resource->self, bytes, alignment, stream, &block);
    if (status != TARN_OK)
        return relay(resource, "allocate", before, status);
    if (block == 0 || (block & (alignment - 1)) != 0 || block + bytes < block)
        return reject_block(resource, block, bytes, alignment, stream);
    if (counts_blocks(resource))
        atomic_fetch_add_explicit(&resource->counted_blocks, 1, memory_order_relaxed);
    *out = block;
    return TARN_OK;
}

tarn_status tarn__operations_allocate(tarn_resource *resource, size_t bytes,
                                      size_t alignment, tarn_stream stream,
                                      tarn_device_ptr *out)
{
    bool was_hidden = tarn__observer_hide_calls();
    tarn_status status = allocate(resource, bytes, alignment, stream, out);

    tarn__observer_show_calls(was_hidden);
    return status;
}

/* Allocate for an outermost call, while an interceptor is set. */
static tarn_status allocate_intercepted(tarn_resource *resource, size_t bytes,
                                        size_t alignment, tarn_stream stream,
                                        tarn_device_ptr *out)
{
    if (tarn__intercept_skips_allocation(tarn__intercept_load())) {
        int64_t countdown = tarn__intercept_countdown; /* a nested call may count, too */
        tarn_status status =
            tarn__operations_allocate(resource, bytes, alignment, stream, out);
        tarn__intercept_countdown = countdown;
        return status;
    }
    return tarn__intercept_get()->allocate(resource, bytes, alignment, stream, out);
}

/* Not inline: the event would enlarge the frame of each cache hit. */
__attribute__((noinline)) static tarn_status allocate_observed(tarn_resource *resource,
                                                               size_t bytes,
                                                               size_t alignment,
                                                               tarn_stream stream,
                                                               tarn_device_ptr *out)
{
    tarn_observer_event event = {
        .resource = resource, .bytes = bytes, .alignment = alignment, .stream = stream};
    bool is_intercepted = tarn__intercept_load() & TARN__INTERCEPT_ON;

    tarn__observer_begin_allocation(&event);
    tarn_status status = (is_intercepted ? allocate_intercepted : allocate)(
        resource, bytes, alignment, stream, &event.block);
    tarn__observer_end_allocation(&event, status);
    if (status == TARN_OK)
        *out = event.block;
    return status;
}

/* Return true if the arguments need no correction, and the resource is a pool. The call
 * goes straight to the resource's operation then, with TARN_ALIGNMENT, unless an observer
 * or an interceptor is set. */
static inline bool is_plain(const tarn_resource *resource, size_t bytes, size_t alignment)
{
    return resource && resource->is_pool && bytes - 1 < PTRDIFF_MAX &&
           alignment <= TARN_ALIGNMENT && (alignment & (alignment - 1)) == 0;
}

static tarn_status serve_empty(tarn_resource *resource, bool is_free, tarn_stream stream)
{
    if (resource->ops.empty_request)
        resource->ops.empty_request(resource->self, is_free, stream);
    return TARN_OK;
}

__attribute__((noinline)) static tarn_status allocate_checked(tarn_resource *resource,
                                                              size_t bytes,
                                                              size_t alignment,
                                                              tarn_stream stream,
                                                              tarn_device_ptr *out)
{
    /* The compiler makes the call of this function a jump. */
    tarn__intercept_caller = __builtin_return_address(0);
    if (!resource || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: allocate: resource or out is NULL");
    tarn_status status = check_alignment(resource, &alignment);
    if (status != TARN_OK)
        return status;
    if (bytes == 0) {
        *out = 0;
        return serve_empty(resource, false, stream);
    }
    unsigned word = begin_call(resource);
    if (word & TARN__INTERCEPT_OBSERVED)
        return allocate_observed(resource, bytes, alignment, stream, out);
    if (word & TARN__INTERCEPT_ON)
        return allocate_intercepted(resource, bytes, alignment, stream, out);
    return allocate(resource, bytes, alignment, stream, out);
}

tarn_status tarn_resource_allocate(tarn_resource *resource, size_t bytes,
                                   size_t alignment, tarn_stream stream,
                                   tarn_device_ptr *out)
{
    if (is_plain(resource, bytes, alignment) && out &&
        tarn__intercept_is_direct_allocation())
        return resource->ops.allocate(resource->self, bytes, TARN_ALIGNMENT, stream, out);
    return allocate_checked(resource, bytes, alignment, stream, out);
}

static inline tarn_status deallocate(tarn_resource *resource, tarn_device_ptr block,
                                     size_t bytes, size_t alignment, tarn_stream stream)
{
    /* Without live blocks nothing can be freed, whatever the resource can tell. */
    if (counts_blocks(resource) && atomic_load(&resource->counted_blocks) == 0)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: 0x%llx is not a live allocation of this resource, which has none",
            resource->ops.name, block);
    unsigned before = tarn__error_count;
    tarn_status status =
        resource->ops.deallocate(resource->self, block, bytes, alignment, stream);
    if (status == TARN_OK && counts_blocks(resource))
        atomic_fetch_sub_explicit(&resource->counted_blocks, 1, memory_order_relaxed);
    return relay(resource, "deallocate", before, status);
}

tarn_status tarn__operations_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                        size_t bytes, size_t alignment,
                                        tarn_stream stream)
{
    bool was_hidden = tarn__observer_hide_calls();
    tarn_status status = deallocate(resource, block, bytes, alignment, stream);

    tarn__observer_show_calls(was_hidden);
    return status;
}

/* Free for an outermost call, while an interceptor is set. */
static tarn_status deallocate_intercepted(tarn_resource *resource, tarn_device_ptr block,
                                          size_t bytes, size_t alignment,
                                          tarn_stream stream)
{
    if (tarn__intercept_skips_free(tarn__intercept_load(), block))
        return tarn__operations_deallocate(resource, block, bytes, alignment, stream);
    return tarn__intercept_get()->deallocate(resource, block, bytes, alignment, stream);
}

__attribute__((noinline)) static tarn_status deallocate_observed(tarn_resource *resource,
                                                                 tarn_device_ptr block,
                                                                 size_t bytes,
                                                                 size_t alignment,
                                                                 tarn_stream stream)
{
    tarn_observer_event event = {.action = TARN_ACTION_FREE,
                                 .resource = resource,
                                 .block = block,
                                 .bytes = bytes,
                                 .alignment = alignment,
                                 .stream = stream};

    bool is_intercepted = tarn__intercept_load() & TARN__INTERCEPT_ON;

    tarn__observer_begin_free(&event);
    tarn_status status = (is_intercepted ? deallocate_intercepted : deallocate)(
        resource, block, bytes, alignment, stream);
    tarn__observer_end_free(&event, status);
    return status;
}

__attribute__((noinline)) static tarn_status deallocate_checked(tarn_resource *resource,
                                                                tarn_device_ptr block,
                                                                size_t bytes,
                                                                size_t alignment,
                                                                tarn_stream stream)
{
    tarn__intercept_caller = __builtin_return_address(0); /* as allocate_checked() */
    if (!resource)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: deallocate: resource is NULL");
    tarn_status status = check_alignment(resource, &alignment);
    if (status != TARN_OK)
        return status;
    if (block == 0 && bytes == 0)
        return serve_empty(resource, true, stream);
    if (block == 0 || bytes == 0)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: 0x%llx with %zu bytes is not a live allocation of this resource",
            resource->ops.name, block, bytes);
    unsigned word = begin_call(resource);
    if (word & TARN__INTERCEPT_OBSERVED)
        return deallocate_observed(resource, block, bytes, alignment, stream);
    if (word & TARN__INTERCEPT_ON)
        return deallocate_intercepted(resource, block, bytes, alignment, stream);
    return deallocate(resource, block, bytes, alignment, stream);
}

tarn_status tarn_resource_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                     size_t bytes, size_t alignment, tarn_stream stream)
{
    if (is_plain(resource, bytes, alignment) && block &&
        tarn__intercept_is_direct_free(block))
        return resource->ops.deallocate(resource->self, block, bytes, TARN_ALIGNMENT,
                                        stream);
    return deallocate_checked(resource, block, bytes, alignment, stream);
}

tarn_status tarn_resource_memory_info(tarn_resource *resource, tarn_stream stream,
                                      size_t *free_out, size_t *total_out)
{
    size_t free_bytes = 0, total_bytes = 0;
    unsigned before = tarn__error_count;

    if (!resource || !free_out || !total_out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "resource: memory_info: resource, free_out or total_out is NULL");
    if (!resource->ops.memory_info)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "%s: the resource does not support memory_info",
                              resource->ops.name);
    tarn_status status =
        resource->ops.memory_info(resource->self, stream, &free_bytes, &total_bytes);
    if (status != TARN_OK)
        return relay(resource, "memory_info", before, status);
    if (free_bytes > total_bytes)
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "%s: memory_info returned %zu bytes free of %zu in total",
                              resource->ops.name, free_bytes, total_bytes);
    *free_out = free_bytes;
    *total_out = total_bytes;
    return TARN_OK;
}

tarn_status tarn_resource_trim(tarn_resource *resource, size_t keep_bytes,
                               size_t *released_out)
{
    unsigned before = tarn__error_count;
    size_t released = 0;

    if (!resource)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "resource: trim: resource is NULL");
    tarn__intercept_flush(resource);
    if (resource->ops.trim) {
        tarn_status status = resource->ops.trim(resource->self, keep_bytes, &released);
        if (status != TARN_OK)
            return relay(resource, "trim", before, status);
    }
    if (released_out)
        *released_out = released;
    return TARN_OK;
}

tarn_status tarn_resource_requested_bytes(tarn_resource *resource, tarn_device_ptr block,
                                          size_t *out)
{
    unsigned before = tarn__error_count;
    size_t bytes = 0;

    if (!resource || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "resource: requested_bytes: resource or out is NULL");
    if ((tarn__intercept_load() & TARN__INTERCEPT_ON) &&
        tarn__intercept_get()->requested_bytes(block, out))
        return TARN_OK;
    if (!resource->ops.requested_bytes)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "%s: the resource does not support requested_bytes",
                              resource->ops.name);
    tarn_status status = resource->ops.requested_bytes(resource->self, block, &bytes);
    if (status == TARN_OK)
        *out = bytes;
    return relay(resource, "requested_bytes", before, status);
}
