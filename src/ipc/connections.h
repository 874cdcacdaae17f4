/* connections.h -- the server's connections.
 *
 * Only the server's thread changes the list, under the owner's lock.
 */
#ifndef TARN_IPC_CONNECTIONS_H
#define TARN_IPC_CONNECTIONS_H

#include "ipc/wire.h"
#include <poll.h>

/* Allocate space for `most` connections to the server with that random number. False: no
 * host memory. */
bool tarn__connections_make(size_t most, const unsigned char server[TARN__SERVER_BYTES]);

/* Accept or reject the connections that wait at `listener`. False: one still waits,
 * because the process or the system has no more descriptors. */
bool tarn__connections_accept(int listener);

/* Fill `polls` with one entry per connection, and return their number. */
size_t tarn__connections_poll(struct pollfd *polls);

/* Serve the connections that are ready, by the entries of tarn__connections_poll(), and
 * drop those that were silent for too long. */
void tarn__connections_serve(const struct pollfd *polls, size_t count);

/* Return the time in ms until the next silent connection has to be dropped; -1: none. */
int tarn__connections_due(void);

/* Forget all connections in a child, whose descriptors are closed. */
void tarn__connections_forget(void);

/* The number of answers, and of these the rejections and the dropped connections. */
void tarn__connections_counts(size_t *connections_out, uint64_t *requests_out,
                              uint64_t *rejected_out);

#endif
