/* allocator.c -- a resource as an allocator of the runtime for counted memory.
 *
 * A resource needs the size of a block when it is freed, and an allocator does not
 * receive it. The size is therefore written in front of the block. A request of 0 bytes
 * returns a block here, as in C.
 */
#define _GNU_SOURCE
#include <tarn/nrt_resource.h>
#include "base/size.h"
#include "base/warn.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRONT = 64 }; /* bytes before a block; keeps it at a multiple of 64 */

struct allocator {
    NRT_ExternalAllocator table; /* first: the caller's pointer to the allocator */
    tarn_resource *resource;     /* retained */
    atomic_size_t out;           /* live blocks */
};

static void *resource_malloc(size_t bytes, void *self)
{
    struct allocator *allocator = self;
    tarn_device_ptr address;
    size_t whole;

    if (!tarn__size_add(bytes, FRONT, &whole) ||
        tarn_resource_allocate(allocator->resource, whole, 0, TARN_STREAM_NONE,
                               &address) != TARN_OK)
        return NULL;
    char *block = (char *)(uintptr_t)address;
    memcpy(block, &whole, sizeof whole);
    atomic_fetch_add(&allocator->out, 1);
    return block + FRONT;
}

static void resource_free(void *memory, void *self)
{
    struct allocator *allocator = self;
    size_t whole;

    if (!memory)
        return;
    char *block = (char *)memory - FRONT;
    memcpy(&whole, block, sizeof whole);
    if (tarn_resource_deallocate(allocator->resource, (uintptr_t)block, whole, 0,
                                 TARN_STREAM_NONE) == TARN_OK)
        atomic_fetch_sub(&allocator->out, 1);
    else
        tarn__warn("nrt: freeing %zu bytes at %p failed, the resource keeps them: %s",
                   whole, (void *)block, tarn_error_last()->message);
}

/* Return true if the host can read this address. It makes a system call that fails in any
 * case, and the error tells whether the kernel could read. */
static bool is_readable(tarn_device_ptr block)
{
    int before = errno;
    long code = syscall(SYS_rt_sigprocmask, ~0, (void *)(uintptr_t)block, NULL, 8);
    bool readable = code == 0 || errno != EFAULT;

    errno = before;
    return readable;
}

static tarn_status check_host_memory(tarn_resource *resource)
{
    tarn_device_ptr block;
    tarn_status status =
        tarn_resource_allocate(resource, FRONT, 0, TARN_STREAM_NONE, &block);

    if (status != TARN_OK)
        return status;
    bool readable = is_readable(block);
    status = tarn_resource_deallocate(resource, block, FRONT, 0, TARN_STREAM_NONE);
    if (!readable)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "nrt: resource %s returns memory that the host cannot access",
            tarn_resource_name(resource));
    return status;
}

tarn_status tarn_resource_allocator_create(tarn_resource *resource,
                                           NRT_ExternalAllocator **out)
{
    if (!resource || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: allocator_create: %s is NULL",
                              resource ? "out" : "resource");
    tarn_status status = check_host_memory(resource);
    if (status != TARN_OK)
        return status;
    struct allocator *allocator = malloc(sizeof *allocator);
    if (!allocator)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nrt: no host memory for an allocator");
    allocator->table = (NRT_ExternalAllocator){
        .malloc = resource_malloc, .free = resource_free, .opaque_data = allocator};
    allocator->resource = tarn_resource_retain(resource);
    atomic_init(&allocator->out, 0);
    *out = &allocator->table;
    return TARN_OK;
}

tarn_status tarn_resource_allocator_release(NRT_ExternalAllocator *table)
{
    struct allocator *allocator = (struct allocator *)table;

    if (!allocator)
        return TARN_OK;
    size_t out = atomic_load(&allocator->out);
    if (out)
        return tarn_error_set(TARN_STILL_IN_USE,
                              "nrt: the allocator over resource %s has %zu live blocks",
                              tarn_resource_name(allocator->resource), out);
    tarn_status status = tarn_resource_release(allocator->resource);
    if (status == TARN_OK)
        free(allocator);
    return status;
}
