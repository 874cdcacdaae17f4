/* socket_directory.h -- the socket directory: the directory in which the servers of all
 * processes of our user have their sockets. */
#ifndef TARN_IPC_SOCKET_DIRECTORY_H
#define TARN_IPC_SOCKET_DIRECTORY_H

#include "ipc/handle_encoding.h"

/* TARN__SOCKET_NAME, TARN__SOCKET_PATH: the bytes of a socket's name in its directory,
 * and of a path for bind(), with their NUL. */
enum { TARN__SOCKET_DIRECTORIES = 2, TARN__SOCKET_NAME = 64, TARN__SOCKET_PATH = 108 };

/* Open directory number `which` of those that may contain a socket, from 0 on; the server
 * uses the first. It belongs to our user, and no other user may enter. `make`: create it
 * if it does not exist. TARN_NOT_FOUND: there is no directory of that number.
 * TARN_INVALID_ARGUMENT: its path is too long. Close it with tarn__descriptor_close(). */
tarn_status tarn__socket_directory_open(unsigned which, bool make, int *out);

/* The name of a server's socket in its directory. */
void tarn__socket_directory_name(int process,
                                 const unsigned char server[TARN__SERVER_BYTES],
                                 char out[TARN__SOCKET_NAME]);

/* A path for bind() and connect(), which take no directory descriptor. */
void tarn__socket_directory_path(int directory, const char *name,
                                 char out[TARN__SOCKET_PATH]);

/* Remove the sockets of servers whose processes have ended. */
void tarn__socket_directory_sweep(int directory);

#endif
