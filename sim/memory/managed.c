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
    else
        block->accessed_by = advice == ADVISE_SET_ACCESSED_BY ? where : CU_DEVICE_INVALID;
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
    if (!device_of(&location, &where) && advice > ADVISE_UNSET_READ_MOSTLY &&
        advice != ADVISE_UNSET_PREFERRED)
        return CUDA_ERROR_INVALID_VALUE;
    return advise(address, bytes, advice, where);
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
        *value = block->accessed_by;
        for (size_t i = 1; i < bytes / sizeof *value; i++)
            value[i] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
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
