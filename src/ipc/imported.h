/* imported.h -- blocks of the driver's pools of other processes, imported once each.
 *
 * mapping.c calls all functions, with one block being opened or closed at a time. It
 * calls them in a relaxed scope of the device that is to use the block.
 */
#ifndef TARN_IPC_IMPORTED_H
#define TARN_IPC_IMPORTED_H

#include "driver/driver.h"
#include "ipc/handle_encoding.h"

struct tarn__imported;

/* An owner's offer. */
struct tarn__import_offer {
    struct tarn__handle_encoding encoding; /* plain; names the block */
    int file;                              /* of the pool; the caller's */
    uint64_t pool;                         /* the owner's number for it */
    unsigned char pointer[64];             /* the block, as the pool exports it */
};

/* Import the block for `device`, or use the import that exists already. */
tarn_status tarn__imported_open(const struct tarn__calls *calls, int device,
                                const struct tarn__import_offer *offer,
                                struct tarn__imported **out);

tarn_device_ptr tarn__imported_base(const struct tarn__imported *imported);
size_t tarn__imported_bytes(const struct tarn__imported *imported);

/* Drop one user; the last one releases the block. No work may use it any more. After a
 * failure it is unchanged. */
CUresult_ tarn__imported_close(const struct tarn__calls *calls,
                               struct tarn__imported *imported);

#endif
