/* server.h -- the server's connections, shared between its two files. */
#ifndef TARN_IPC_SERVER_H
#define TARN_IPC_SERVER_H

#include "ipc/wire.h"
#include <poll.h>

struct tarn__connection {
    int file;
    int process;          /* the peer's process id, as the system reports it */
    uint64_t since_ns;    /* when it connected; of a lease: when that began */
    tarn_pointer *leased; /* with a reference; NULL: no request yet */
    tarn_device_ptr
        address; /* of `leased`, for reports: that pointer may end before the lease */
    size_t bytes;
};

/* --- connections.c: only the server's thread changes the list, under the owner's lock
 * --- */

/* Allocate space for `most` connections. False: no host memory. */
bool tarn__connections_make(size_t most);

/* Accept or reject all connections that wait at `listener`. False: the system has no more
 * descriptors. */
bool tarn__connections_accept(int listener);

/* Fill `polls` with one entry per connection, and return their number. */
size_t tarn__connections_poll(struct pollfd *polls);

/* Serve the connections that are ready, by the entries of tarn__connections_poll(), and
 * drop those that were silent for too long. */
void tarn__connections_serve(const struct pollfd *polls, size_t count);

/* In ms: when the next silent connection is due; -1: none. */
int tarn__connections_due(void);

/* Forget all connections in a child, whose descriptors are closed. */
void tarn__connections_forget(void);

/* The number of answers, and of these the rejections and the dropped connections. */
void tarn__connections_counts(size_t *connections_out, uint64_t *requests_out,
                              uint64_t *rejected_out);

#endif
