/* async.c -- the driver's stream-ordered pool as a resource.
 *
 * The resource has a pool of its own, or the device's default pool (which cudaMallocAsync
 * uses too), or a pool of the program. Each resource has the table of its own blocks. So
 * the resource of the default pool is one object for each device, and no two resources
 * are equal.
 *
 * A pool is exportable only if it was created so, and a device's default pool was not. An
 * exportable pool has a cost, so the options have to request it.
 *
 * Memory allocated with TARN_STREAM_NONE must be valid on every stream, but the driver
 * allocates in the order of one stream. The resource allocates on a stream and waits for
 * it. That is the thread's own default stream: the legacy stream would invalidate every
 * capture on a blocking stream. A free with TARN_STREAM_NONE is in the order of the
 * default stream, which does not wait for work on non-blocking streams.
 * deallocate_synchronizes reports that, and the caller waits.
 */
#include "resource/backed.h"
#include "resource/internal.h"
#include "resource/shared_pool.h"
#include "base/options.h"
#include "base/size.h"
#include "base/warn.h"
#include "driver/stream.h"
#include <stdlib.h>
#include <string.h>

struct async {
    struct tarn__backed backed; /* first: the shared operations see this member */
    CUmemoryPool_ pool;
    bool owned;    /* the pool is destroyed with the resource */
    bool borrowed; /* the pool is the program's */
};

/* Return the thread's default stream. If that one captures, create a new stream: an
 * allocation on it would belong to the graph. */
static CUresult_ private_stream(const struct tarn__calls *calls, CUstream_ *out)
{
    CUstream_ own = (CUstream_)TARN_STREAM_PER_THREAD;

    if (tarn__stream_may_capture(calls, own))
        return calls->stream_create(out, CU_STREAM_NON_BLOCKING_);
    *out = own;
    return CUDA_SUCCESS_;
}

/* Allocate on `stream`, and wait until the block is valid on every other stream. */
static CUresult_ allocate_and_wait(const struct async *async,
                                   const struct tarn__calls *calls, size_t bytes,
                                   CUstream_ stream, CUdeviceptr_ *out)
{
    CUresult_ result = calls->mem_alloc_from_pool_async(out, bytes, async->pool, stream);

    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->stream_synchronize(stream);
    if (result != CUDA_SUCCESS_)
        calls->mem_free_async(*out, stream);
    return result;
}

static CUresult_ allocate_for_any_stream(const struct async *async,
                                         const struct tarn__calls *calls, size_t bytes,
                                         CUdeviceptr_ *out)
{
    CUstream_ stream;
    CUresult_ result = private_stream(calls, &stream);

    if (result != CUDA_SUCCESS_)
        return result;
    result = allocate_and_wait(async, calls, bytes, stream, out);
    if (stream != (CUstream_)TARN_STREAM_PER_THREAD)
        calls->stream_destroy(stream);
    return result;
}

static CUresult_ async_allocate(struct tarn__backed *self,
                                const struct tarn__calls *calls, size_t bytes,
                                tarn_stream stream, CUdeviceptr_ *out)
{
    struct async *async = (struct async *)(void *)self;
    CUdeviceptr_ memory = 0;
    CUresult_ result = stream == TARN_STREAM_NONE
                           ? allocate_for_any_stream(async, calls, bytes, &memory)
                           : calls->mem_alloc_from_pool_async(&memory, bytes, async->pool,
                                                              tarn_stream_handle(stream));

    if (result == CUDA_SUCCESS_)
        *out = memory;
    /* All other arguments are valid: the program has destroyed its pool. */
    if (result == CUDA_ERROR_INVALID_VALUE_ && async->borrowed)
        return CUDA_ERROR_OUT_OF_MEMORY_;
    return result;
}

static CUresult_ async_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                            tarn_stream stream)
{
    return calls->mem_free_async(base, tarn_stream_handle(stream));
}

static const struct tarn__backed_kind async_kind = {
    .component = "async",
    .allocate_call = "cuMemAllocFromPoolAsync",
    .free_call = "cuMemFreeAsync",
    .by_stream = true,
    .survives_reset = true,
    .allocate = async_allocate,
    .free = async_free,
};

