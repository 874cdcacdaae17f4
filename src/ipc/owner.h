/* owner.h -- memory of a process that others may open: segments, blocks of the driver's
 * pools, the export table, and the lock.
 *
 * One lock covers both tables and the list of connections. It is held for a few
 * instructions, and never over a driver call, a message or a release. It is held over a
 * fork, so that a child finds consistent data. The lock of descriptor.h comes after it.
 */
#ifndef TARN_IPC_OWNER_H
#define TARN_IPC_OWNER_H

#include "driver/driver.h"
#include "ipc/wire.h"

void tarn__owner_lock(void);
void tarn__owner_unlock(void);

/* --- segment.c: allocations made for export --- */

/* The place of a segment in the table, and its length. */
struct tarn__segment_name {
    uint32_t slot;
    uint64_t generation;
    tarn_device_ptr base;
    size_t bytes;
};

/* Find the segment around an address; false: none. */
bool tarn__segment_around(tarn_device_ptr address, struct tarn__segment_name *out);

/* Open a descriptor of the segment's memory; close it with tarn__descriptor_close().
 * `bytes_out` is its length. TARN_NOT_FOUND: the segment is gone. */
tarn_status tarn__segment_open(uint32_t slot, uint64_t generation, size_t *bytes_out,
                               int *file_out);

size_t tarn__segment_count(void);

/* --- driver_pool.c: blocks of the driver's own pools --- */

/* The name of a block in a driver's pool, and its length. */
struct tarn__driver_pool_block {
    int device;
    uint64_t number; /* the driver's, for this allocation alone */
    tarn_device_ptr base;
    size_t bytes;
};

/* The data that an importer needs besides the pool's descriptor. */
struct tarn__driver_pool_offer {
    uint64_t pool; /* which one it is */
    unsigned char pointer[64];
};

/* In a relaxed scope: find the block around `address`, if that lies in a driver's pool.
 * TARN_NOT_SUPPORTED: it does, but the pool cannot be exported. */
tarn_status tarn__driver_pool_find_block(const struct tarn__calls *calls, int device,
                                         tarn_device_ptr address,
                                         struct tarn__driver_pool_block *out,
                                         bool *is_in_driver_pool_out);

/* Open a descriptor of the block's pool; close it with tarn__descriptor_close().
 * TARN_NOT_FOUND: the block is gone. */
tarn_status tarn__driver_pool_open(const struct tarn__driver_pool_block *name,
                                   struct tarn__driver_pool_offer *offer_out,
                                   int *file_out);

/* --- export_table.c: pointers with a served handle --- */

/* The memory under a share. */
struct tarn__export_memory {
    enum tarn__backing backing; /* which of the three kinds it is */
    struct tarn__segment_name segment;
    struct tarn__driver_pool_block driver_pool;
    unsigned char cuda_handle[64];
};

/* Find the share of the memory of `pointer`, which is no view, or create it. */
tarn_status tarn__export_table_find_or_add(tarn_pointer *pointer,
                                           const struct tarn__export_memory *memory,
                                           uint32_t *slot_out, uint64_t *generation_out);

/* Begin a lease: retain a shared pointer. TARN_NOT_FOUND: it was freed. */
tarn_status tarn__export_table_begin_lease(uint32_t slot, uint64_t generation,
                                           struct tarn__export_memory *memory_out,
                                           tarn_pointer **pointer_out);

/* End a lease. The block returns here if it was freed meanwhile. */
void tarn__export_table_end_lease(tarn_pointer *pointer);

/* Release shares whose pointers have no other references, among the next few; see
 * export_table.c. */
void tarn__export_table_sweep(void);

size_t tarn__export_table_count(void);

/* --- quiesce.c --- */

/* In a relaxed scope: wait until the device has done all work, without ending a capture.
 */
CUresult_ tarn__quiesce_device(const struct tarn__calls *calls);

/* --- server.c --- */

/* Start this process's server, unless it runs, and return its random name. */
tarn_status tarn__server_start(unsigned char name_out[TARN__SERVER_BYTES]);

/* Is `name` this process's own server? */
bool tarn__server_is_ours(const unsigned char name[TARN__SERVER_BYTES]);

#endif
