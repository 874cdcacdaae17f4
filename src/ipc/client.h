/* client.h -- asking an owner's server what a handle names. */
#ifndef TARN_IPC_CLIENT_H
#define TARN_IPC_CLIENT_H

#include "ipc/wire.h"

/* What an owner gave. */
struct tarn__given {
    struct tarn__reply reply; /* its status is TARN_OK */
    int memory;               /* a descriptor of the segment or pool; -1: there is none */
    int connection;           /* of a lease; -1: it is closed */
};

/* Ask. Both descriptors are to be closed with tarn__file_close(). */
tarn_status tarn__ask_owner(const struct tarn__ticket *ticket, unsigned timeout_ms,
                            struct tarn__given *out);

/* Has the other side of a lease's connection gone? */
bool tarn__owner_is_gone(int connection);

#endif
