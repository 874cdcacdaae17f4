/* internal.h -- a resource from the inside, for the files of this component. */
#ifndef TARN_RESOURCE_INTERNAL_H
#define TARN_RESOURCE_INTERNAL_H

#include <tarn/resource.h>
#include <stdatomic.h>

/* No program has as many references. A resource has them while it is destroyed, so that a
 * retain and release in its destroy operation cannot end it again. */
enum { TARN__ENDED = 1 << 30 };

struct tarn_resource {
    tarn_resource_ops ops;    /* the operations that its creator knows; NULL beyond */
    void *self;               /* the creator's object, destroyed by ops.destroy */
    int device;               /* or TARN_DEVICE_NONE; never changes */
    atomic_size_t references; /* owners; TARN__ENDED and more during destruction */
    atomic_size_t
        counted_blocks;    /* live blocks, where the resource has no ops.live_blocks */
    tarn_resource **place; /* where a lookup finds a shared one, or NULL; share.c */
    /* It calls tarn__blocking_hook_call() itself, where needed. Otherwise every operation of it
     * counts as a blocking call. */
    bool calls_blocking_hook;
    atomic_uint depth; /* number of resources beneath it; TARN__DEPTH_IS_FINAL */
};

/* --- stack.c: the depth of stacked resources --- */

/* Flag in the depth: another resource counts on it, so it can no longer change. */
#define TARN__DEPTH_IS_FINAL (1u << 31)

/* Return the depth of a resource over `upstream` (NULL: none), or TARN_INVALID_ARGUMENT
 * with a message that names `who`. The depth of `upstream` is final from now on. */
tarn_status tarn__stack_over(const char *component, tarn_resource *upstream,
                             unsigned *depth_out);

/* Count one more resource beneath a new one, if that is within the limit: a slab that it may
 * make over its upstream later. Nothing may be above it yet. */
void tarn__stack_reserve(tarn_resource *resource);

/* `resource` calls `beneath`, too. TARN_STILL_IN_USE: that would make its depth larger,
 * which is final. */
tarn_status tarn__stack_widen(tarn_resource *resource, tarn_resource *beneath);

/* The functions behind the public ones: arguments checked, alignment normalized, bytes >
 * 0. */
tarn_status tarn__resource_allocate(tarn_resource *resource, size_t bytes,
                                    size_t alignment, tarn_stream stream,
                                    tarn_device_ptr *out);
tarn_status tarn__resource_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                      size_t bytes, size_t alignment, tarn_stream stream);

/* Release a reference where the function cannot return a status: a failure is a
 * warning. */
void tarn__resource_release_or_warn(tarn_resource *resource);

/* --- share.c: one object for all callers --- */

enum { TARN__PLACES = 128 }; /* devices on which a kind of resource can be shared */

/* Return another reference to the resource at `place`; `make` creates it if there is
 * none. */
tarn_status tarn__resource_share(tarn_resource **place, int device,
                                 tarn_status (*make)(int device, tarn_resource **out),
                                 tarn_resource **out);

/* Drop the last reference, after which no lookup finds the resource. Returns false with
 * `*blocks_out` set if blocks are live. Returns false with 0 if another thread took a
 * reference. */
bool tarn__resource_end(tarn_resource *resource, size_t *blocks_out);

/* --- observer.c: the observer of public calls --- */

/* An observer is set. */
extern atomic_bool tarn__observer_is_set __attribute__((visibility("hidden")));
/* Return true if this call is not inside another one that the observer sees. */
bool tarn__observer_call_is_outermost(void);

/* Return true if this call is reported to an observer. */
static inline bool tarn__observer_sees_call(void)
{
    return atomic_load_explicit(&tarn__observer_is_set, memory_order_relaxed) &&
           tarn__observer_call_is_outermost();
}

tarn_status tarn__observed_allocate(tarn_resource *resource, size_t bytes,
                                    size_t alignment, tarn_stream stream,
                                    tarn_device_ptr *out);
tarn_status tarn__observed_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                      size_t bytes, size_t alignment, tarn_stream stream);

#endif
