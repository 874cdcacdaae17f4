/* nrt_allocator.c -- a memory resource as an allocator for compiled code.
 *
 * np.empty() in a jitted function then has pinned memory. A resource wants to hear the
 * size again when a block comes back, and an allocator is not told: it is written in
 * front of the block. Blocks outlive whatever made the choice, so an allocator and its
 * resource stay until the process ends; there is one a resource, whoever asks for it.
 */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRONT = 64 }; /* bytes before a block; keeps it at a multiple of 64 */

struct allocator {
    NRT_ExternalAllocator table;
    tarn_resource *resource; /* retained, for good */
    struct allocator *next;
};

static struct allocator *allocators; /* all there are */
static pthread_mutex_t allocators_lock = PTHREAD_MUTEX_INITIALIZER;

static void *resource_malloc(size_t bytes, void *self)
{
    struct allocator *allocator = self;
    tarn_device_ptr address;

    if (bytes > SIZE_MAX - FRONT ||
        tarn_resource_allocate(allocator->resource, bytes + FRONT, 0, TARN_STREAM_NONE,
                               &address) != TARN_OK)
        return NULL;
    char *block = (char *)(uintptr_t)address;
    memcpy(block, &bytes, sizeof bytes);
    return block + FRONT;
}

static void resource_free(void *pointer, void *self)
{
    struct allocator *allocator = self;
    size_t bytes;

    if (pointer == NULL)
        return;
    char *block = (char *)pointer - FRONT;
    memcpy(&bytes, block, sizeof bytes);
    tarn_resource_deallocate(allocator->resource, (tarn_device_ptr)(uintptr_t)block,
                             bytes + FRONT, 0, TARN_STREAM_NONE);
}

/* May the host touch what this resource hands out? Tried on a block of it, which the
 * kernel is asked to read: memory of a GPU is not there for it. */
static tarn_status check_host_memory(tarn_resource *resource)
{
    tarn_device_ptr block;
    tarn_status status =
        tarn_resource_allocate(resource, FRONT, 0, TARN_STREAM_NONE, &block);

    if (status != TARN_OK)
        return status;
    int before = errno;
    long code = syscall(SYS_rt_sigprocmask, ~0, (void *)(uintptr_t)block, NULL, 8);
    bool readable = code == 0 || errno != EFAULT;
    errno = before;
    tarn_resource_deallocate(resource, block, FRONT, 0, TARN_STREAM_NONE);
    if (readable)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "nrt: the host cannot reach the memory of resource %s",
                          tarn_resource_name(resource));
}

static struct allocator *find(tarn_resource *resource)
{
    struct allocator *allocator = allocators;

    while (allocator && allocator->resource != resource)
        allocator = allocator->next;
    return allocator;
}

static struct allocator *add(tarn_resource *resource)
{
    struct allocator *allocator = malloc(sizeof *allocator);

    if (!allocator)
        return NULL;
    allocator->table = (NRT_ExternalAllocator){
        .malloc = resource_malloc, .free = resource_free, .opaque_data = allocator};
    allocator->resource = tarn_resource_retain(resource);
    allocator->next = allocators;
    allocators = allocator;
    return allocator;
}

tarn_status tarn__nrt_allocator_over(tarn_resource *resource, NRT_ExternalAllocator **out)
{
    tarn_status status = check_host_memory(resource);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&allocators_lock);
    struct allocator *allocator = find(resource);
    if (!allocator)
        allocator = add(resource);
    pthread_mutex_unlock(&allocators_lock);
    if (!allocator)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nrt: no host memory for an allocator");
    *out = &allocator->table;
    return TARN_OK;
}
