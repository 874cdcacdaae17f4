/* graph_memory.c -- addresses of graphs' memory, and when they are valid. */
#include "sim/memory/graph_memory.h"
#include "base/size.h"
#include "sim/core/device.h"
#include "sim/memory/pool.h"
#include "sim/work/work.h"
#include <stdlib.h>
#include <string.h>

static struct sim_ranges memories;

struct sim_graph_memory_use sim_graph_memory_used[SIM_DEVICES_MAX],
    sim_graph_memory_reserved[SIM_DEVICES_MAX];

/* Freed, and still counted as used: the driver notices it later. */
static uint64_t freed[SIM_DEVICES_MAX];

static void count(struct sim_graph_memory_use *use, uint64_t bytes, bool is_more)
{
    use->now = is_more ? use->now + bytes : use->now - bytes;
    if (use->now > use->high)
        use->high = use->now;
}

void sim_graph_memory_count_freed(CUdevice device)
{
    count(&sim_graph_memory_used[device], freed[device], false);
    freed[device] = 0;
}

bool sim_graph_memory_set_access(struct sim_graph_memory *memory,
                                 const CUmemAccessDesc *access, size_t count)
{
    if (count == 0)
        return true;
    memory->access = calloc(count, sizeof *access);
    if (!memory->access)
        return false;
    memcpy(memory->access, access, count * sizeof *access);
    memory->access_count = count;
    return true;
}

struct sim_graph_memory *sim_graph_memory_new(CUdevice device, size_t bytes)
{
    struct sim_graph_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return NULL;
    memory->memory = sim_device_take(&sim_devices[device], bytes);
    if (!memory->memory && sim_pool_trim_all(device))
        memory->memory = sim_device_take(&sim_devices[device], bytes);
    if (!memory->memory) {
        free(memory);
        return NULL;
    }
    memory->device = device;
    memory->references = 1;
    memory->range.start = memory->memory->start;
    memory->range.bytes = bytes;
    sim_ranges_insert(&memories, &memory->range);
    count(&sim_graph_memory_reserved[device], memory->memory->bytes, true);
    return memory;
}

void sim_graph_memory_retain(struct sim_graph_memory *memory)
{
    memory->references++;
}

void sim_graph_memory_release(struct sim_graph_memory *memory)
{
    if (--memory->references > 0)
        return;
    sim_ranges_remove(&memories, &memory->range);
    count(&sim_graph_memory_reserved[memory->device], memory->memory->bytes, false);
    sim_device_return(&sim_devices[memory->device], memory->memory);
    if (memory->stream)
        sim_stream_release(memory->stream);
    free(memory->access);
    free(memory);
}

struct sim_graph_memory *sim_graph_memory_find(uintptr_t address, size_t bytes)
{
    struct sim_range *range = sim_ranges_find(&memories, address);

    return range && bytes <= range->bytes - (address - range->start)
               ? (struct sim_graph_memory *)(void *)range
               : NULL;
}

/* --- allocated and freed --- */

struct sim_block *sim_graph_memory_block(struct sim_graph_memory *memory,
                                         struct sim_context *context)
{
    struct sim_block *block =
        sim_block_new(context, BLOCK_GRAPH, memory->range.start, memory->range.bytes);

    if (block) {
        block->context = NULL; /* it outlives contexts, as memory of pools does */
        block->device = memory->device;
        block->graph_memory = memory;
    }
    return block;
}

void sim_graph_memory_set_allocated(struct sim_graph_memory *memory,
                                    struct sim_block *block)
{
    memory->block = block;
    sim_graph_memory_count_freed(memory->device);
    count(&sim_graph_memory_used[memory->device], memory->range.bytes, true);
    sim_graph_memory_retain(memory);
    sim_block_insert(block);
}

void sim_graph_memory_set_freed(struct sim_graph_memory *memory,
                                struct sim_stream *stream, uint64_t until)
{
    struct sim_block *block = memory->block;

    sim_stream_retain(stream);
    if (memory->stream)
        sim_stream_release(memory->stream);
    memory->stream = stream;
    memory->freed_at = until;
    memory->block = NULL;
    freed[memory->device] += memory->range.bytes;
    sim_block_remove(block);
    free(block);
}

void sim_graph_memory_block_freed(struct sim_block *block)
{
    struct sim_graph_memory *memory = block->graph_memory;

    memory->block = NULL;
    count(&sim_graph_memory_used[memory->device], memory->range.bytes, false);
    sim_graph_memory_release(memory);
}

/* --- cuMemFreeAsync --- */

struct place {
    struct sim_graph_memory *memory;
};

static void reach_free(void *data)
{
    sim_graph_memory_release(((struct place *)data)->memory);
}

CUresult sim_graph_memory_free_async(struct sim_block *block, struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new(sizeof(struct place), NULL, reach_free);
    struct sim_graph_memory *memory = block->graph_memory;
    uint64_t until = stream->queued + 1;
    CUresult result;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ((struct place *)(void *)op->data)->memory = memory;
    sim_graph_memory_retain(memory); /* the operation may be done at once */
    result = sim_work_queue(stream, op);
    if (result == CUDA_SUCCESS)
        sim_graph_memory_set_freed(memory, stream, until);
    sim_graph_memory_release(memory);
    return result;
}
