/* wire.h -- the protocol between an importer and an owner's server.
 *
 * One message goes each way, of fixed size, on a socket that keeps messages apart. A
 * message that is too short, too long or cut off is detected. The importer sends its
 * request. The server answers with the kind of memory. Unless that has a CUDA handle, the
 * answer carries one descriptor: of the segment, or of the driver's pool that the block
 * is in. A connection on which a served handle was requested stays open: it is the lease.
 * It carries no further message.
 */
#ifndef TARN_IPC_WIRE_H
#define TARN_IPC_WIRE_H

#include "ipc/handle_encoding.h"

#define TARN__WIRE_MAGIC UINT64_C(0x3272657369706374)

struct tarn__wire_request {
    uint64_t magic;
    struct tarn__handle_encoding encoding; /* as the handle has it */
};

enum tarn__backing {
    TARN__BACKING_SEGMENT = 0,
    TARN__BACKING_CUDA = 1,
    TARN__BACKING_DRIVER_POOL = 2, /* a block of a driver's pool */
    TARN__BACKING_FABRIC = 3       /* a fabric handle; never in a reply */
};

/* The kind of memory that a plain handle names. */
static inline enum tarn__backing tarn__wire_backing_of(
    const struct tarn__handle_encoding *encoding)
{
    return encoding->base ? TARN__BACKING_DRIVER_POOL : TARN__BACKING_SEGMENT;
}

struct tarn__wire_reply {
    uint64_t magic;
    uint32_t status;  /* a tarn_status; the fields after it are valid for TARN_OK alone */
    uint32_t backing; /* a tarn__backing */
    uint32_t slot;    /* these three as in a plain handle */
    uint32_t zero;
    uint64_t generation;
    uint64_t base;
    uint64_t bytes;            /* of the segment */
    uint64_t pool;             /* the pool's number, which the owner uses once */
    unsigned char pointer[64]; /* the allocation's CUDA handle; the block, as its pool
                                  exports it */
    char message[136];         /* where status is not TARN_OK; terminated */
};
_Static_assert(sizeof(struct tarn__wire_request) == 72, "no padding");
_Static_assert(sizeof(struct tarn__wire_reply) == 256, "no padding");

/* The result of receiving: a message that fills `message` exactly, nothing yet, or the
 * end. */
enum tarn__wire_result {
    TARN__WIRE_WHOLE,
    TARN__WIRE_NOTHING,
    TARN__WIRE_END,
    TARN__WIRE_WRONG
};

/* Receive without waiting. The first descriptor of the message goes to `*file_out`, where
 * that is not NULL; without one that is -1. All others are closed, also that of a wrong
 * message. */
enum tarn__wire_result tarn__wire_receive(int connection, void *message, size_t bytes,
                                          int *file_out);

/* Send without waiting, with a descriptor unless that is -1. False: the peer is gone or
 * does not read; errno tells which. */
bool tarn__wire_send(int connection, const void *message, size_t bytes, int file);

/* Is the peer a process of our own user? `*process_out` (may be NULL) is its process id.
 */
bool tarn__wire_peer(int connection, int *process_out);

#endif
