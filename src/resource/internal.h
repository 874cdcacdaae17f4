/* internal.h -- a resource from the inside, for the files of this room. */
#ifndef TARN_RESOURCE_INTERNAL_H
#define TARN_RESOURCE_INTERNAL_H

#include <tarn/resource.h>
#include <stdatomic.h>

/* No program has as many references. While a resource is destroyed it has them, so that what
 * its maker retains and releases there cannot end it once more. */
enum { TARN__ENDED = 1 << 30 };

struct tarn_resource {
    tarn_resource_ops ops;    /* as far as its maker knows them; NULL beyond */
    void *self;               /* the maker's, destroyed by ops.destroy */
    int device;               /* or TARN_DEVICE_NONE; never changes */
    atomic_size_t references; /* owners; TARN__ENDED and more while it is destroyed */
    atomic_size_t calls_out;  /* blocks out, where ops.blocks_out does not say */
    tarn_resource **place;    /* where a shared one is found again, or NULL; share.c */
    bool
        tells_waits; /* it calls tarn__wait_ahead() itself, where it has to; else its every
                         operation is taken to wait */
    atomic_uint depth; /* resources beneath it; TARN__DEPTH_IS_FINAL */
};

/* --- stack.c: how many resources stack --- */

/* In the depth: another resource counts on it, so it changes no more. */
#define TARN__DEPTH_IS_FINAL (1u << 31)

/* The depth of a resource over `upstream` (NULL: none), or TARN_INVALID_ARGUMENT in the
 * words of `who`. The depth of `upstream` is final from now on. */
tarn_status tarn__stack_over(const char *who, tarn_resource *upstream,
                             unsigned *depth_out);

/* Count one more resource beneath a new one, if that is within the limit: a slab that it may
 * make over its upstream later. Nothing may be above it yet. */
void tarn__stack_reserve(tarn_resource *resource);

/* `resource` calls `beneath`, too. TARN_STILL_IN_USE: that would make its depth larger,
 * which is final. */
tarn_status tarn__stack_widen(tarn_resource *resource, tarn_resource *beneath);

/* The calls behind the public ones: arguments checked, alignment normal, bytes > 0. */
tarn_status tarn__resource_allocate(tarn_resource *resource, size_t bytes,
                                    size_t alignment, tarn_stream stream,
                                    tarn_device_ptr *out);
tarn_status tarn__resource_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                      size_t bytes, size_t alignment, tarn_stream stream);

/* Release a reference where no status can be returned: a failure is a warning. */
void tarn__resource_release_or_warn(tarn_resource *resource);

/* --- share.c: one object for all who ask --- */

enum { TARN__PLACES = 128 }; /* devices that a kind of resource can be shared on */

/* Another reference to the resource at `place`, made by `make` where there is none. */
tarn_status tarn__resource_share(tarn_resource **place, int device,
                                 tarn_status (*make)(int device, tarn_resource **out),
                                 tarn_resource **out);

/* Take the last reference away, after which nobody can find it any more. False, and
 * `*blocks_out` set, where blocks are live; false and 0 where somebody else came. */
bool tarn__resource_end(tarn_resource *resource, size_t *blocks_out);

/* --- tap.c: watching the public calls --- */

/* One is set. */
extern atomic_bool tarn__tap_is_set __attribute__((visibility("hidden")));
/* Is this call not inside another one that a tap sees? */
bool tarn__tap_is_outermost(void);

/* Is a tap to be told of this call? */
static inline bool tarn__tap_watches(void)
{
    return atomic_load_explicit(&tarn__tap_is_set, memory_order_relaxed) &&
           tarn__tap_is_outermost();
}

tarn_status tarn__tap_allocate(tarn_resource *resource, size_t bytes, size_t alignment,
                               tarn_stream stream, tarn_device_ptr *out);
tarn_status tarn__tap_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                 size_t bytes, size_t alignment, tarn_stream stream);

#endif
