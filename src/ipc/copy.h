/* copy.h -- copy a block to another device. */
#ifndef TARN_IPC_COPY_H
#define TARN_IPC_COPY_H

#include <tarn/pointer.h>

/* Copy all of `from` to `to`, which is as long, and wait until the copy is done. */
tarn_status tarn__copy_between(const tarn_pointer *from, const tarn_pointer *to);

#endif
