/* imported.c -- blocks of the driver's pools of other processes, imported once each.
 *
 * A pool is imported with its first block and released after its last. For a second
 * import of a pool, or of a block in it, the driver returns the same one and does not
 * count the imports. So this module counts them.
 *
 * A block has to be freed here before its owner frees it. If the owner frees first and
 * reuses the memory, the accounting of the driver and of this module still lists the old
 * block. A new block at its address is rejected then, as it could not be distinguished
 * from the old one.
 */
#include "ipc/imported.h"
#include "base/hash.h"
#include "base/map.h"
#include <stdlib.h>
#include <string.h>

/* A pool of another process. */
struct pool {
    struct pool *next;
    unsigned char server[TARN__SERVER_BYTES]; /* the owner's server */
    uint64_t number;                          /* the owner's number for the pool */
    CUmemoryPool_ handle;
    size_t blocks; /* imported; 0: to be released, but the driver failed to do so */
};

enum { BUCKETS = 1024 };

struct tarn__imported {
    struct tarn__imported *next; /* in its bucket */
    struct tarn__handle_encoding encoding;
    struct pool *pool;
    CUdeviceptr_ base;
    size_t bytes;
    size_t users; /* number of devices that use it */
};

static struct pool *pools;
static struct tarn__imported *blocks[BUCKETS]; /* by handle */
static struct tarn__map bases;                 /* by address */

tarn_device_ptr tarn__imported_base(const struct tarn__imported *imported)
{
    return imported->base;
}

size_t tarn__imported_bytes(const struct tarn__imported *imported)
{
    return imported->bytes;
}

/* --- pools --- */

static struct pool *find_pool(const struct tarn__import_offer *offer)
{
    struct pool *pool = pools;

    while (pool &&
           (pool->number != offer->pool ||
            memcmp(pool->server, offer->encoding.server, sizeof pool->server) != 0))
        pool = pool->next;
    return pool;
}

static tarn_status import_pool(const struct tarn__calls *calls,
                               const struct tarn__import_offer *offer, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "ipc: no host memory for an imported pool");
    CUresult_ result =
        calls->mem_pool_import(&pool->handle, (void *)(intptr_t)offer->file,
                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_, 0);
    if (result != CUDA_SUCCESS_) {
        free(pool);
        return tarn__driver_failed("ipc", "cuMemPoolImportFromShareableHandle", result,
                                   "a pool of process %d", offer->encoding.process);
    }
    memcpy(pool->server, offer->encoding.server, sizeof pool->server);
    pool->number = offer->pool;
    pool->next = pools;
    pools = pool;
    *out = pool;
    return TARN_OK;
}

/* Release pools without blocks. A pool that the driver fails to release is retried with
 * the next one. */
static void end_pools(const struct tarn__calls *calls)
{
    for (struct pool **link = &pools; *link;) {
        struct pool *pool = *link;
        if (pool->blocks > 0 ||
            (calls->mem_pool_destroy(pool->handle) != CUDA_SUCCESS_ &&
             calls->mem_pool_destroy(pool->handle) != CUDA_SUCCESS_)) {
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        free(pool);
    }
}

/* An imported pool is usable on its own device; give other devices access. */
static tarn_status enable_access(const struct tarn__calls *calls, const struct pool *pool,
                                 int device)
{
    CUmemLocation_ location = {CU_MEM_LOCATION_TYPE_DEVICE_, device};
    CUmemAccessDesc_ access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE_};
    CUmemAccess_ present = CU_MEM_ACCESS_FLAGS_PROT_NONE_;
    CUresult_ result = calls->mem_pool_get_access(&present, pool->handle, &location);

    if (result == CUDA_SUCCESS_ && present != CU_MEM_ACCESS_FLAGS_PROT_READWRITE_)
        result = calls->mem_pool_set_access(pool->handle, &access, 1);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemPoolSetAccess", result, "device %d",
                                   device);
    return TARN_OK;
}

/* --- blocks --- */

static struct tarn__imported **bucket_of(const struct tarn__handle_encoding *encoding)
{
    return &blocks[tarn__hash_bytes(encoding, sizeof *encoding) % BUCKETS];
}

static struct tarn__imported *find_block(const struct tarn__handle_encoding *encoding)
{
    struct tarn__imported *block = *bucket_of(encoding);

    while (block && memcmp(&block->encoding, encoding, sizeof *encoding) != 0)
        block = block->next;
    return block;
}

/* The second try is for a driver that fails once. */
static void free_block(const struct tarn__calls *calls, CUdeviceptr_ base)
{
    if (calls->mem_free(base) != CUDA_SUCCESS_)
        calls->mem_free(base);
}

