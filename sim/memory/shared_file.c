/* shared_file.c -- creating and validating such a file. */
#define _GNU_SOURCE
#include "sim/memory/shared_file.h"
#include "sim/core/device.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_MAGIC 0x326d69736e726174u /* "tarnsim2" */
enum {
    PAGE_BYTES = 4096,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

CUdevice sim_shared_file_device(const struct sim_shared_page *page)
{
    return page->device >= 0 && page->device < SIM_DEVICES_MAX
               ? sim_device_of((int)page->device)
               : -1;
}

static bool fill_file(int file, const struct sim_shared_page *page)
{
    return ftruncate(file, (off_t)(page->bytes + PAGE_BYTES)) == 0 &&
           pwrite(file, page, sizeof *page, (off_t)page->bytes) ==
               (ssize_t)sizeof *page &&
           fcntl(file, F_ADD_SEALS, SEALS) == 0;
}

CUresult sim_shared_file_create(enum sim_shared_kind kind, CUdevice device, size_t bytes,
                                int *out, struct sim_shared_page *page)
{
    struct sim_shared_page made = {PAGE_MAGIC, kind, 0, bytes,
                                   sim_devices[device].number};
    int file = memfd_create(kind == SHARED_MEMORY ? "tarn-sim-memory" : "tarn-sim-pool",
                            MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (getrandom(&made.id, sizeof made.id, 0) != (ssize_t)sizeof made.id) {
        close(file);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    made.id |= 1; /* not 0 */
    if (!fill_file(file, &made)) {
        close(file);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *out = file;
    *page = made;
    return CUDA_SUCCESS;
}

/* Check the seals first: a file that cannot have them is no memfd, and it may be
 * unreadable. */
CUresult sim_shared_file_identify(int file, enum sim_shared_kind kind,
                                  struct sim_shared_page *page)
{
    int seals = fcntl(file, F_GET_SEALS);
    struct sim_shared_page content;
    struct stat status;

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(file, &status) != 0 ||
        status.st_size < PAGE_BYTES ||
        pread(file, &content, sizeof content, status.st_size - PAGE_BYTES) !=
            (ssize_t)sizeof content)
        return CUDA_ERROR_UNKNOWN;
    if (content.magic != PAGE_MAGIC || content.id == 0 ||
        content.bytes != (uint64_t)status.st_size - PAGE_BYTES || content.bytes == 0 ||
        content.bytes % SIM_PIECE_BYTES != 0)
        return CUDA_ERROR_UNKNOWN;
    if (status.st_uid != geteuid())
        return CUDA_ERROR_NOT_PERMITTED;
    if (content.kind != kind &&
        !(kind == SHARED_POOL && content.kind == SHARED_HOST_POOL))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (content.kind != SHARED_HOST_POOL && sim_shared_file_device(&content) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *page = content;
    return CUDA_SUCCESS;
}
