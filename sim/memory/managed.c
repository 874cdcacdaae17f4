/* managed.c -- hints about managed memory: stored and returned by queries, without
 * effect. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/block.h"
#include "sim/memory/place.h"
#include "sim/work/stream_lookup.h"

/* The values of CUmem_advise and CUmem_range_attribute that this file distinguishes. */
enum {
    ADVISE_SET_READ_MOSTLY = 1,
    ADVISE_UNSET_READ_MOSTLY,
    ADVISE_SET_PREFERRED,
    ADVISE_UNSET_PREFERRED,
    ADVISE_SET_ACCESSED_BY,
    ADVISE_UNSET_ACCESSED_BY,
    RANGE_READ_MOSTLY = 1,
    RANGE_PREFERRED,
    RANGE_ACCESSED_BY,
    RANGE_PREFETCHED,
    RANGE_PREFERRED_TYPE,
    RANGE_PREFERRED_ID,
    RANGE_PREFETCHED_TYPE,
    RANGE_PREFETCHED_ID,
};

/* The managed block that holds all of the range, or NULL. */
static struct sim_block *find_managed(CUdeviceptr address, size_t bytes)
{
    struct sim_block *block = sim_block_find((uintptr_t)address);

    if (!block || !sim_block_is_managed(block) || bytes == 0 ||
        bytes > block->range.bytes - ((uintptr_t)address - block->range.start))
        return NULL;
    return block;
}

/* Ordinary host memory, which a device with pageable access migrates, too. */
static bool is_pageable(CUdeviceptr address, size_t bytes)
{
    return bytes > 0 && sim_place_of((uintptr_t)address, bytes) == PLACE_PAGEABLE &&
           sim_place_is_accessible(PLACE_PAGEABLE);
}

/* Return true for a device, or the host as CU_DEVICE_CPU. */
static bool is_location(CUdevice where)
{
    return where == CU_DEVICE_CPU || sim_device_exists(where);
}

static bool device_of(const CUmemLocation *location, CUdevice *out)
{
    bool is_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;

    if (!is_device && (location->type < CU_MEM_LOCATION_TYPE_HOST ||
                       location->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT))
        return false;
    *out = is_device ? location->id : CU_DEVICE_CPU;
    return is_location(*out);
}

