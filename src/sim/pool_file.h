/* pool_file.h -- the memory of a pool that other processes may use.
 *
 * Such a pool takes its memory from a file of its own (shared_file.h), all of which is
 * mapped in each process: a pointer is an offset there. The memory counts against the
 * device only as far as the pool has it.
 *
 * The addresses of a file that is closed are never unmapped, as a program may still have
 * work queued that (wrongly) uses them; the next such pool gets them.
 */
#ifndef TARN_SIM_POOL_FILE_H
#define TARN_SIM_POOL_FILE_H

#include "sim/heap.h"
#include "sim/pool.h"
#include "sim/shared_file.h"

struct sim_pool_file {
    int file;
    uint64_t id;             /* as its last page says */
    enum sim_pool_kind kind; /* whose memory it counts as */
    CUdevice device;
    struct sim_pool_area *area; /* where it is mapped, all of it */
    struct sim_heap addresses;  /* of that, what the pool does not have */
    bool is_exported;           /* others may have it */
    bool is_imported;           /* it is another process's: `addresses` says nothing, */
    unsigned imports;           /* it was imported so often and not destroyed yet, */
    unsigned frees; /* and so many blocks are freed once their streams come to it */
};

/* Where the file is mapped, and how long that is. */
uintptr_t sim_pool_file_start(const struct sim_pool_file *file);
size_t sim_pool_file_bytes(const struct sim_pool_file *file);

/* A file for `pool`, which has no memory yet; that of another process. Locked, as all
 * here. */
CUresult sim_pool_file_create(struct sim_pool *pool);
CUresult sim_pool_file_import(struct sim_pool *pool, int file,
                              const struct sim_shared_page *page);

/* Close it; the pool has no memory any more. */
void sim_pool_file_close(struct sim_pool_file *file);

/* Whole pieces of `bytes`, counted against the device, or NULL. */
struct sim_range *sim_pool_file_take(struct sim_pool_file *file, size_t bytes);

/* Such pieces, free as a whole, back to the device. */
void sim_pool_file_give(struct sim_pool_file *file, struct sim_range *range);

/* Does `address` lie in such a pool, or in one that was? */
bool sim_pool_file_holds(uintptr_t address);

#endif
