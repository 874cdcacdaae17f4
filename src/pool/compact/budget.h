/* budget.h -- how much memory a pool may still obtain, and how much time moves may
 * take. */
#ifndef TARN_POOL_BUDGET_H
#define TARN_POOL_BUDGET_H

#include "pool/order/caller.h"

/* Return the headroom: the bytes left below the limit, and with VMM below the memory of
 * the device. `lock` held. */
uint64_t tarn__budget_headroom(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Fail with a message: `bytes` more exceed the headroom. */
tarn_status tarn__budget_fail(const struct tarn__pool *pool, uint64_t bytes)
    TARN__REQUIRES(growth);
/* Note the reserved bytes after a growth. `lock` held. */
void tarn__budget_note_peaks(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* In a scope: set `*free_out` to the free bytes of the device, and `*scarce_out` to the
 * bytes below which its memory is scarce. Returns false if the driver does not answer. */
bool tarn__budget_query_device(struct tarn__pool *pool, const struct tarn__scope *scope,
                               uint64_t *free_out, uint64_t *scarce_out);

/* --- moves --- */

/* Count moved handles against the budget of moves. `lock` held. */
void tarn__budget_note_move(struct tarn__pool *pool, unsigned handles)
    TARN__REQUIRES(pool_lock);
/* Return true if the budget of moves is spent, and the pool can grow for the request
 * instead: it has no maximum below the device's memory, and the device has room.
 * `growth` held. */
bool tarn__budget_is_spent(const struct tarn__caller *caller,
                           const struct tarn__request *request) TARN__REQUIRES(growth);
/* Note the bytes by which the pool grew instead of moving. The growth pays for moves.
 * `lock` held. */
void tarn__budget_note_growth(struct tarn__pool *pool, uint64_t bytes)
    TARN__REQUIRES(pool_lock);
/* Release as much idle memory as the pool obtained instead of moving, once the device has
 * little room. `growth` held. */
void tarn__budget_release_excess(const struct tarn__caller *caller)
    TARN__REQUIRES(growth);

#endif
