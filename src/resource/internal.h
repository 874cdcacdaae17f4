/* internal.h -- a resource from the inside: the functions of resource.c and stack.c. */
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
    tarn_resource **place; /* where a lookup finds a shared one, or NULL */
    /* It is a pool. It calls tarn__blocking_hook_call() itself, where needed; otherwise
     * each operation of a resource counts as a blocking call. It also keeps the contract
     * of a resource and counts its blocks, so most calls go straight to it. */
    bool is_pool;
    /* TARN_STREAM_NONE means the legacy default stream: it is a pool with
     * TARN_POOL_NO_STREAM_SINGLE, or over one. */
    bool none_is_default;
    atomic_uint depth; /* number of resources beneath it; TARN__DEPTH_IS_FINAL */
};

/* --- resource.c --- */

/* Release a reference where the function cannot return a status: a failure is a
 * warning. */
void tarn__resource_release_or_warn(tarn_resource *resource);

/* Return another reference to the resource at `place`; `make` creates it if there is
 * none. */
tarn_status tarn__resource_share(tarn_resource **place, int device,
                                 tarn_status (*make)(int device, tarn_resource **out),
                                 tarn_resource **out);

/* --- stack.c: the depth of stacked resources --- */

/* Flag in the depth: another resource counts on it, so it can no longer change. */
#define TARN__DEPTH_IS_FINAL (1u << 31)

/* Return the depth of a resource over `upstream` (NULL: none), or TARN_INVALID_ARGUMENT
 * with a message that names `component`. The depth of `upstream` is final from now on. */
tarn_status tarn__stack_over(const char *component, tarn_resource *upstream,
                             unsigned *depth_out);

/* Count one more resource beneath a new one, if that is within the limit: a slab that it
 * may make over its upstream later. Nothing may be above it yet. */
void tarn__stack_reserve(tarn_resource *resource);

/* `resource` calls `beneath`, too. TARN_STILL_IN_USE: that would make its depth larger,
 * which is final. */
tarn_status tarn__stack_widen(tarn_resource *resource, tarn_resource *beneath);

#endif
