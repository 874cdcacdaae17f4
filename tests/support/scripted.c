/* scripted.c -- an upstream for tests of resources on top of one. */
#include "scripted.h"
#include "test.h"
#include <stdlib.h>

static tarn_status scripted_allocate(void *self, size_t bytes, size_t alignment,
                                     tarn_stream stream, tarn_device_ptr *out)
{
    struct scripted *script = self;

    script->allocations++;
    script->bytes = bytes;
    script->alignment = alignment;
    script->stream = stream;
    if (script->allocate_fails != TARN_OK)
        return tarn_error_set(script->allocate_fails, "scripted: no %zu bytes", bytes);
    *out = script->address;
    if (*out == 0)
        *out = (uintptr_t)aligned_alloc(alignment,
                                        (bytes + alignment - 1) & ~(alignment - 1));
    return TARN_OK;
}

static tarn_status scripted_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                       size_t alignment, tarn_stream stream)
{
    struct scripted *script = self;

    script->frees++;
    script->block = block;
    script->bytes = bytes;
    script->alignment = alignment;
    script->stream = stream;
    if (script->before_free)
        script->before_free();
    if (script->free_fails != TARN_OK)
        return tarn_error_set(script->free_fails, "scripted: keeps 0x%llx", block);
    if (script->address == 0)
        free((void *)(uintptr_t)block);
    return TARN_OK;
}

static void scripted_destroy(void *self)
{
    ((struct scripted *)self)->destroyed++;
}

static tarn_status scripted_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                        size_t *total_out)
{
    ((struct scripted *)self)->stream = stream;
    *free_out = 1000;
    *total_out = 4000;
    return TARN_OK;
}

static bool scripted_supports_streams(const void *self)
{
    return ((const struct scripted *)self)->supports_streams;
}

static bool scripted_deallocate_synchronizes(const void *self)
{
    return ((const struct scripted *)self)->deallocate_synchronizes;
}

static bool scripted_supports_no_stream(const void *self)
{
    return ((const struct scripted *)self)->supports_no_stream;
}

static tarn_status scripted_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    ((struct scripted *)self)->trims++;
    *released_out = keep_bytes + 1;
    return TARN_OK;
}

static tarn_status scripted_block_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    (void)self;
    *out = (size_t)block / 2;
    return TARN_OK;
}

static const tarn_resource_ops scripted_ops = {
    .size = sizeof scripted_ops,
    .name = "scripted",
    .allocate = scripted_allocate,
    .deallocate = scripted_deallocate,
    .destroy = scripted_destroy,
    .memory_info = scripted_memory_info,
    .supports_streams = scripted_supports_streams,
    .deallocate_synchronizes = scripted_deallocate_synchronizes,
    .trim = scripted_trim,
    .requested_bytes = scripted_block_bytes,
    .supports_no_stream = scripted_supports_no_stream,
};

void scripted_begin(struct scripted *script, int device)
{
    *script = (struct scripted){.resource = NULL};
    CHECK_OK(tarn_resource_create(&scripted_ops, script, device, &script->resource));
}

void scripted_end(struct scripted *script)
{
    CHECK_OK(tarn_resource_release(script->resource));
    CHECK_EQUAL(1, script->destroyed);
}
