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

/* tarn_pointer_allocate(). `deferrable` is set for managers, see
 * tarn__deferred_frees_begin(). */
tarn_status tarn__allocate_pointer(tarn_resource *resource, size_t bytes,
                                   tarn_stream stream, bool deferrable,
                                   tarn_pointer **out);

/* Drop one reference, even if another function has taken over the releases. */
void tarn__pointer_release_plain(tarn_pointer *pointer);

/* Return the memory of an owner without references, now or later, and then free the
 * owner. */
void tarn__deferred_frees_return(tarn_pointer *pointer);

/* Retry failed frees, the oldest first, until one fails again. The last error stays
 * unchanged. */
void tarn__deferred_frees_retry(void);

/* Is `status` out of memory, and was a deferred free retried, so that another allocation
 * makes sense? The last error stays unchanged. */
bool tarn__deferred_frees_reclaimed(tarn_status status);

/* Between these calls, on `device`, deferrable pointers are kept if their return would
 * wait for the device. The calls nest. The last end returns the memory, and reports the
 * first failure of a pointer that had not failed before. The cleanup has ended in any
 * case. */
void tarn__deferred_frees_begin(int device);
tarn_status tarn__deferred_frees_end(int device);

/* Set when lazy pointers are returned. Each device keeps a list of them after their last
 * release and returns them together. That happens when the list has more than `count`
 * entries, or more bytes than `ratio` of the capacity of
 * tarn__deferred_frees_set_capacity(). It happens outside deferred cleanup; within it
 * they wait for the last end. Without a capacity only the count matters. */
void tarn__deferred_frees_set_limits(size_t count, double ratio);
void tarn__deferred_frees_limits(size_t *count_out, double *ratio_out);
void tarn__deferred_frees_set_capacity(int device, size_t bytes);

/* Report the deferred frees of `device` now. Pinned memory counts no bytes: it is not the
 * device's. */
void tarn__deferred_frees_on(int device, size_t *count_out, size_t *bytes_out);

/* Return all memory of `device` whose free was deferred or failed. */
tarn_status tarn__deferred_frees_flush(int device);

/* Fail with TARN_INVALID_ARGUMENT where the last reference of `pointer` is gone: its
 * finalizer is calling. */
tarn_status tarn__pointer_check_alive(const char *component, const tarn_pointer *pointer);

/* Release `pointer` after a failure whose message stays the last error. */
void tarn__pointer_drop(tarn_pointer *pointer);

#endif
