/* opened.h -- streams that were opened: what a tarn_stream value of theirs stands for.
 *
 * The value is an odd word that is no CUstream: bit 0 set, an index into a table that never
 * moves above it, and the number of the opening (never 0) in the upper half, so that the
 * value of a closed stream is told from that of the one that has its place now.
 *
 * Closing tells those who keep something about the stream (pools: a last fence, and what
 * they know of it), while its handle can still be used.
 */
#ifndef TARN_DRIVER_OPENED_H
#define TARN_DRIVER_OPENED_H

#include "driver/driver.h"
#include <pthread.h>
#include <stdatomic.h>

struct tarn__opened {
    _Atomic uint32_t opening;    /* of the value that is good now; 0: closed */
    int device;
    CUstream_ handle;            /* good while it is open */
    unsigned long long id;       /* cuStreamGetId at the opening */
    atomic_bool captures;        /* announced by its owner */
    pthread_mutex_t lock;        /* held while somebody else than a caller that was given the
                                    value uses `handle`, and while it is closed */
};

static inline bool tarn__stream_is_opened(tarn_stream stream)
{
    uintptr_t word = (uintptr_t)stream;

    return (word & 1) != 0 && word > 1 && word != UINTPTR_MAX;
}

/* What `stream` stands for, or NULL: it was closed, or never was one. No lock, no call. */
struct tarn__opened *tarn__opened_find(tarn_stream stream);

/* Told of each close, with the stream's lock held and its handle still good. */
typedef void (*tarn__opened_watch)(void *data, tarn_stream stream,
                                   struct tarn__opened *opened);
tarn_status tarn__opened_add_watch(tarn__opened_watch watch, void *data);
/* When this returns, no call of that watch is under way. */
void tarn__opened_remove_watch(tarn__opened_watch watch, void *data);

#endif
