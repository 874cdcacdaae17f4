/* slow.h -- blocks on the slow path: every debug mode, allocator and alignment. */
#ifndef TARN_NRT_SLOW_H
#define TARN_NRT_SLOW_H

#include "nrt/runtime.h"

/* An allocation request. */
struct tarn__block_request {
    tarn_runtime *runtime;
    size_t bytes;
    size_t alignment;                /* of the data; any number */
    NRT_ExternalAllocator *external; /* NULL: the instance's own */
    unsigned flags;                  /* TARN__MI, TARN__POISON */
    bool uncounted;                  /* part of a realloc: no block more */
    const void *caller;              /* for TARN_NRT_SITES */
    const char *label;
};

/* Allocate a LIVE block; `*data_out` is where its data begin. NULL with an error message:
 * no memory. */
struct tarn__block *tarn__slow_make(const struct tarn__block_request *request,
                                    void **data_out);

/* The same for a MemInfo too large for a small block, where no mode is on and `alignment`
 * is 0 or a power of two. NULL without a message: use the slow path. */
struct tarn__block *tarn__slow_make_direct(tarn_runtime *runtime, size_t bytes,
                                           size_t alignment, void **data_out);

/* Free a LIVE block whose destructor has run. `uncounted`: as in the request. */
void tarn__slow_end(struct tarn__block *block, bool uncounted);

/* The same; `mi` tells whether a MemInfo is counted as freed, whatever the block was made
 * as. */
void tarn__slow_end_as(struct tarn__block *block, bool mi);

/* Resize a raw LIVE block. NULL with an error message: no memory, nothing changed. */
struct tarn__block *tarn__slow_resize(struct tarn__block *block, size_t bytes,
                                      const void *caller);

#endif