/* Report the failure of a call about the pool as a whole. */
static tarn_status pool_failed(const char *call, CUresult_ result, int device)
{
    return tarn__driver_failed("async", call, result, "the pool of device %d", device);
}

/* Destroy the pool. Frees that are still queued do not prevent it: the pool ends after
 * them. */
static bool end_pool(struct async *async)
{
    struct tarn__scope scope;

    if (tarn__backed_enter(&async->backed, &scope) != TARN_OK)
        return false;
    bool ended = scope.calls->mem_pool_destroy(async->pool) == CUDA_SUCCESS_;
    tarn__scope_leave(&scope);
    return ended;
}

static void async_destroy(void *self)
{
    struct async *async = self;

    if (async->owned)
        tarn__shared_pool_remove(async->pool);
    /* The function cannot return a status, so it tries once more. */
    if (async->owned && !end_pool(async) && !end_pool(async) && !tarn__driver_gone())
        tarn__warn(
            "async: the driver failed to destroy a pool of device %d, which is leaked",
            async->backed.device);
    tarn__backed_destroy(async);
}

static bool async_supports_streams(const void *self)
{
    (void)self;
    return true;
}

/* In a scope: return the bytes that the pool holds, and the part of them in live
 * blocks. */
static tarn_status pool_bytes(const struct async *async, const struct tarn__calls *calls,
                              uint64_t *reserved_out, uint64_t *used_out)
{
    CUresult_ result = calls->mem_pool_get_attribute(
        async->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT_, reserved_out);

    if (result == CUDA_SUCCESS_)
        result = calls->mem_pool_get_attribute(
            async->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT_, used_out);
    if (result != CUDA_SUCCESS_)
        return pool_failed("cuMemPoolGetAttribute", result, async->backed.device);
    return TARN_OK;
}

/* In a scope: trim the pool. The driver counts live blocks among the bytes to keep; Tarn
 * does not. */
static tarn_status trim_pool(const struct async *async, const struct tarn__calls *calls,
                             size_t keep_bytes, size_t *released_out)
{
    uint64_t reserved = 0, used = 0, left = 0;
    size_t keep_total;
    tarn_status status = pool_bytes(async, calls, &reserved, &used);

    if (status != TARN_OK)
        return status;
    if (!tarn__size_add(keep_bytes, used, &keep_total))
        keep_total = SIZE_MAX;
    CUresult_ result = calls->mem_pool_trim_to(async->pool, keep_total);
    if (result != CUDA_SUCCESS_)
        return pool_failed("cuMemPoolTrimTo", result, async->backed.device);
    status = pool_bytes(async, calls, &left, &used);
    if (status == TARN_OK)
        *released_out = left < reserved ? reserved - left : 0;
    return status;
}

static tarn_status async_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct async *async = self;
    struct tarn__scope scope;
    tarn_status status = tarn__backed_enter(&async->backed, &scope);

    if (status != TARN_OK)
        return status;
    status = trim_pool(async, scope.calls, keep_bytes, released_out);
    tarn__scope_leave(&scope);
    return status;
}

static const tarn_resource_ops async_ops = {
    .size = sizeof async_ops,
    .name = "async",
    .allocate = tarn__backed_allocate,
    .deallocate = tarn__backed_deallocate,
    .destroy = async_destroy,
    .memory_info = tarn__backed_memory_info,
    .supports_streams = async_supports_streams,
    .trim = async_trim,
    .requested_bytes = tarn__backed_requested_bytes,
    .live_blocks = tarn__backed_live_blocks,
};

/* In a scope: have the pool keep at most `bytes` when no block is live. */
static tarn_status set_threshold(const struct async *async,
                                 const struct tarn__calls *calls, uint64_t bytes)
{
    CUresult_ result = calls->mem_pool_set_attribute(
        async->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD_, &bytes);

    if (result != CUDA_SUCCESS_)
        return pool_failed("cuMemPoolSetAttribute", result, async->backed.device);
    return TARN_OK;
}

