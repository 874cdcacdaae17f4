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
    bool uncounted;                  /* for a realloc: counts the bytes, not the block */
    const void *caller;              /* return address, for TARN_NRT_SITES */
    const char *label;               /* text of the site; NULL: the thread's label */
};

/* Allocate a LIVE block; `*data_out` is where its data begin. NULL with an error message:
 * no memory. */
struct tarn__block *tarn__slow_make(const struct tarn__block_request *request,
                                    void **data_out);

/* End a LIVE block, whose destructor has run: free it, or put it into quarantine.
 * `uncounted`: as in the request. */
void tarn__slow_end(struct tarn__block *block, bool uncounted);

/* End a LIVE block, and count a MemInfo as freed if `mi`, else raw memory. NRT_dealloc
 * needs this: it frees the memory of a MemInfo as raw memory. */
void tarn__slow_end_as(struct tarn__block *block, bool mi);

/* Resize a raw LIVE block. NULL with an error message: no memory, nothing changed. */
struct tarn__block *tarn__slow_resize(struct tarn__block *block, size_t bytes,
                                      const void *caller);

#endif
