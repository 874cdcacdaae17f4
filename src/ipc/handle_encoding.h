/* handle_encoding.h -- handle encoding: the 64 bytes that name a server instead of a
 * CUDA handle.
 */
#ifndef TARN_IPC_HANDLE_ENCODING_H
#define TARN_IPC_HANDLE_ENCODING_H

#include <tarn/ipc.h>

enum { TARN__SERVER_BYTES = 16 };

/* Native byte order: a handle means nothing on another machine. */
struct tarn__handle_encoding {
    unsigned char magic[8];
    uint32_t kind;   /* a tarn_ipc_kind */
    int32_t process; /* the owner's, for messages only: process ids are reused */
    uint32_t user;   /* the owner's effective user */
    uint32_t slot;   /* the slot of the memory in the owner's table; of a block of a
                      * driver's pool: its device */
    unsigned char server[TARN__SERVER_BYTES]; /* random; names the socket */
    uint64_t generation; /* of the slot, or the driver's number for the block; neither is
                            used twice in a process */
    uint64_t base;       /* of a block of a driver's pool: its address; else 0 */
    uint64_t check;      /* checksum of all fields before it */
};
_Static_assert(sizeof(struct tarn__handle_encoding) == 64,
               "a handle is as long as a CUDA handle");

/* Fill in magic and check. */
void tarn__handle_encoding_seal(struct tarn__handle_encoding *encoding);

/* A checksum of `bytes` bytes, a multiple of 8: it tells bytes that were cut off or mixed
 * up. */
uint64_t tarn__handle_encoding_checksum(const void *data, size_t bytes);

/* Do these bytes claim to be such a handle? If not, they are a CUDA handle. */
bool tarn__handle_encoding_has_magic(const unsigned char bytes[64]);

/* Decode bytes that claim to be such a handle; TARN_INVALID_ARGUMENT where they are
 * garbage or of another version. */
tarn_status tarn__handle_encoding_decode(const unsigned char bytes[64],
                                         struct tarn__handle_encoding *out);

/* Fail with TARN_INVALID_ARGUMENT where the handle belongs to another user. */
tarn_status tarn__handle_encoding_check_user(
    const struct tarn__handle_encoding *encoding);

#endif
