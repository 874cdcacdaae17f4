/* source.c -- memory from an allocator of either kind. */
#include "nrt/runtime.h"

void *tarn__source_malloc(const struct tarn__source *source, size_t bytes)
{
    if (source->with.malloc)
        return source->with.malloc(bytes, source->with.opaque_data);
    return source->malloc(bytes);
}

void *tarn__source_realloc(const struct tarn__source *source, void *old, size_t bytes)
{
    if (source->with.malloc)
        return source->with.realloc(old, bytes, source->with.opaque_data);
    return source->realloc(old, bytes);
}

void tarn__source_free(const struct tarn__source *source, void *memory)
{
    if (source->with.malloc)
        source->with.free(memory, source->with.opaque_data);
    else
        source->free(memory);
}
