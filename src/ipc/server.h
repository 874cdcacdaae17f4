/* server.h -- the thread that answers importers' requests. */
#ifndef TARN_IPC_SERVER_H
#define TARN_IPC_SERVER_H

#include "ipc/handle_encoding.h"

/* Start this process's server, unless it runs. `name_out` gets its random number, which
 * handles carry. */
tarn_status tarn__server_start(unsigned char name_out[TARN__SERVER_BYTES]);

/* Return true if `name` is the random number of this process's own server. */
bool tarn__server_is_ours(const unsigned char name[TARN__SERVER_BYTES]);

#endif