/* In a scope: allocate and free `bytes` once, so that the pool has them. */
static tarn_status prime(const struct async *async, const struct tarn__calls *calls,
                         size_t bytes)
{
    CUdeviceptr_ memory = 0;
    CUresult_ result =
        calls->mem_alloc_from_pool_async(&memory, bytes, async->pool, NULL);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("async", "cuMemAllocFromPoolAsync", result,
                                   "initial %zu bytes on device %d", bytes,
                                   async->backed.device);
    result = calls->mem_free_async(memory, NULL);
    if (result != CUDA_SUCCESS_) {
        calls->mem_free_async(memory, NULL); /* else it would be lost */
        return pool_failed("cuMemFreeAsync", result, async->backed.device);
    }
    return TARN_OK;
}

/* In a scope: apply the options to the pool. The device's default pool has other users
 * too, so its threshold stays unless the options specify one. */
static tarn_status apply(const struct async *async, const struct tarn__calls *calls,
                         const tarn_async_options *options)
{
    tarn_status status = TARN_OK;

    if (options->release_threshold_bytes)
        status = set_threshold(async, calls, options->release_threshold_bytes);
    else if (async->owned)
        status = set_threshold(async, calls, UINT64_MAX);
    if (status == TARN_OK && options->initial_bytes)
        status = prime(async, calls, options->initial_bytes);
    return status;
}

/* In a scope: create a pool. */
static tarn_status make_pool(struct async *async, const struct tarn__calls *calls,
                             const tarn_async_options *options)
{
    int device = async->backed.device;
    CUmemPoolProps_ properties = {
        .allocType = options->managed ? CU_MEM_ALLOCATION_TYPE_MANAGED_
                                      : CU_MEM_ALLOCATION_TYPE_PINNED_,
        .handleTypes = options->exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_
                                           : CU_MEM_HANDLE_TYPE_NONE_,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE_, .id = device},
    };
    CUresult_ result = calls->mem_pool_create(&async->pool, &properties);

    /* Drivers before CUDA 13 do not know the type. */
    if (result == CUDA_ERROR_INVALID_VALUE_ && options->managed)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "async: the driver has no pools of managed memory");
    if (result != CUDA_SUCCESS_)
        return pool_failed("cuMemPoolCreate", result, device);
    if (options->exportable && !tarn__shared_pool_add(async->pool)) {
        calls->mem_pool_destroy(async->pool);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "async: no host memory for a pool");
    }
    async->owned = true;
    return TARN_OK;
}

/* In a scope: find the device's default pool. */
static tarn_status find_pool(struct async *async, const struct tarn__calls *calls)
{
    int device = async->backed.device;
    CUdevice_ handle = 0;
    CUresult_ result = calls->device_get(&handle, device);

    if (result == CUDA_SUCCESS_)
        result = calls->device_get_default_mem_pool(&async->pool, handle);
    if (result != CUDA_SUCCESS_)
        return pool_failed("cuDeviceGetDefaultMemPool", result, device);
    return TARN_OK;
}

/* Return the handle types as which pools of `device` can be exported, as bits. */
static tarn_status handle_types(const struct tarn__calls *calls, int device, int *out)
{
    CUdevice_ handle = 0;
    CUresult_ result = calls->device_get(&handle, device);

    if (result == CUDA_SUCCESS_)
        result = calls->device_get_attribute(
            out, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES_, handle);
    return result == CUDA_SUCCESS_ ? TARN_OK
                                   : pool_failed("cuDeviceGetAttribute", result, device);
}

static tarn_status check_pools(int device)
{
    const struct tarn__calls *calls;
    bool has_pools = false;
    tarn_status status = tarn__device_has(
        "async", device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED_, &has_pools);

    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status != TARN_OK)
        return status;
    if (!has_pools || !calls->mem_alloc_from_pool_async || !calls->mem_free_async ||
        !calls->mem_pool_create || !calls->mem_pool_destroy || !calls->mem_pool_trim_to ||
        !calls->mem_pool_set_attribute || !calls->mem_pool_get_attribute ||
        !calls->device_get_default_mem_pool)
        return tarn_error_set(TARN_NOT_SUPPORTED, "async: device %d has no memory pools",
                              device);
    return TARN_OK;
}

