/* segment_memory.h -- the memory of a segment: one VMM handle, mapped at one place. */
#ifndef TARN_IPC_SEGMENT_MEMORY_H
#define TARN_IPC_SEGMENT_MEMORY_H

#include "driver/driver.h"

struct tarn__segment_memory {
    struct tarn__segment_memory *next; /* in a cache or in a list of its user */
    CUdeviceptr_ base;
    CUmemHandle_ handle; /* kept for exports; 0: released, only the mapping is left */
    size_t bytes;        /* a multiple of the granularity */
    int device;
    CUmemHandleType_
        handle_types; /* as bits: the kinds of handles it can be exported as */
};

/* Check that `device` can have such memory, and that the driver has the calls. */
tarn_status tarn__segment_memory_check(int device);

/* Round `bytes` up to the granularity that the driver recommends for `device`. */
CUresult_ tarn__segment_memory_round(const struct tarn__calls *calls, int device,
                                     size_t bytes, size_t *out);

/* In a scope: create `bytes` of memory, a multiple of the granularity, and map it for
 * `device` and for all devices that can reach it. On failure nothing is left. */
CUresult_ tarn__segment_memory_create(const struct tarn__calls *calls, int device,
                                      size_t bytes, struct tarn__segment_memory **out);

/* In a scope: release the handle, then the mapping. Each is released or stays, and a
 * second call continues where the first one failed. */
CUresult_ tarn__segment_memory_unmap(const struct tarn__calls *calls,
                                     struct tarn__segment_memory *memory);

/* In a scope: return the addresses of unmapped memory, and free the struct. */
void tarn__segment_memory_drop(const struct tarn__calls *calls,
                               struct tarn__segment_memory *memory);

/* Do both. On failure the struct stays. */
CUresult_ tarn__segment_memory_release(const struct tarn__calls *calls,
                                       struct tarn__segment_memory *memory);

#endif
