/* mapping.h -- allocations of other processes that are mapped here, once each. */
#ifndef TARN_IPC_MAPPING_H
#define TARN_IPC_MAPPING_H

#include "ipc/client.h"

/* What tells allocations apart. */
struct tarn__origin {
    bool is_segment;         /* else the bytes are a CUDA handle */
    unsigned char bytes[64]; /* of a segment: a ticket */
};

struct tarn__mapping {
    struct tarn__mapping *next; /* in its bucket */
    struct tarn__origin origin;
    int device;        /* that uses it */
    size_t references; /* 0: it is in no bucket, and about to be closed */
    uint64_t life;     /* of that device's context; a segment outlives it */
    tarn_device_ptr base;
    size_t bytes;
};

/* Another reference to what is mapped already, or NULL. */
struct tarn__mapping *tarn__mapping_find(const struct tarn__origin *origin, int device);

/* Map it, or find that somebody has. `memory`: the descriptor of a segment, of `bytes`
 * bytes as its owner says; it stays the caller's. */
tarn_status tarn__mapping_make(const struct tarn__origin *origin, int device, int memory,
                               size_t bytes, struct tarn__mapping **out);

/* One reference less; the last one waits for the device and unmaps. Where that fails
 * nothing has changed but that nobody finds it any more, and it is to be called again. */
tarn_status tarn__mapping_release(struct tarn__mapping *mapping);

size_t tarn__mapping_count(void);

#endif
