/* pointer.h -- what a pointer is made of, for those that make memory for one.
 *
 * A pointer is made before its memory is (tarn__pointer_blank), so that no failure comes
 * between having memory and having something that will give it back
 * (tarn__pointer_place).
 */
#ifndef TARN_POINTER_INTERNAL_H
#define TARN_POINTER_INTERNAL_H

#include <tarn/pointer.h>
#include <stdatomic.h>

/* Gives memory back to where it came from. After a failure nothing has changed, and it is
 * called again later. No lock is held. */
typedef tarn_status tarn__give_back(tarn_pointer *pointer);

typedef void (*tarn__release)(tarn_pointer *pointer);

struct tarn_pointer {
    tarn_meminfo *meminfo; /* the count; its destructor ends this pointer */
    tarn_pointer *base;    /* of a view: the first owner, retained; else NULL */
    tarn_pointer_kind kind;
    int device;              /* TARN_DEVICE_NONE for plain host memory */
    uint64_t life;           /* of the device's context when the memory came; 0: none */
    tarn_device_ptr address; /* as the device sees it; 0 if it does not */
    void *host;              /* as the host sees it; NULL if it does not */
    size_t bytes;
    tarn_finalizer finalizer; /* the user's, which cannot fail; may be NULL */
    void *finalizer_data;
    void *owner; /* let go once all else is done; both may be NULL */
    void (*owner_release)(void *);
    tarn__give_back *give_back; /* NULL: no memory of Tarn's own behind it */
    bool deferrable;            /* a give_back that waits may be put off */
    bool lazy;                  /* put off until enough are, tarn__pointer_set_limits() */
    bool failed;                /* a give_back failed, and the memory is not back yet */
    tarn_resource *resource;    /* retained until the block is back; NULL: from none */
    _Atomic(tarn_stream) stream; /* on which the block goes back to the resource */
    tarn_pointer *next;          /* in a list of unreturned ones, which owns it then */
    /* Does each release of an owner in the place of tarn_pointer_release(), for somebody who
     * has to know when all references but his own are gone; NULL: nobody. */
    _Atomic(tarn__release) release;
    void *release_data; /* of whoever set it */
};

/* A pointer with one reference and no memory behind it yet; releasing it frees it. */
tarn_status tarn__pointer_blank(tarn_pointer_kind kind, int device, size_t bytes,
                                tarn_pointer **out);

/* Put memory behind a blank pointer: from now on its last release gives it back. */
void tarn__pointer_place(tarn_pointer *pointer, tarn_device_ptr address, void *host,
                         tarn__give_back *give_back);

/* tarn_pointer_allocate(); `deferrable`: a manager's, see tarn__pointer_defer_begin(). */
tarn_status tarn__pointer_allocate(tarn_resource *resource, size_t bytes,
                                   tarn_stream stream, bool deferrable,
                                   tarn_pointer **out);

/* One reference less, whoever has taken the releases over. */
void tarn__pointer_release_plain(tarn_pointer *pointer);

/* The last reference of an owner is gone: give its memory back, now or later, and then
 * free it. */
void tarn__pointer_return(tarn_pointer *pointer);

/* Give back what failed before, the oldest first, until one fails again. Leaves the last
 * error alone. */
void tarn__pointer_retry(void);

/* Is `status` out of memory, and was there something unreturned that was tried again, so
 * that another allocation makes sense? Leaves the last error alone. */
bool tarn__pointer_reclaimed(tarn_status status);

/* Between these, on `device`, deferrable pointers whose return would wait for the device
 * are kept. They nest; the last end gives them back, and returns the first failure of one
 * that had not failed before. The cleanup has ended in any case. */
void tarn__pointer_defer_begin(int device);
tarn_status tarn__pointer_defer_end(int device);

/* Lazy pointers are kept after their last release, in a list for each device, and are
 * given back together: when the list has more than `count` entries, or more bytes than
 * `ratio` of what tarn__pointer_set_capacity() said. Outside deferred cleanup; within it
 * they wait for the last end. Without a capacity the bytes do not matter. */
void tarn__pointer_set_limits(size_t count, double ratio);
void tarn__pointer_limits(size_t *count_out, double *ratio_out);
void tarn__pointer_set_capacity(int device, size_t bytes);

/* What is put off on `device` at the moment. Pinned memory counts no bytes: it is not the
 * device's. */
void tarn__pointer_put_off(int device, size_t *count_out, size_t *bytes_out);

/* Give back all that is unreturned and of `device`, deferred or not. */
tarn_status tarn__pointer_flush(int device);

/* TARN_INVALID_ARGUMENT where the last reference of `pointer` is gone: its finalizer asks. */
tarn_status tarn__pointer_check_alive(const char *who, const tarn_pointer *pointer);

/* Release `pointer` after a failure, whose words stay the last error. */
void tarn__pointer_drop(tarn_pointer *pointer);

#endif
