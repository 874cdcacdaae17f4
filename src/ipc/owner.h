/* owner.h -- the lock of the owner's side.
 *
 * One lock covers the segments, the export table and the list of connections. It is held
 * for a few instructions, and never over a driver call, a message or a release. It is
 * held over a fork, so that a child finds consistent data. The lock of descriptor.h
 * comes after it.
 */
#ifndef TARN_IPC_OWNER_H
#define TARN_IPC_OWNER_H

#include <pthread.h>

extern pthread_mutex_t tarn__owner_mutex;

void tarn__owner_lock(void);
void tarn__owner_unlock(void);

/* Release the lock, wait for `condition`, and take the lock again. `tarn__owner_mutex`
 * held. */
void tarn__owner_wait(pthread_cond_t *condition);

#endif
