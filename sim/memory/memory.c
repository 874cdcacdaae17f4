/* memory.c -- device memory: cuMemAlloc, cuMemFree, cuMemGetInfo; and how each kind of
 * block is freed. */
#include "sim/memory/memory.h"
#include "base/map.h"
#include "base/size.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/graph_memory.h"
#include "sim/memory/ipc.h"
#include "sim/memory/pool.h"
#include "sim/races/races.h"
#include "sim/work/work.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Large blocks return their pages to the system without the lock, because that is slow.
 */
static void return_device_memory(struct sim_block *block)
{
    struct sim_device *device = &sim_devices[block->device];

    if (block->was_shared && sim_ipc_defer_free(block->device, block->memory))
        return;
    if (block->memory->bytes >= SIM_PIECE_BYTES) {
        sim_lock_release();
        sim_device_drop_pieces(device, block->memory);
        sim_lock();
    }
    sim_device_return(device, block->memory);
}

void sim_memory_destroy_block(struct sim_block *block)
{
    if (block->kind == BLOCK_DEVICE)
        return_device_memory(block);
    if (block->kind == BLOCK_POOL)
        sim_pool_reclaim(block);
    if (block->kind == BLOCK_GRAPH)
        sim_graph_memory_block_freed(block);
    if (block->mapping)
        munmap(block->mapping, block->mapping_bytes);
    if (block->kind == BLOCK_OPENED && block->file >= 0)
        close(block->file); /* this also releases the lock on it */
    free(block);
}

void sim_memory_free_context(const struct sim_context *context,
                             uint64_t context_generation)
{
    uintptr_t next = 0;
    struct sim_range *range;

    while ((range = sim_ranges_after(&sim_blocks, next))) {
        struct sim_block *block = (struct sim_block *)(void *)range;
        next = range->start + 1;
        if (!block->context || block->context != context ||
            block->context_generation != context_generation)
            continue;
        sim_memory_release_block(block);
    }
}

/* --- device memory --- */

CUresult sim_memory_allocate(CUdeviceptr *out, size_t bytes)
{
    struct sim_context *context = sim_context_current();
    struct sim_device *device = &sim_devices[context->device];
    CUresult result = sim_context_check_current(); /* under the lock, so still valid */
    struct sim_block *block;

    if (result != CUDA_SUCCESS)
        return result;
    block = sim_block_new(context, BLOCK_DEVICE, 0, bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_ipc_free_deferred();
    block->memory = sim_device_take(device, bytes);
    if (!block->memory && sim_pool_trim_all(block->device))
        block->memory = sim_device_take(device, bytes);
    if (!block->memory) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->range.start = block->memory->start;
    sim_block_insert(block);
    *out = block->range.start;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    CLEAR(out);
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(sim_memory_allocate(out, bytes));
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    size_t row;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    *pitch = 0;
    if (width == 0 || height == 0 || (element != 4 && element != 8 && element != 16) ||
        !tarn__size_round_up(width, SIM_ALIGNMENT, &row) || row > SIZE_MAX / height)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_memory_allocate(out, row * height);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return sim_lock_leave(result);
}

/* The block at exactly this address that cuMemFree may free. */
static struct sim_block *find_to_free(CUdeviceptr address)
{
    struct sim_block *block = sim_block_at((uintptr_t)address);

    if (!block)
        return NULL;
    return block->kind == BLOCK_PINNED || block->kind == BLOCK_REGISTERED ||
                   block->kind == BLOCK_OPENED || block->kind == BLOCK_MAPPED
               ? NULL
               : block;
}

/* No call can find the block during this wait. Memory that will be unmapped must be
 * unused by every device. Device memory stays mapped, so waiting for its own device is
 * enough. */
void sim_memory_release_block(struct sim_block *block)
{
    sim_block_remove(block);
    sim_ipc_forget(block);
    if (block->kind == BLOCK_POOL)
        ; /* the client guarantees that it is unused */
    else if (block->kind == BLOCK_DEVICE || block->kind == BLOCK_GRAPH)
        sim_work_wait_device(block->device);
    else
        sim_work_wait_all();
    sim_races_touch_by_host(block->range.start, block->range.bytes);
    sim_memory_destroy_block(block);
}

void sim_memory_release(CUdeviceptr address, uint64_t id)
{
    struct sim_block *block = find_to_free(address);

    if (block && block->id == id)
        sim_memory_release_block(block);
}

/* Waits for the device, as the real driver does. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER(CALL_SURVIVES);
    if (address == 0)
        return CUDA_SUCCESS;
    sim_lock();
    struct sim_block *block = find_to_free(address);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_memory_release_block(block);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* The stream has reached the free. */
static void reach_free(void *data)
{
    struct sim_block *block = *(struct sim_block **)data;
    struct sim_device *device = &sim_devices[block->device];
    struct sim_range *memory = block->memory;
    bool is_deferred = block->was_shared && sim_ipc_defer_free(block->device, memory);

    if (!is_deferred && memory->bytes >= SIM_PIECE_BYTES)
        sim_device_drop_pieces(device, memory);
    if (!is_deferred)
        sim_device_return(device, memory);
    free(block);
}

CUresult sim_memory_free_async(struct sim_block *block, struct sim_stream *stream)
{
    struct sim_op *place = sim_op_new(sizeof(struct sim_block *), NULL, reach_free);
    CUresult result;

    if (!place)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct sim_block **)(void *)place->data = block;
    sim_block_remove(block);
    sim_ipc_forget(block);
    block->share_id = 0;
    result = sim_work_queue(stream, place); /* may reach the free immediately */
    if (result != CUDA_SUCCESS)
        sim_block_insert(block);
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CLEAR(free_bytes);
    CLEAR(total_bytes);
    ENTER(CALL_CONTEXT);
    sim_lock();
    sim_ipc_free_deferred();
    size_t total = (size_t)sim_options.memory_bytes;
    size_t taken = sim_devices[sim_context_current()->device].reserved_bytes;
    if (free_bytes)
        *free_bytes = taken < total ? total - taken : 0;
    if (total_bytes)
        *total_bytes = total;
    return sim_lock_leave(CUDA_SUCCESS);
}
