/* pool_share.c -- pools and their pointers in other processes.
 *
 * The importer may use memory whose pointers it imports, and free those pointers. That
 * only ends its own use; the exporter's free releases the memory. So an importer must
 * free first: it is not notified of the exporter's free.
 */
#define _GNU_SOURCE
#include "sim/memory/pool_share.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/memory.h"
#include "sim/memory/pool_file.h"
#include "sim/races/races.h"
#include "sim/work/work.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define POINTER_MAGIC 0x336d69736e726174u /* "tarnsim3" */

/* The content of an exported pointer. */
struct pointer {
    uint64_t magic;
    uint64_t pool_id;
    uint64_t offset; /* in the pool's file */
    uint64_t bytes;
};
_Static_assert(sizeof(struct pointer) <= sizeof(CUmemPoolPtrExportData),
               "a pointer fits what is sent");

/* --- pools --- */

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    int file;

    ENTER(CALL_PLAIN);
    if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || !(pool->handle_types & type))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    /* not closed on exec, as the real driver's descriptor */
    file = fcntl(pool->file->file, F_DUPFD, 0);
    if (file < 0)
        return sim_lock_leave(CUDA_ERROR_OPERATING_SYSTEM);
    pool->file->is_exported = true;
    memcpy(out, &file, sizeof file); /* the output is only an int */
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult import(int file, CUmemoryPool *out)
{
    struct sim_shared_page page;
    struct sim_pool *pool;
    CUresult result = sim_shared_file_identify(file, SHARED_POOL, &page);

    if (result != CUDA_SUCCESS)
        return result;
    pool = sim_pool_find_imported(page.id);
    if (pool) {
        pool->file->imports++;
        *out = (CUmemoryPool)(void *)pool;
        return CUDA_SUCCESS;
    }
    pool = sim_pool_new(page.kind == SHARED_POOL ? sim_shared_file_device(&page) : 0);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (page.kind == SHARED_HOST_POOL) {
        pool->kind = POOL_HOST;
        pool->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
        pool->access = UINT64_MAX;
    }
    result = sim_pool_file_import(pool, file, &page);
    if (result == CUDA_SUCCESS)
        *out = (CUmemoryPool)(void *)pool;
    else
        sim_pool_remove(pool);
    return result;
}

/* Remove destroyed imports, except where unfinished work may use the memory: on an H200 a
 * copy that was queued before the free and the destruction still arrives. */
static void remove_unused(void)
{
    struct sim_pool *pool = NULL, *next = sim_pool_next_left(NULL);

    while ((pool = next) != NULL) {
        next = sim_pool_next_left(pool);
        if (pool->file->frees == 0 && sim_work_is_idle(pool->device))
            sim_pool_remove(pool);
    }
}

/* One pool has one handle, however often it is imported. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    CLEAR(out);
    ENTER(CALL_PLAIN);
    if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    remove_unused();
    return sim_lock_leave(import((int)(intptr_t)handle, out));
}

/* Fails while it has imported pointers, as the real driver does. */
CUresult sim_pool_share_destroy(struct sim_pool *pool)
{
    if (pool->live > 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (--pool->file->imports > 0)
        return CUDA_SUCCESS;
    pool->is_destroyed = true;
    remove_unused();
    return CUDA_SUCCESS;
}

/* --- pointers --- */

/* Fails until the pool itself was exported: measured on an H200
 * (mempool.export.pointer_before_its_pool in tests/driver). */
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
    struct pointer pointer = {.magic = POINTER_MAGIC};

    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block || block->kind != BLOCK_POOL || block->range.start != address ||
        !block->pool->file || !block->pool->file->is_exported)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    pointer.pool_id = block->pool->file->id;
    pointer.offset = block->range.start - sim_pool_file_start(block->pool->file);
    pointer.bytes = block->range.bytes;
    memset(out, 0, sizeof *out);
    memcpy(out, &pointer, sizeof pointer);
    return sim_lock_leave(CUDA_SUCCESS);
}

static bool is_of(const struct pointer *pointer, const struct sim_pool_file *file)
{
    size_t bytes = sim_pool_file_bytes(file);

    return pointer->magic == POINTER_MAGIC && pointer->pool_id == file->id &&
           pointer->bytes > 0 && pointer->bytes <= bytes &&
           pointer->offset <= bytes - pointer->bytes;
}

/* An import that begins at the start of an earlier one returns the earlier one, whatever
 * its size: the exporter has freed that memory and this process has not. (Measured on an
 * H200. Other overlaps were not measured.) */
static CUresult open_pointer(struct sim_pool *pool, const struct pointer *pointer,
                             CUdeviceptr *out)
{
    uintptr_t start = sim_pool_file_start(pool->file) + pointer->offset;
    struct sim_block *block = sim_block_find(start);

    if (block && block->range.start == start) {
        *out = start;
        return CUDA_SUCCESS;
    }
    if (sim_block_overlaps(start, pointer->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    block = sim_block_new(NULL, BLOCK_POOL, start, pointer->bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->device = pool->device;
    block->pool = pool;
    pool->live++;
    sim_block_insert(block);
    *out = start;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle,
                                CUmemPoolPtrExportData *data)
{
    struct pointer pointer;

    ENTER(CALL_PLAIN);
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&pointer, data, sizeof pointer);
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    if (!pool || !pool->file || !pool->file->is_imported || !is_of(&pointer, pool->file))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_lock_leave(open_pointer(pool, &pointer, out));
}

/* A free whose stream has not reached it: earlier work in the stream needs the pool. */
struct pending {
    struct sim_pool *pool;
    struct sim_range range;
};

/* After the free the pool may be gone, and with it the memory: work in other streams must
 * come before. */
static void touch_free(const void *data, struct sim_timeline *timeline)
{
    const struct pending *pending = data;

    sim_races_touch(timeline, pending->range.start, pending->range.bytes, true);
}

static void reach_free(void *data)
{
    struct pending *pending = data;

    pending->pool->file->frees--;
}

CUresult sim_pool_share_free(struct sim_block *block, struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new(sizeof(struct pending), NULL, reach_free);
    struct sim_pool *pool = block->pool;
    CUresult result;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct pending *)(void *)op->data =
        (struct pending){.pool = pool, .range = block->range};
    op->touch = touch_free;
    pool->file->frees++;
    result = sim_work_queue(stream, op);
    if (result != CUDA_SUCCESS) {
        pool->file->frees--;
        return result;
    }
    sim_block_remove(block);
    sim_memory_destroy_block(block); /* one live block less in the pool */
    /* The call takes 8 to 90 ms on an H200, so it finds no ready work when it returns. */
    sim_work_settle();
    return CUDA_SUCCESS;
}
