/* dma_buf.c -- descriptors of address ranges for other drivers: dma-buf.
 *
 * A network card's driver would pin the memory behind such a descriptor. Nothing here
 * can, so it is an empty file of the range's size, as lseek() reports it of a dma-buf.
 *
 * The results are those of an H200 (tests/driver, vmm.dma_buf.*). It has no descriptor of
 * 8 KiB of cuMemAlloc. Here no memory except that of cuMemMap has one.
 */
#define _GNU_SOURCE
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/options.h"
#include "sim/memory/block.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

/* Return true if virtual memory of one device is mapped in the whole range. It can be of
 * several handles. */
static bool is_mapped(uintptr_t start, size_t bytes)
{
    const struct sim_block *first = sim_block_find(start), *block = first;

    while (block && block->kind == BLOCK_MAPPED && block->device == first->device) {
        size_t rest = block->range.start + block->range.bytes - start;
        if (bytes <= rest)
            return true;
        start += rest, bytes -= rest;
        block = sim_block_find(start);
    }
    return false;
}

/* Check a range whose first byte is virtual memory. */
static CUresult check_range(uintptr_t start, size_t bytes, unsigned long long flags)
{
    if (!is_mapped(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return flags && sim_options.dma_buf != SIM_DMA_BUF_PCIE ? CUDA_ERROR_NOT_SUPPORTED
                                                            : CUDA_SUCCESS;
}

static CUresult create_file(size_t bytes, int *out)
{
    int file = memfd_create("tarn-sim-dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(file, (off_t)bytes) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        close(file);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *out = file;
    return CUDA_SUCCESS;
}

/* As an H200 does, set the output where the range begins in virtual memory and the call
 * fails. */
static CUresult export_range(uintptr_t start, size_t bytes, unsigned long long flags,
                             int *out)
{
    const struct sim_block *block = sim_block_find(start);

    if (!block || block->kind != BLOCK_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = -1;
    CUresult result = check_range(start, bytes, flags);
    return result == CUDA_SUCCESS ? create_file(bytes, out) : result;
}

CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type,
                                       unsigned long long flags)
{
    ENTER(CALL_PLAIN);
    if (!out || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        (flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_options.dma_buf == SIM_DMA_BUF_OFF)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0 || (address | bytes) % PAGE_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(export_range((uintptr_t)address, bytes, flags, out));
}
