/* pointer.h -- the fields of a pointer, for the modules that allocate memory for one.
 *
 * A pointer is created before its memory is (tarn__pointer_blank). So no failure can
 * occur between obtaining memory and having a pointer that returns it
 * (tarn__pointer_place).
 */
#ifndef TARN_POINTER_INTERNAL_H
#define TARN_POINTER_INTERNAL_H

#include <tarn/pointer.h>
#include <stdatomic.h>

/* Returns memory to where it came from. After a failure nothing has changed, and it is
 * called again later. No lock is held. */
typedef tarn_status tarn__return_memory(tarn_pointer *pointer);

typedef void (*tarn__release)(tarn_pointer *pointer);

struct tarn_pointer {
    tarn_meminfo *meminfo; /* the count; its destructor ends this pointer */
    tarn_pointer *base;    /* of a view: the first owner, retained; else NULL */
    tarn_pointer_kind kind;
    int device;                  /* TARN_DEVICE_NONE for plain host memory */
    uint64_t context_generation; /* context generation when the memory was allocated; 0:
                              * none */
    tarn_device_ptr address;     /* the device's address; 0 if the device has none */
    void *host;                  /* the host's address; NULL if the host has none */
    size_t bytes;
    tarn_finalizer finalizer; /* the user's, which cannot fail; may be NULL */
    void *finalizer_data;
    void *owner; /* released after all else; both may be NULL */
    void (*owner_release)(void *);
    tarn__return_memory *return_memory; /* NULL: the pointer owns no memory */
    bool deferrable;                    /* a return_memory that waits may be deferred */
    bool lazy;                          /* deferred until enough are,
                                 * tarn__deferred_frees_set_limits() */
    bool failed;                 /* a return_memory failed, and the memory is not returned
                                 * yet */
    tarn_resource *resource;     /* retained until the block is returned; NULL: from
                                 * none */
    _Atomic(tarn_stream) stream; /* on which the block returns to the resource */
    tarn_pointer *next;          /* in a list of deferred frees, which owns it then */
    /* Called for each release of an owner instead of tarn_pointer_release(). Its user
     * needs to know when all references but its own are gone. NULL: none. */
    _Atomic(tarn__release) release;
    void *release_data; /* of the user of `release` */
};

/* Create a pointer with one reference and no memory behind it yet; releasing it frees it.
 */
tarn_status tarn__pointer_blank(tarn_pointer_kind kind, int device, size_t bytes,
                                tarn_pointer **out);

/* Put memory behind a blank pointer: from now on its last release returns the memory. */
void tarn__pointer_place(tarn_pointer *pointer, tarn_device_ptr address, void *host,
                         tarn__return_memory *return_memory);

/* Drop one reference, even if another function has taken over the releases. */
void tarn__pointer_release_plain(tarn_pointer *pointer);

/* Fail with TARN_INVALID_ARGUMENT where the last reference of `pointer` is gone: its
 * finalizer is calling. */
tarn_status tarn__pointer_check_alive(const char *component, const tarn_pointer *pointer);

/* Release `pointer` after a failure whose message stays the last error. */
void tarn__pointer_drop(tarn_pointer *pointer);

#endif
