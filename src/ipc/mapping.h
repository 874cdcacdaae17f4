/* mapping.h -- allocations of other processes that are mapped here, once each. */
#ifndef TARN_IPC_MAPPING_H
#define TARN_IPC_MAPPING_H

#include "ipc/client.h"
#include "ipc/imported.h"

/* The identity of an allocation. */
struct tarn__origin {
    enum tarn__backing backing; /* with a CUDA or fabric handle the bytes are that, */
    unsigned char bytes[64];    /* else a plain handle of a server */
};

/* The data to map an allocation without a CUDA handle. */
struct tarn__source {
    int memory;                /* the descriptor of a segment or a pool; the caller's */
    size_t bytes;              /* of a segment, as its owner reports; or the handle */
    uint64_t pool;             /* the pool's number */
    unsigned char pointer[64]; /* a block, as its pool exports it */
};

struct tarn__mapping {
    struct tarn__mapping *next; /* in its bucket */
    struct tarn__origin origin;
    int device;        /* the device that uses it */
    size_t references; /* 0: it is in no bucket, and about to be closed */
    uint64_t
        context_generation; /* of that device's context; only what has a CUDA handle ends with it */
    tarn_device_ptr base;
    size_t bytes;
    struct tarn__imported *imported; /* of a block of a driver's pool */
};

/* Retain an existing mapping, or return NULL. */
struct tarn__mapping *tarn__mapping_find(const struct tarn__origin *origin, int device);

/* Map the allocation, or find a mapping that another thread made. */
tarn_status tarn__mapping_make(const struct tarn__origin *origin, int device,
                               const struct tarn__source *source,
                               struct tarn__mapping **out);

/* Drop one reference; the last one waits for the device and unmaps. If that fails, the
 * mapping stays but is no longer found, and the function has to be called again. */
tarn_status tarn__mapping_release(struct tarn__mapping *mapping);

size_t tarn__mapping_count(void);

#endif
