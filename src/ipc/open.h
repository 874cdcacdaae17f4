/* open.h -- opening a block by its fabric handle. */
#ifndef TARN_IPC_OPEN_H
#define TARN_IPC_OPEN_H

#include "ipc/fabric_encoding.h"

/* Map the allocation, or find its mapping, and make a pointer to the block. */
tarn_status tarn__open_fabric(const struct tarn__fabric_encoding *encoding, int device,
                              tarn_pointer **out);

#endif
