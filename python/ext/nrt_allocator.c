/* nrt_allocator.c -- one allocator for each memory resource that compiled code has used.
 *
 * Blocks may outlive the object that chose the resource. So an allocator stays until the
 * process ends, and with it its resource. A runtime has few allocators in its life, so a
 * second request for the same resource must not create another.
 */
#include "nrt_allocator.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <tarn/nrt_resource.h>

struct known {
    tarn_resource *resource; /* retained by the allocator */
    NRT_ExternalAllocator *allocator;
    struct known *next;
};

/* The first entry of a permanent list. Entries are only ever added before it, without a
 * lock. A lock could be held forever in a forked child, or by a resource written in
 * Python while it waits for the interpreter. */
static _Atomic(struct known *) all_known;

static struct known *find(tarn_resource *resource)
{
    struct known *known = atomic_load(&all_known);

    while (known && known->resource != resource)
        known = known->next;
    return known;
}

/* Add an entry, unless another thread has added one for its resource. */
static struct known *enter(struct known *made)
{
    struct known *known;

    made->next = atomic_load(&all_known);
    do
        if ((known = find(made->resource)) != NULL)
            return known;
    while (!atomic_compare_exchange_weak(&all_known, &made->next, made));
    return made;
}

tarn_status tarn__nrt_allocator_over(tarn_resource *resource, NRT_ExternalAllocator **out)
{
    struct known *known = find(resource);

    if (!known) {
        struct known *made = malloc(sizeof *made);
        if (!made)
            return tarn_error_set(TARN_OUT_OF_MEMORY,
                                  "nrt: no host memory for an allocator");
        made->resource = resource;
        tarn_status status = tarn_resource_allocator_create(resource, &made->allocator);
        if (status != TARN_OK) {
            free(made);
            return status;
        }
        known = enter(made);
        if (known != made) {
            tarn_resource_allocator_release(made->allocator);
            free(made);
        }
    }
    *out = known->allocator;
    return TARN_OK;
}
