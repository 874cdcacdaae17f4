/* pool_file.h -- the memory of a pool that other processes may use.
 *
 * Such a pool takes its memory from a file of its own (shared_file.h). Each process maps
 * all of the file, so a pointer is an offset in it. Only the part that the pool has
 * taken is charged to the device.
 *
 * The addresses of a closed file are never unmapped, because a program may still have
 * queued work that (wrongly) uses them. The next such pool reuses them.
 */
#ifndef TARN_SIM_POOL_FILE_H
#define TARN_SIM_POOL_FILE_H

#include "sim/core/heap.h"
#include "sim/memory/pool.h"
#include "sim/memory/shared_file.h"

struct sim_pool_file {
    int file;
    uint64_t id;             /* from its last page */
    enum sim_pool_kind kind; /* which memory it is charged to */
    CUdevice device;
    struct sim_pool_area *area; /* where all of it is mapped */
    struct sim_heap addresses;  /* the part that the pool has not taken */
    bool is_exported;           /* other processes may have it */
    bool is_imported;           /* from another process: `addresses` is unused */
    unsigned imports;           /* how many imports were not destroyed yet */
    unsigned frees; /* blocks that are freed once their streams reach the free */
};

/* Where the file is mapped, and how long the mapping is. */
uintptr_t sim_pool_file_start(const struct sim_pool_file *file);
size_t sim_pool_file_bytes(const struct sim_pool_file *file);

/* Create a file for `pool`, which has no memory yet; open that of another process.
 * Locked, as are all functions here. */
CUresult sim_pool_file_create(struct sim_pool *pool);
CUresult sim_pool_file_import(struct sim_pool *pool, int file,
                              const struct sim_shared_page *page);

/* Close it. The pool has no memory any more. */
void sim_pool_file_close(struct sim_pool_file *file);

/* Take whole pieces of `bytes`, charged to the device, or NULL. */
struct sim_range *sim_pool_file_take(struct sim_pool_file *file, size_t bytes);

/* Return such pieces, each free as a whole, to the device. */
void sim_pool_file_return(struct sim_pool_file *file, struct sim_range *range);

/* Return true if `address` is in such a pool, or was in one that is closed. */
bool sim_pool_file_holds(uintptr_t address);

#endif
