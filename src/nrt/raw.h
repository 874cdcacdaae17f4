/* raw.h -- memory without a MemInfo. */
#ifndef TARN_NRT_RAW_H
#define TARN_NRT_RAW_H

#include "nrt/runtime.h"

/* Allocate raw memory; NULL with an error message. */
void *tarn__raw_make(tarn_runtime *runtime, size_t bytes, NRT_ExternalAllocator *external,
                     const void *caller);
void *tarn__raw_resize(void *start, size_t bytes, const void *caller);
void tarn__raw_free(void *start);

#endif