static tarn_status block_not_found(const struct tarn__handle_encoding *encoding,
                                   CUresult_ result)
{
    return tarn_error_set_native(
        TARN_NOT_FOUND, result,
        "ipc: the driver cannot import this block of process %d: it was freed, or a "
        "freed block at its address is still open in this process",
        encoding->process);
}

static tarn_status import_pointer(const struct tarn__calls *calls,
                                  const struct tarn__import_offer *offer,
                                  CUmemoryPool_ pool, CUdeviceptr_ *out)
{
    CUmemPoolPtrExportData_ pointer;
    CUdeviceptr_ base = 0;

    memcpy(pointer.reserved, offer->pointer, sizeof pointer.reserved);
    CUresult_ result = calls->mem_pool_import_pointer(&base, pool, &pointer);
    if (result == CUDA_ERROR_INVALID_VALUE_ ||
        (result == CUDA_SUCCESS_ && tarn__map_get(&bases, base)))
        return block_not_found(&offer->encoding, result);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemPoolImportPointer", result,
                                   "a block of process %d", offer->encoding.process);
    *out = base;
    return TARN_OK;
}

/* Find the block's address here, check its length, and give access to its users. */
static tarn_status import_block(const struct tarn__calls *calls, int device,
                                const struct tarn__import_offer *offer,
                                struct tarn__imported *block)
{
    CUdeviceptr_ base = 0;
    tarn_status status = import_pointer(calls, offer, block->pool->handle, &block->base);

    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->mem_get_address_range(&base, &block->bytes, block->base);
    status = result == CUDA_SUCCESS_
                 ? enable_access(calls, block->pool, device)
                 : tarn__driver_failed("ipc", "cuMemGetAddressRange", result,
                                       "an imported block at 0x%llx", block->base);
    if (status != TARN_OK)
        free_block(calls, block->base);
    return status;
}

static tarn_status make_block(const struct tarn__calls *calls, int device,
                              const struct tarn__import_offer *offer, struct pool *pool,
                              struct tarn__imported **out)
{
    struct tarn__imported *block = calloc(1, sizeof *block);
    struct tarn__imported **bucket = bucket_of(&offer->encoding);

    if (bases.stride == 0)
        tarn__map_init(&bases, 0);
    if (!block || !tarn__map_reserve(&bases, 1)) {
        free(block);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "ipc: no host memory for an imported block");
    }
    block->encoding = offer->encoding;
    block->pool = pool;
    block->users = 1;
    tarn_status status = import_block(calls, device, offer, block);
    if (status != TARN_OK) {
        free(block);
        return status;
    }
    block->next = *bucket;
    *bucket = block;
    tarn__map_put(&bases, block->base, NULL);
    pool->blocks++;
    *out = block;
    return TARN_OK;
}

/* --- the calls --- */

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->mem_pool_import && calls->mem_pool_import_pointer &&
           calls->mem_pool_get_access && calls->mem_pool_set_access &&
           calls->mem_pool_destroy;
}

static tarn_status open_new(const struct tarn__calls *calls, int device,
                            const struct tarn__import_offer *offer,
                            struct tarn__imported **out)
{
    struct pool *pool = find_pool(offer);
    tarn_status status = TARN_OK;

    if (!has_calls(calls))
        return tarn_error_set(TARN_NOT_SUPPORTED, "ipc: the driver cannot import pools");
    if (!pool)
        status = import_pool(calls, offer, &pool);
    if (status != TARN_OK)
        return status;
    status = make_block(calls, device, offer, pool, out);
    if (status != TARN_OK)
        end_pools(calls);
    return status;
}

tarn_status tarn__imported_open(const struct tarn__calls *calls, int device,
                                const struct tarn__import_offer *offer,
                                struct tarn__imported **out)
{
    struct tarn__imported *block = find_block(&offer->encoding);

    if (!block)
        return open_new(calls, device, offer, out);
    tarn_status status = enable_access(calls, block->pool, device);
    if (status != TARN_OK)
        return status;
    block->users++;
    *out = block;
    return TARN_OK;
}

CUresult_ tarn__imported_close(const struct tarn__calls *calls,
                               struct tarn__imported *imported)
{
    struct tarn__imported **link = bucket_of(&imported->encoding);

    if (imported->users > 1) {
        imported->users--;
        return CUDA_SUCCESS_;
    }
    CUresult_ result = calls->mem_free(imported->base);
    if (result != CUDA_SUCCESS_)
        return result;
    while (*link != imported)
        link = &(*link)->next;
    *link = imported->next;
    tarn__map_take(&bases, imported->base, NULL);
    imported->pool->blocks--;
    free(imported);
    end_pools(calls);
    return CUDA_SUCCESS_;
}
