/* files.h -- descriptors that a forked child must not have.
 *
 * A connection is a lease, and a lease ends when the last descriptor of the connection is
 * closed; a child that keeps one unknowingly would prolong it. So each descriptor of this
 * room is made and noted under one lock, which is held over a fork, and the child closes
 * them all.
 */
#ifndef TARN_IPC_FILES_H
#define TARN_IPC_FILES_H

#include "driver/cuda_abi.h"
#include <stdbool.h>
#include <stddef.h>

/* Around a call that makes descriptors. The first one sees to forks. */
void tarn__files_lock(void);
void tarn__files_unlock(void);

/* Note `file`, under the lock, and return it. Where that fails it is closed, and -1; so is
 * a `file` that is -1 already, whose errno stays. */
int tarn__file_keep(int file);

/* What follows a driver's call that exports memory or a pool as `file`, and said `result`:
 * on success the descriptor is closed on exec from now on, which the driver's need not be,
 * and noted. Under the lock, which is released. On failure `*out` is untouched. */
CUresult_ tarn__file_exported(CUresult_ result, int file, int *out);

/* Close one. -1 is allowed. Not under the lock. */
void tarn__file_close(int file);

/* How many there are. */
size_t tarn__file_count(void);

/* What the owner's side does in a child, once the descriptors are closed: called with its
 * lock held, as tarn__owner_lock() is taken before a fork. */
void tarn__server_forget(void);

#endif
