/* export_table.h -- pointers with a served handle, and leases on them. */
#ifndef TARN_IPC_EXPORT_TABLE_H
#define TARN_IPC_EXPORT_TABLE_H

#include "ipc/driver_pool.h"
#include "ipc/segment.h"
#include "ipc/wire.h"

/* The memory of an entry: of the block that its pointer has. */
struct tarn__export_memory {
    enum tarn__backing backing; /* which of the three kinds it is */
    struct tarn__segment_name segment;
    struct tarn__driver_pool_block driver_pool;
    unsigned char cuda_handle[64];
};

/* Find the entry of the memory of `pointer`, which is no view, or create it. */
tarn_status tarn__export_table_find_or_add(tarn_pointer *pointer,
                                           const struct tarn__export_memory *memory,
                                           uint32_t *slot_out, uint64_t *generation_out);

/* Begin a lease: retain a shared pointer. TARN_NOT_FOUND: it was freed. */
tarn_status tarn__export_table_begin_lease(uint32_t slot, uint64_t generation,
                                           struct tarn__export_memory *memory_out,
                                           tarn_pointer **pointer_out);

/* End a lease. The block returns here if it was freed meanwhile. */
void tarn__export_table_end_lease(tarn_pointer *pointer);

/* Release entries whose pointers have no other references. A call looks at a few entries,
 * and the next call at those after them. */
void tarn__export_table_sweep(void);

size_t tarn__export_table_count(void);

#endif
