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

void tarn__owner_lock(void);
void tarn__owner_unlock(void);

/* Under the lock: release it, wait for `condition`, and take it again. */
void tarn__owner_wait(pthread_cond_t *condition);

#endif
