/* nrt_allocator.c -- one allocator for each memory resource that compiled code has used.
 *
 * Blocks outlive whatever made the choice, so an allocator stays until the process ends,
 * and with it its resource. A runtime knows a few allocators in its life, so asking for
 * the same resource again must not make another.
 */
#include "state.h"

#include <pthread.h>
#include <stdlib.h>
#include <tarn/nrt_resource.h>

struct known {
    tarn_resource *resource; /* retained by the allocator */
    NRT_ExternalAllocator *allocator;
    struct known *next;
};

static struct known *all_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The allocator of a resource, made at first. Under the lock. */
static tarn_status find_or_make(tarn_resource *resource, NRT_ExternalAllocator **out)
{
    struct known *known = all_known;

    while (known && known->resource != resource)
        known = known->next;
    if (known) {
        *out = known->allocator;
        return TARN_OK;
    }
    known = malloc(sizeof *known);
    if (!known)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nrt: no host memory for an allocator");
    tarn_status status = tarn_resource_allocator_create(resource, &known->allocator);
    if (status != TARN_OK) {
        free(known);
        return status;
    }
    known->resource = resource;
    known->next = all_known;
    all_known = known;
    *out = known->allocator;
    return TARN_OK;
}

tarn_status tarn__nrt_allocator_over(tarn_resource *resource, NRT_ExternalAllocator **out)
{
    pthread_mutex_lock(&lock);
    tarn_status status = find_or_make(resource, out);
    pthread_mutex_unlock(&lock);
    return status;
}
