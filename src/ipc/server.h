/* server.h -- the server's connections, shared between its two files. */
#ifndef TARN_IPC_SERVER_H
#define TARN_IPC_SERVER_H

#include "ipc/wire.h"
#include <poll.h>

struct tarn__connection {
    int file;
    int process;          /* the peer's, as the system says */
    uint64_t since_ns;    /* when it came; of a lease: when that began */
    tarn_pointer *leased; /* with a reference; NULL: it has not asked yet */
    tarn_device_ptr
        address; /* of `leased`, for reports: it may go before the lease does */
    size_t bytes;
};

/* --- connections.c: only the server's thread changes the list, under tarn__owner_lock() */

/* Make room for `most` connections. False: no host memory. */
bool tarn__connections_make(size_t most);

/* Take in all that wait at `listener`, or refuse them. False: the system has no more
 * descriptors. */
bool tarn__connections_accept(int listener);

/* Fill `polls` with one entry a connection, and say how many. */
size_t tarn__connections_poll(struct pollfd *polls);

/* Serve those that have something to say, by the entries of tarn__connections_poll(), and
 * drop those that were silent for too long. */
void tarn__connections_serve(const struct pollfd *polls, size_t count);

/* In ms: when the next silent one is due; -1: none. */
int tarn__connections_due(void);

/* Forget all, in a child, whose descriptors are closed. */
void tarn__connections_forget(void);

/* Answers given, and of these the refusals and the connections that were dropped. */
void tarn__connections_counts(size_t *connections_out, uint64_t *requests_out,
                              uint64_t *refused_out);

#endif
