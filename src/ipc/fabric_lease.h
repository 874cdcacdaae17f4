/* fabric_lease.h -- leases of importers that send messages, in the owner. */
#ifndef TARN_IPC_FABRIC_LEASE_H
#define TARN_IPC_FABRIC_LEASE_H

#include "ipc/fabric_encoding.h"

/* Begin a lease, or find the one of an earlier request with the same number. The reply
 * gets the secret. TARN_NOT_FOUND: the block was freed. */
tarn_status tarn__fabric_lease_begin(const struct tarn__fabric_message *request,
                                     struct tarn__fabric_message *reply);

/* Begin the time of a lease again. TARN_NOT_FOUND: there is no such lease. */
tarn_status tarn__fabric_lease_renew(const struct tarn__fabric_message *request);

/* End a lease. One that has ended already has ended. */
void tarn__fabric_lease_end(const struct tarn__fabric_message *request);

/* End the leases whose time is over. */
void tarn__fabric_lease_sweep(void);

/* Return the number of leases, and store the first `capacity` of them.
 * `tarn__owner_mutex` held. */
size_t tarn__fabric_lease_list(tarn_ipc_lease *out, size_t capacity);

#endif
