/* shared_file.h -- memory in a file of its own, which other processes get as a
 * descriptor.
 *
 * The file is a memfd: the memory, and behind it a page that says what it is. It is
 * sealed at its size, so that nobody who has it can take the memory away under the
 * others. The kernel keeps it until the last descriptor and the last mapping of it are
 * gone, whoever dies first.
 */
#ifndef TARN_SIM_SHARED_FILE_H
#define TARN_SIM_SHARED_FILE_H

#include "sim/cuda.h"

enum sim_shared_kind { SHARED_MEMORY = 1, SHARED_POOL = 2, SHARED_HOST_POOL = 3 };

/* What the last page says. */
struct sim_shared_page {
    uint64_t magic;
    uint64_t kind;
    uint64_t id; /* random, not 0: tells whether two descriptors are of the same file */
    uint64_t bytes; /* of the memory: a multiple of 2 MiB */
    int64_t device; /* its number, which is the same in every process */
};

/* The device of this process that it is of; or less than 0: it does not see that one. */
CUdevice sim_shared_device(const struct sim_shared_page *page);

/* A file of `bytes` of memory, zeroed, and what it says. Its descriptor is closed on
 * exec.
 */
CUresult sim_shared_create(enum sim_shared_kind kind, CUdevice device, size_t bytes,
                           int *file, struct sim_shared_page *page);

/* What `file`, which somebody handed us, says; asked for a pool, of either kind. CUDA_ERROR_UNKNOWN where it is none of
 * ours, as the real driver says, CUDA_ERROR_NOT_SUPPORTED where it is of another kind,
 * CUDA_ERROR_NOT_PERMITTED where another user made it. */
CUresult sim_shared_identify(int file, enum sim_shared_kind kind,
                             struct sim_shared_page *page);

#endif
