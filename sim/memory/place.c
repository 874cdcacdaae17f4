/* place.c -- what kind of memory is at an address. */
#include "sim/memory/place.h"
#include "sim/core/device.h"
#include "sim/core/options.h"
#include "sim/memory/graph_memory.h"
#include "sim/memory/pool_file.h"
#include "sim/memory/vmm.h"

enum { ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88 };

bool sim_place_is_device(uintptr_t address)
{
    for (int i = 0; i < sim_device_count; i++)
        if (address - sim_devices[i].base < sim_device_address_bytes())
            return true;
    return sim_vmm_holds(address) || sim_pool_file_holds(address);
}

enum sim_place sim_place_of(uintptr_t address, size_t bytes)
{
    const struct sim_block *block = sim_block_find(address);

    if (!block)
        return address == 0 || address + bytes < address || sim_place_is_device(address)
                   ? PLACE_BAD
                   : PLACE_PAGEABLE;
    if (block->kind == BLOCK_MAPPED) /* it may go on in the next mapping */
        return address + bytes > address && sim_vmm_is_mapped(address, bytes)
                   ? PLACE_DEVICE
                   : PLACE_BAD;
    if (bytes > block->range.bytes - (address - block->range.start))
        return PLACE_BAD;
    if (sim_block_is_managed(block))
        return PLACE_MANAGED;
    return sim_block_is_host(block) ? PLACE_PINNED : PLACE_DEVICE;
}

enum sim_place sim_place_for(const struct sim_stream *stream, uintptr_t address,
                             size_t bytes)
{
    bool is_of_graph =
        (!stream || stream->member) && sim_graph_memory_find(address, bytes);

    return is_of_graph ? PLACE_DEVICE : sim_place_of(address, bytes);
}

bool sim_place_is_accessible(enum sim_place place)
{
    if (place == PLACE_PAGEABLE)
        return sim_options.attribute == ATTRIBUTE_PAGEABLE_MEMORY_ACCESS &&
               sim_options.attribute_value != 0;
    return place != PLACE_BAD;
}
