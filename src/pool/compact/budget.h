/* budget.h -- how much memory a pool may still obtain. */
#ifndef TARN_POOL_BUDGET_H
#define TARN_POOL_BUDGET_H

#include "pool/pool.h"

/* Return the headroom: the bytes left below the limit, and with VMM below the memory of
 * the device. `lock` held. */
uint64_t tarn__budget_headroom(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Fail with a message: `bytes` more exceed the headroom. */
tarn_status tarn__budget_fail(const struct tarn__pool *pool, uint64_t bytes)
    TARN__REQUIRES(growth);
/* Note the reserved bytes after a growth. `lock` held. */
void tarn__budget_note_peaks(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

#endif
