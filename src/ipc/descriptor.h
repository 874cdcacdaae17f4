/* descriptor.h -- descriptors that a forked child must not have.
 *
 * A connection is a lease, and a lease ends when the last descriptor of the connection is
 * closed. A child that keeps one unknowingly would prolong it. So each descriptor of this
 * module is created and recorded under one lock. That lock is held over a fork, and the
 * child closes all recorded descriptors.
 */
#ifndef TARN_IPC_DESCRIPTOR_H
#define TARN_IPC_DESCRIPTOR_H

#include "driver/cuda_abi.h"
#include <stdbool.h>
#include <stddef.h>

/* Hold this lock around a call that creates descriptors. The first call installs the fork
 * handlers. */
void tarn__descriptor_lock(void);
void tarn__descriptor_unlock(void);

/* Record `file`, and return it. If that fails, close it and return -1. A `file` of -1 is
 * returned as -1, and its errno stays. `lock` held. */
int tarn__descriptor_record(int file);

/* Call this after a driver call that exports memory or a pool as `file`, with its
 * `result`. On success, set close-on-exec, which the driver may not have set, and record
 * the descriptor. `lock` held, and released. On failure `*out` is unchanged. */
CUresult_ tarn__descriptor_record_exported(CUresult_ result, int file, int *out);

/* Close a descriptor. -1 is allowed. Not under the lock. */
void tarn__descriptor_close(int file);

/* The number of recorded descriptors. */
size_t tarn__descriptor_count(void);

#endif
