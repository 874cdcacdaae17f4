/* registration.h -- registered streams, and what their tarn_stream values stand for.
 *
 * The value is an odd word that is no CUstream. Bit 0 is set. Above it is an index into a
 * table that never moves. The upper half is the number of the registration (never 0). The
 * value of an unregistered stream therefore differs from that of the next stream in its
 * place.
 *
 * An unregistration calls the callbacks while the stream's handle is still valid. Pools
 * use that for a last event fence, and drop their state of the stream.
 */
#ifndef TARN_DRIVER_REGISTRATION_H
#define TARN_DRIVER_REGISTRATION_H

#include "driver/driver.h"
#include <pthread.h>
#include <stdatomic.h>

/* The id of the legacy stream (handles 0 and 1). It is a constant, because querying it
 * invalidates the capture of a blocking stream. No stream of the driver has it. */
enum { TARN__LEGACY_ID = 0 };

struct tarn__registered_stream;

/* A place of the table, with a registered stream or none. The fields that cache hits read
 * lie in one cache line, which the locking of other threads does not touch. The fields up
 * to `context_generation` change only while no stream is registered in the place. The
 * lock of places guards the fields marked as the table's. */
struct tarn__registration {
    /* number in the valid value; 0: unregistered */
    _Alignas(64) _Atomic uint32_t registration_number;
    int device;
    CUstream_ handle;      /* valid while it is registered */
    unsigned long long id; /* cuStreamGetId at the registration, or TARN__LEGACY_ID */
    uint64_t context_generation; /* generation of the context, at the registration */
    atomic_bool captures; /* announced, on this value or on another one of the stream */
    bool announced;       /* on this value; the table's */
    uint32_t registration_count; /* registrations so far; the table's */
    uint32_t next_free; /* index + 1 of the next free place, 0: none; the table's */
    /* changes of its stream that this value has seen; the table's */
    uint64_t changes;
    /* Held during the announcement of a capture, during the unregistration, and while
     * `handle` is used outside of a call that was given the value. */
    _Alignas(64) pthread_mutex_t lock;
    /* the stream of this value, or NULL; the table's */
    struct tarn__registered_stream *stream;
    struct tarn__registration *next,
        *previous; /* other values of the stream; the table's */
};

/* Return true if `stream` has the form of a registered stream's value. It may be
 * unregistered by now. */
static inline bool tarn__registration_is_value(tarn_stream stream)
{
    uintptr_t word = (uintptr_t)stream;

    return (word & 1) != 0 && word > 1 && word != UINTPTR_MAX;
}

/* Register a stream. `made` has its device, handle, id and context generation; `*out`
 * gets the value. */
tarn_status tarn__registration_add(const struct tarn__registration *made,
                                   tarn_stream *out);

/* Return the registered stream of `stream`, or NULL: it was unregistered, or never
 * registered. No lock, no driver call. */
struct tarn__registration *tarn__registration_find(tarn_stream stream);

/* Return true if the raw stream `handle` of `device` is registered. Then it must not be
 * destroyed. */
bool tarn__registration_exists(int device, CUstream_ handle);

/* Hold off announcements of captures. Returns false if the owner of a registered stream
 * of `device` has announced a capture. Else none is announced until
 * tarn__registration_unblock_announcements(), which must follow soon. Meanwhile no stream
 * is registered or unregistered either. */
bool tarn__registration_block_announcements(int device);
void tarn__registration_unblock_announcements(void);

/* Called for each unregistration, with the stream's lock held and its handle still valid.
 * Not called where no driver call may be started any more, nor for a stream whose context
 * was reset. */
typedef void (*tarn__unregister_callback)(void *data, tarn_stream stream,
                                          struct tarn__registration *registration);
tarn_status tarn__registration_callback_add(tarn__unregister_callback callback,
                                            void *data);
/* Remove a callback. When this returns, no call of it is under way. */
void tarn__registration_callback_remove(tarn__unregister_callback callback, void *data);

#endif
