/* dma_buf.c -- descriptors of address ranges for other drivers: dma-buf.
 *
 * A network card's driver would pin the memory behind such a descriptor. Nothing here
 * can, so it is an empty file of the range's size, as lseek() reports it of a dma-buf.
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

static bool is_device_memory(const struct sim_block *block)
{
    return block->kind == BLOCK_DEVICE || block->kind == BLOCK_MAPPED ||
           block->kind == BLOCK_POOL;
}

/* Return true if one allocation has all of the range, up to the end of its last page. */
static bool is_in_one_block(uintptr_t start, size_t bytes)
{
    const struct sim_block *block = sim_block_find(start);

    if (!block || !is_device_memory(block))
        return false;
    size_t left = block->range.bytes - (start - block->range.start);
    return bytes <= (left + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
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

CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type,
                                       unsigned long long flags)
{
    ENTER(CALL_PLAIN);
    if (!out || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        (flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_options.has_dma_buf)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0 || (address | bytes) % PAGE_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!is_in_one_block((uintptr_t)address, bytes))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_lock_leave(create_file(bytes, out));
}