static CUresult prefetch(const char *call, CUdeviceptr address, size_t bytes,
                         CUdevice where, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    if (!is_location(where))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    struct sim_block *block = find_managed(address, bytes);
    if (result == CUDA_SUCCESS && !block && !is_pageable(address, bytes))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && block)
        block->prefetched = where;
    return sim_lock_leave(result);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice where,
                            CUstream stream)
{
    ENTER(CALL_PLAIN);
    return prefetch(__func__, address, bytes, where, stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream)
{
    CUdevice where;

    ENTER(CALL_PLAIN);
    if (flags != 0 || !device_of(&location, &where))
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(__func__, address, bytes, where, stream);
}

/* The bit of a location in `accessed_by`: the host's comes after those of the devices. */
static uint32_t bit_of(CUdevice where)
{
    return (uint32_t)1 << (where == CU_DEVICE_CPU ? SIM_DEVICES_MAX : where);
}

/* --- many ranges in a call: all are checked before the first one changes --- */

struct batch {
    const CUdeviceptr *addresses;
    const size_t *bytes;
    size_t count;
    const CUmemLocation *locations; /* NULL: the ranges are discarded only */
    const size_t *first;            /* of each location: its first range */
    size_t location_count;
};

/* The lists of locations: the first begins with range 0, each begins after the last. */
static bool are_locations(const struct batch *batch)
{
    CUdevice where;

    if (batch->location_count == 0 || batch->location_count > batch->count ||
        !batch->first || batch->first[0] != 0)
        return false;
    for (size_t i = 0; i < batch->location_count; i++)
        if (!device_of(&batch->locations[i], &where) || batch->first[i] >= batch->count ||
            (i > 0 && batch->first[i] <= batch->first[i - 1]))
            return false;
    return true;
}

static CUresult check_batch(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!find_managed(batch->addresses[i], batch->bytes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void prefetch_batch(const struct batch *batch)
{
    CUdevice where = CU_DEVICE_INVALID;
    size_t location = 0;

    for (size_t i = 0; i < batch->count; i++) {
        if (location < batch->location_count && batch->first[location] == i)
            device_of(&batch->locations[location++], &where);
        find_managed(batch->addresses[i], batch->bytes[i])->prefetched = where;
    }
}

/* Discarded bytes are undefined, so they may stay as they are. */
static CUresult run_batch(const char *call, const struct batch *batch,
                          unsigned long long flags, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    if (batch->count == 0 || !batch->addresses || !batch->bytes || flags != 0 ||
        (batch->locations && !are_locations(batch)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    if (result == CUDA_SUCCESS)
        result = check_batch(batch);
    if (result == CUDA_SUCCESS && batch->locations)
        prefetch_batch(batch);
    return sim_lock_leave(result);
}

static CUresult run_prefetch(const char *call, const struct batch *batch,
                             unsigned long long flags, CUstream stream)
{
    return batch->locations ? run_batch(call, batch, flags, stream)
                            : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
                                 CUmemLocation *locations, size_t *first,
                                 size_t location_count, unsigned long long flags,
                                 CUstream stream)
{
    const struct batch batch = {addresses, bytes, count,
                                locations, first, location_count};

    ENTER(CALL_PLAIN);
    return run_prefetch(__func__, &batch, flags, stream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
                                unsigned long long flags, CUstream stream)
{
    ENTER(CALL_PLAIN);
    return run_batch(
        __func__, &(struct batch){.addresses = addresses, .bytes = bytes, .count = count},
        flags, stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes,
                                           size_t count, CUmemLocation *locations,
                                           size_t *first, size_t location_count,
                                           unsigned long long flags, CUstream stream)
{
    const struct batch batch = {addresses, bytes, count,
                                locations, first, location_count};

    ENTER(CALL_PLAIN);
    return run_prefetch(__func__, &batch, flags, stream);
}

/* --- advice --- */

static CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                       CUdevice where)
{
    sim_lock();
    struct sim_block *block = find_managed(address, bytes);
    if ((!block && !is_pageable(address, bytes)) || advice < ADVISE_SET_READ_MOSTLY ||
        advice > ADVISE_UNSET_ACCESSED_BY)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (!block)
        return sim_lock_leave(CUDA_SUCCESS);
    if (advice <= ADVISE_UNSET_READ_MOSTLY)
        block->read_mostly = advice == ADVISE_SET_READ_MOSTLY;
    else if (advice <= ADVISE_UNSET_PREFERRED)
        block->preferred = advice == ADVISE_SET_PREFERRED ? where : CU_DEVICE_INVALID;
    else if (advice == ADVISE_SET_ACCESSED_BY)
        block->accessed_by |= bit_of(where);
    else
        block->accessed_by &= ~bit_of(where);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                     CUdevice where)
{
    ENTER(CALL_CONTEXT);
    if (advice > ADVISE_UNSET_READ_MOSTLY && advice != ADVISE_UNSET_PREFERRED &&
        !is_location(where))
        return CUDA_ERROR_INVALID_DEVICE;
    return advise(address, bytes, advice, where);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location)
{
    CUdevice where = CU_DEVICE_INVALID;

    ENTER(CALL_CONTEXT);
    if (!device_of(&location, &where) && advice > ADVISE_UNSET_READ_MOSTLY)
        return CUDA_ERROR_INVALID_VALUE;
    return advise(address, bytes, advice, where);
}

static int type_of(CUdevice where)
{
    return where == CU_DEVICE_INVALID ? CU_MEM_LOCATION_TYPE_INVALID
           : where == CU_DEVICE_CPU   ? CU_MEM_LOCATION_TYPE_HOST
                                      : CU_MEM_LOCATION_TYPE_DEVICE;
}

/* Write the devices in the set, then the host, and fill the rest. */
static void list_accessed_by(uint32_t set, int *out, size_t count)
{
    size_t used = 0;

    for (int i = 0; i < SIM_DEVICES_MAX && used < count; i++)
        if (set & bit_of(i))
            out[used++] = i;
    if (used < count && set & bit_of(CU_DEVICE_CPU))
        out[used++] = CU_DEVICE_CPU;
    while (used < count)
        out[used++] = CU_DEVICE_INVALID;
}

/* Write one value into `out`, of `bytes` bytes. */
static CUresult range_attribute(const struct sim_block *block,
                                CUmem_range_attribute attribute, void *out, size_t bytes)
{
    int *value = out;

    if (!out || bytes < sizeof *value || bytes % sizeof *value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case RANGE_READ_MOSTLY:
        *value = block->read_mostly;
        return CUDA_SUCCESS;
    case RANGE_PREFERRED:
        *value = block->preferred;
        return CUDA_SUCCESS;
    case RANGE_ACCESSED_BY:
        list_accessed_by(block->accessed_by, value, bytes / sizeof *value);
        return CUDA_SUCCESS;
    case RANGE_PREFERRED_TYPE:
        *value = type_of(block->preferred);
        return CUDA_SUCCESS;
    case RANGE_PREFERRED_ID:
        *value = block->preferred;
        return CUDA_SUCCESS;
    case RANGE_PREFETCHED_TYPE:
        *value = type_of(block->prefetched);
        return CUDA_SUCCESS;
    case RANGE_PREFETCHED_ID:
    case RANGE_PREFETCHED:
        *value = block->prefetched;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRangeGetAttribute(void *out, size_t out_bytes,
                                CUmem_range_attribute attribute, CUdeviceptr address,
                                size_t bytes)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    const struct sim_block *block = find_managed(address, bytes);
    return sim_lock_leave(block ? range_attribute(block, attribute, out, out_bytes)
                                : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemRangeGetAttributes(void **out, size_t *out_bytes,
                                 CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr address, size_t bytes)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_CONTEXT);
    if (!out || !out_bytes || !attributes || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = find_managed(address, bytes);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = range_attribute(block, attributes[i], out[i], out_bytes[i]);
    return sim_lock_leave(result);
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (flags == 0)
        sim_misuse_abort(__func__, "flags are 0; a real driver crashes here");
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (result == CUDA_SUCCESS && (!block || block->kind != BLOCK_MANAGED ||
                                   (bytes && bytes != block->range.bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    return sim_lock_leave(result);
}
