/* shared_file.h -- memory in a file of its own, which other processes get as a
 * descriptor.
 *
 * The file is a memfd: the memory, and after it a page that describes the file. The file
 * is sealed at its size, so that no process can truncate it under the others. The kernel
 * keeps it until its last descriptor and its last mapping are closed, whichever process
 * ends first.
 */
#ifndef TARN_SIM_SHARED_FILE_H
#define TARN_SIM_SHARED_FILE_H

#include "sim/core/cuda.h"

enum sim_shared_kind { SHARED_MEMORY = 1, SHARED_POOL = 2, SHARED_HOST_POOL = 3 };

/* The content of the last page. */
struct sim_shared_page {
    uint64_t magic;
    uint64_t kind;
    uint64_t id;    /* random, not 0: equal ids mean the same file */
    uint64_t bytes; /* of the memory: a multiple of 2 MiB */
    int64_t device; /* its number, which is the same in every process */
};

/* The device in this process that the memory belongs to. Negative: it does not see that
 * device. */
CUdevice sim_shared_file_device(const struct sim_shared_page *page);

/* Create a file of `bytes` of zeroed memory with its page. Its descriptor is closed on
 * exec. */
CUresult sim_shared_file_create(enum sim_shared_kind kind, CUdevice device, size_t bytes,
                                int *file, struct sim_shared_page *page);

/* Read the page of `file`, a descriptor that a client passed. Return CUDA_ERROR_UNKNOWN
 * for another kind of file, as the real driver does; CUDA_ERROR_NOT_SUPPORTED for a file
 * of the simulator of another kind; CUDA_ERROR_NOT_PERMITTED for another user's file.
 * For a pool, either kind of pool matches. */
CUresult sim_shared_file_identify(int file, enum sim_shared_kind kind,
                                  struct sim_shared_page *page);

#endif
