/* rmm_torch.c -- the two C functions that PyTorch's CUDAPluggableAllocator calls.
 *
 * tarn.rmm.allocators.torch names them to PyTorch, which finds them in this file's shared
 * object. PyTorch calls them on any thread, mostly without the GIL, and expects of them:
 *
 * - A failed allocation is a C++ exception. NULL would be a tensor at address 0.
 * - A free does not fail, and its block returns to the resource that it came from, even
 *   if the current resource is another one by now. So a table has the pointer
 *   (tarn/pointer.h) of each block; a free that fails is a deferred free.
 */
#include <tarn/device.h>
#include <tarn/pointer.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

TARN_API void *tarn_rmm_torch_allocate(size_t bytes, int device, void *stream);
TARN_API void tarn_rmm_torch_deallocate(void *block, size_t bytes, int device,
                                        void *stream);

/* --- the blocks by address --- */

enum { BUCKETS_LOG = 12 };

struct entry {
    struct entry *next; /* in its bucket */
    tarn_device_ptr address;
    tarn_pointer *pointer; /* one reference */
};

/* The lock guards the buckets alone, so it is held across a fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *buckets[1 << BUCKETS_LOG];

static void lock_buckets(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_buckets(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_buckets, unlock_buckets, unlock_buckets);
}

/* Return the bucket of an address; blocks are multiples of 256 bytes apart. */
static struct entry **bucket_of(tarn_device_ptr address)
{
    uint64_t mixed = ((uint64_t)address >> 8) * UINT64_C(0x9E3779B97F4A7C15);

    return &buckets[mixed >> (64 - BUCKETS_LOG)];
}

static void add(struct entry *entry)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    lock_buckets();
    struct entry **bucket = bucket_of(entry->address);
    entry->next = *bucket;
    *bucket = entry;
    unlock_buckets();
}

/* Remove the entry of an address; NULL: there is none. */
static struct entry *take(tarn_device_ptr address)
{
    lock_buckets();
    struct entry **link = bucket_of(address), *found;
    while ((found = *link) != NULL && found->address != address)
        link = &found->next;
    if (found != NULL)
        *link = found->next;
    unlock_buckets();
    return found;
}

/* --- the calls --- */

/* Throw the C++ exception std::runtime_error with the message of the last error.
 *
 * PyTorch has loaded the C++ library, and the library has a function that throws. */
static _Noreturn void throw_last_error(tarn_status status)
{
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
    void *found =
        library != NULL ? dlsym(library, "_ZSt21__throw_runtime_errorPKc") : NULL;
    char text[1024];

    /* Programs look for the first words in the text of PyTorch's errors. */
    snprintf(text, sizeof text, "%s%s",
             status == TARN_OUT_OF_MEMORY ? "CUDA out of memory. " : "",
             tarn_error_last()->message);
    if (found != NULL)
        ((void (*)(const char *))(uintptr_t)found)(text);
    fprintf(stderr, "tarn: no libstdc++.so.6 to throw a C++ exception with: %s\n", text);
    abort();
}

static tarn_status allocate(size_t bytes, int device, void *stream, struct entry *entry)
{
    tarn_resource *resource = NULL;
    tarn_status status = tarn_device_resource(device, &resource);

    if (status == TARN_OK)
        status = tarn_pointer_allocate(resource, bytes, (tarn_stream)(uintptr_t)stream,
                                       &entry->pointer);
    tarn_resource_release(resource); /* the pointer has a reference of its own */
    if (status == TARN_OK)
        entry->address = tarn_pointer_address(entry->pointer);
    return status;
}

/* Allocate from the current resource of a device. 0 bytes: NULL. */
void *tarn_rmm_torch_allocate(size_t bytes, int device, void *stream)
{
    if (bytes == 0)
        return NULL;
    struct entry *entry = malloc(sizeof *entry);
    tarn_status status =
        entry != NULL
            ? allocate(bytes, device, stream, entry)
            : tarn_error_set(TARN_OUT_OF_MEMORY, "rmm_torch: host memory is exhausted");
    if (status != TARN_OK) {
        free(entry);
        throw_last_error(status);
    }
    add(entry);
    return (void *)(uintptr_t)entry->address;
}

/* Free a block on the stream of its allocation. An unknown address is reported and ignored. */
void tarn_rmm_torch_deallocate(void *block, size_t bytes, int device, void *stream)
{
    (void)device;
    (void)stream; /* PyTorch passes those of the allocation */
    if (block == NULL)
        return;
    struct entry *entry = take((tarn_device_ptr)(uintptr_t)block);
    if (entry == NULL) {
        tarn_warn("rmm_torch: %zu bytes at %p are freed that were not allocated here",
                  bytes, block);
        return;
    }
    tarn_pointer_release(entry->pointer);
    free(entry);
}