/* In a scope: set the pool that the options select. */
static tarn_status select_pool(struct async *async, const struct tarn__calls *calls,
                               const tarn_async_options *options)
{
    if (options->use_default_pool)
        return find_pool(async, calls);
    if (!options->pool)
        return make_pool(async, calls, options);
    async->pool = options->pool;
    async->borrowed = true;
    return TARN_OK;
}

static tarn_status make(int device, const tarn_async_options *options,
                        tarn_resource **out)
{
    struct async *async = calloc(1, sizeof *async);
    struct tarn__scope scope;

    if (!async)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "async: no host memory");
    tarn__backed_init(&async->backed, &async_kind, device);
    tarn_status status = tarn__backed_enter(&async->backed, &scope);
    if (status == TARN_OK) {
        status = select_pool(async, scope.calls, options);
        tarn__scope_leave(&scope);
    }
    if (status != TARN_OK) {
        tarn__backed_destroy(async);
        return status;
    }
    status = tarn_resource_create(&async_ops, async, device, out);
    if (status != TARN_OK)
        async_destroy(async);
    return status;
}

static tarn_status make_on_default_pool(int device, tarn_resource **out)
{
    const tarn_async_options options = {.size = sizeof options, .use_default_pool = true};

    return make(device, &options, out);
}

/* Check that at most one option selects a pool. */
static tarn_status check_choice(const tarn_async_options *requested, int device)
{
    if (requested->exportable && requested->use_default_pool)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "async: the default memory pool of device %d cannot be "
                              "exported, set use_default_pool to false",
                              device);
    if (requested->exportable + requested->use_default_pool + requested->managed +
            (requested->pool != NULL) >
        1)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "async: exportable, use_default_pool, managed and pool "
                              "exclude each other");
    return TARN_OK;
}

/* Check that the device supports the options. */
static tarn_status check_options(const tarn_async_options *requested, int device)
{
    const struct tarn__calls *calls;
    bool has_managed = true;
    int types = 0;
    tarn_status status = check_pools(device);

    if (status == TARN_OK)
        status = check_choice(requested, device);
    if (status == TARN_OK && requested->managed)
        status = tarn__device_has("async", device,
                                  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS_,
                                  &has_managed);
    if (status == TARN_OK && !has_managed)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "async: device %d has no pools of managed memory", device);
    if (status != TARN_OK || !requested->exportable)
        return status;
    status = tarn__driver(&calls);
    if (status == TARN_OK)
        status = handle_types(calls, device, &types);
    if (status != TARN_OK)
        return status;
    if (!(types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "async: device %d cannot export pools as descriptors",
                              device);
    return TARN_OK;
}

/* Apply the options, in a scope of its own. */
static tarn_status apply_options(tarn_resource *resource,
                                 const tarn_async_options *options)
{
    const struct async *async = tarn_resource_self(resource, &async_ops);
    struct tarn__scope scope;
    tarn_status status = tarn__backed_enter(&async->backed, &scope);

    if (status != TARN_OK)
        return status;
    status = apply(async, scope.calls, options);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_async_create(int device, const tarn_async_options *options,
                              tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];
    tarn_async_options requested;
    tarn_resource *made;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "async: create: out is NULL");
    tarn_status status = tarn__options_read("async", options, sizeof options->size,
                                            &requested, sizeof requested);
    if (status == TARN_OK)
        status = check_options(&requested, device);
    if (status != TARN_OK)
        return status;
    status =
        requested.use_default_pool
            ? tarn__resource_share(&places[device], device, make_on_default_pool, &made)
            : make(device, &requested, &made);
    if (status != TARN_OK)
        return status;
    status = apply_options(made, &requested);
    if (status != TARN_OK) {
        tarn_resource_release(made);
        return status;
    }
    *out = made;
    return TARN_OK;
}

tarn_status tarn_async_pool(tarn_resource *resource, void **out)
{
    const struct async *async = tarn_resource_self(resource, &async_ops);

    if (!async || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "async: pool: \"%s\" is not an async resource, or out is "
                              "NULL",
                              tarn_resource_name(resource));
    *out = async->pool;
    return TARN_OK;
}
