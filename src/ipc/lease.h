/* lease.h -- leases that this process has on blocks of others. */
#ifndef TARN_IPC_LEASE_H
#define TARN_IPC_LEASE_H

#include "ipc/descriptor.h"
#include "ipc/mapping.h"

struct tarn__lease;

/* Retain an existing lease and its mapping; both stay NULL where there is none.
 * TARN_NOT_FOUND: there is one, but its owner has gone. */
tarn_status tarn__lease_find(const struct tarn__handle_encoding *encoding, int device,
                             struct tarn__mapping **mapping_out,
                             struct tarn__lease **lease_out);

/* Create a lease that owns `connection` from now on, in any case. It is for a block in
 * the memory that `origin` names. Two threads that open at once get one each. */
tarn_status tarn__lease_make(const struct tarn__handle_encoding *encoding, int device,
                             int connection, const struct tarn__origin *origin,
                             struct tarn__lease **out);

/* Drop one reference; the last one ends the lease. NULL is allowed. */
void tarn__lease_release(struct tarn__lease *lease);

#endif
