/* owner.h -- the lock of the owner's side.
 *
 * One lock covers the segments, the export table and the list of connections. It is held
 * for a few instructions, and never over a driver call, a message or a release. No thread
 * takes it together with the lock of descriptor.h.
 */
#ifndef TARN_IPC_OWNER_H
#define TARN_IPC_OWNER_H

#include "base/mutex.h"
#include <pthread.h>

extern struct tarn__mutex tarn__owner_mutex;

void tarn__owner_lock(void);
void tarn__owner_unlock(void);

/* Release the lock, wait for `condition`, and take the lock again. `tarn__owner_mutex`
 * held. */
void tarn__owner_wait(pthread_cond_t *condition);

#endif
