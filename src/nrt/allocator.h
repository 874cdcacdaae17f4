/* allocator.h -- memory from an allocator of either kind. */
#ifndef TARN_NRT_ALLOCATOR_H
#define TARN_NRT_ALLOCATOR_H

#include "nrt/runtime.h"

static inline void *tarn__allocator_malloc(const struct tarn__allocator *allocator,
                                           size_t bytes)
{
    if (__builtin_expect(!allocator->with.malloc, 1))
        return allocator->malloc(bytes);
    return allocator->with.malloc(bytes, allocator->with.opaque_data);
}

static inline void *tarn__allocator_realloc(const struct tarn__allocator *allocator,
                                            void *old, size_t bytes)
{
    if (allocator->with.malloc)
        return allocator->with.realloc(old, bytes, allocator->with.opaque_data);
    return allocator->realloc(old, bytes);
}

static inline void tarn__allocator_free(const struct tarn__allocator *allocator,
                                        void *memory)
{
    if (__builtin_expect(!allocator->with.malloc, 1))
        allocator->free(memory);
    else
        allocator->with.free(memory, allocator->with.opaque_data);
}

#endif
