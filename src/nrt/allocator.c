/* allocator.c -- memory from an allocator of either kind. */
#include "nrt/allocator.h"

void *tarn__allocator_malloc(const struct tarn__allocator *allocator, size_t bytes)
{
    if (allocator->with.malloc)
        return allocator->with.malloc(bytes, allocator->with.opaque_data);
    return allocator->malloc(bytes);
}

void *tarn__allocator_realloc(const struct tarn__allocator *allocator, void *old,
                              size_t bytes)
{
    if (allocator->with.malloc)
        return allocator->with.realloc(old, bytes, allocator->with.opaque_data);
    return allocator->realloc(old, bytes);
}

void tarn__allocator_free(const struct tarn__allocator *allocator, void *memory)
{
    if (allocator->with.malloc)
        allocator->with.free(memory, allocator->with.opaque_data);
    else
        allocator->free(memory);
}
