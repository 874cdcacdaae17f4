/* allocator.h -- memory from an allocator of either kind. */
#ifndef TARN_NRT_ALLOCATOR_H
#define TARN_NRT_ALLOCATOR_H

#include "nrt/runtime.h"

void *tarn__allocator_malloc(const struct tarn__allocator *allocator, size_t bytes);
void *tarn__allocator_realloc(const struct tarn__allocator *allocator, void *old,
                              size_t bytes);
void tarn__allocator_free(const struct tarn__allocator *allocator, void *memory);

#endif
