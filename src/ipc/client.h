/* client.h -- query an owner's server for the memory that a handle names. */
#ifndef TARN_IPC_CLIENT_H
#define TARN_IPC_CLIENT_H

#include "ipc/wire.h"

/* The owner's answer. */
struct tarn__client_answer {
    struct tarn__wire_reply reply; /* its status is TARN_OK */
    int memory;     /* a descriptor of the segment or pool; -1: there is none */
    int connection; /* of a lease; -1: it is closed */
};

/* Query the owner. Close both descriptors with tarn__descriptor_close(). */
tarn_status tarn__client_query_owner(const struct tarn__handle_encoding *encoding,
                                     unsigned timeout_ms,
                                     struct tarn__client_answer *out);

/* Has the other side of a lease's connection gone? */
bool tarn__client_owner_is_gone(int connection);

#endif
