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

/* The id of the legacy stream (handles 0 and 1). It is a constant, because asking for it
 * ends the capture of a blocking stream (reference/driver.md, section 2); no stream of the
 * driver's has it. */
enum { TARN__LEGACY_ID = 0 };

struct tarn__open_stream;

/* What hits read lies in one line of the cache, which others' locking does not touch. The
 * fields up to `life` change only while it is closed, but for `opening`; the table's are
 * under the table's lock. */
struct tarn__opened {
    _Alignas(64) _Atomic uint32_t opening; /* of the value that is good now; 0: closed */
    int device;
    CUstream_ handle;      /* good while it is open */
    unsigned long long id; /* cuStreamGetId at the opening, or TARN__LEGACY_ID */
    uint64_t life;         /* of the context, at the opening */
    atomic_bool captures;  /* announced, on this value or on another one of the stream */
    bool announced;        /* on this one; the table's */
    uint32_t last_opening; /* openings so far; the table's */
    uint32_t next_free;    /* index + 1 of the next free place, 0: none; the table's */
    uint64_t changes;      /* of its stream that it knows of; the table's */
    _Alignas(64) pthread_mutex_t lock; /* held while somebody else than a caller that was
                                          given the value uses `handle`, while a capture
                                          is announced, and while it is closed */
    struct tarn__open_stream *stream;  /* that it is a value of, or NULL; the table's */
    struct tarn__opened *next, *previous; /* values of the stream; the table's */
};

static inline bool tarn__stream_is_opened(tarn_stream stream)
{
    uintptr_t word = (uintptr_t)stream;

    return (word & 1) != 0 && word > 1 && word != UINTPTR_MAX;
}

/* What `stream` stands for, or NULL: it was closed, or never was one. No lock, no call. */
struct tarn__opened *tarn__opened_find(tarn_stream stream);

/* Is the raw stream `handle` of `device` open? Then it must not be destroyed. */
bool tarn__opened_has(int device, CUstream_ handle);

/* False: the owner of an opened stream of `device` has announced a capture. Else none is
 * announced until tarn__opened_let_captures_go(), which is due soon; no stream is opened or closed
 * meanwhile either. */
bool tarn__opened_hold_captures(int device);
void tarn__opened_let_captures_go(void);

/* Told of each close, with the stream's lock held and its handle still good. Not told where
 * no driver call may be started any more, nor of a stream that went with its context. */
typedef void (*tarn__opened_watch)(void *data, tarn_stream stream,
                                   struct tarn__opened *opened);
tarn_status tarn__opened_add_watch(tarn__opened_watch watch, void *data);
/* When this returns, no call of that watch is under way. Not from within a watch. */
void tarn__opened_remove_watch(tarn__opened_watch watch, void *data);

#endif
