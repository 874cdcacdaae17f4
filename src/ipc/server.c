/* server.c -- the server: a thread that answers importers' requests for the memory of
 * handles.
 *
 * The thread starts with the first handle that needs it and stays until the process ends.
 * Two values identify a server:
 *
 *    server.server    its random number, of TARN__SERVER_BYTES bytes. Each handle that
 *                     needs the server carries it. A later process with the same process
 *                     id has another number.
 *    server.name      the file name of its socket: the process id, a hyphen and the
 *                     random number
 *
 * A forked child has a copy of both. There `runs` is false, so the child does not take
 * itself for the server (tarn__server_is_ours()).
 *
 * The socket is a file in the socket directory, which only our user may enter
 * (socket_directory.h). The process removes it at exit. A process that is killed leaves
 * it there, and the next server that starts removes it (tarn__socket_directory_sweep()).
 */
#define _GNU_SOURCE
#include "ipc/server.h"
#include "base/mutex_assert.h"
#include "base/thread.h"
#include "base/warn.h"
#include "ipc/connections.h"
#include "ipc/descriptor.h"
#include "ipc/export_table.h"
#include "ipc/socket_directory.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* QUEUED: the most connections that the system holds until the server accepts them.
 * FEWEST, MOST: the maximum number of connections lies between them. PAUSE_MS: the time
 * to the next attempt after the system lacked something, see run(). */
enum { QUEUED = 128, FEWEST = 32, MOST = 4096, PAUSE_MS = 50 };

static struct {
    pthread_mutex_t start; /* one start at a time */
    atomic_bool runs;      /* the thread runs, and the fields below are set */
    int process;           /* id of the process that started the thread */
    /* descriptors of the socket directory and of the listening socket; -1: not open */
    int directory, listener;
    /* for poll(): the entry of the listener, then those of the connections */
    struct pollfd *polls;
    char name[TARN__SOCKET_NAME];             /* file name of the socket */
    unsigned char server[TARN__SERVER_BYTES]; /* the random number that handles carry */
} server = {.start = PTHREAD_MUTEX_INITIALIZER, .directory = -1, .listener = -1};

/* `name` is a random number, not the name of a socket. */
bool tarn__server_is_ours(const unsigned char name[TARN__SERVER_BYTES])
{
    return atomic_load(&server.runs) &&
           memcmp(name, server.server, sizeof server.server) == 0;
}

/* Forget the server in a forked child. The thread does not exist there, and descriptor.c
 * closes the descriptors. Another thread may have held `start` at the fork, and the child
 * can then never take it. It does not try: an export fails before that, since the driver
 * cannot be called in a forked child (export.c). */
static void forget(void)
{
    atomic_store(&server.runs, false);
    server.directory = server.listener = -1;
    tarn__connections_forget();
}

/* Remove the socket by the directory's descriptor: the path of the directory may name
 * another directory or a link by now. If exit begins before `runs` is set, the socket
 * stays, and the next server that starts removes it. */
static void remove_socket(void)
{
    if (atomic_load(&server.runs) && server.process == (int)getpid())
        unlinkat(server.directory, server.name, 0);
}

/* --- the thread --- */

/* Wait for connections without poll(), which has failed. poll() fails while RLIMIT_NOFILE
 * is below the number of entries, as the program can lower it at any time, and while the
 * system lacks memory. Every connection counts as ready: a receive from a connection
 * without a message does nothing. The first failure warns. */
static void pause_instead(struct pollfd *polls, size_t count, int why)
{
    static bool has_warned;
    struct rlimit limit = {.rlim_cur = 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (!has_warned)
        tarn__warn("ipc: poll() of %zu descriptors failed: %s (RLIMIT_NOFILE is %llu); "
                   "the server looks at its connections every %d ms until it succeeds",
                   count + 1, strerror(why), (unsigned long long)limit.rlim_cur,
                   PAUSE_MS);
    has_warned = true;
    poll(NULL, 0, PAUSE_MS);
    for (size_t i = 0; i < count; i++)
        polls[i].revents = POLLIN;
}

/* Serve connections until the process ends.
 *
 * `due` is the time in ms until the next silent connection without a lease has to be
 * dropped; -1: there is none. A connection is silent that got no lease within four
 * seconds (connections.c). The sweep releases exported blocks that have no other
 * references.
 *
 * `rests` is true while a connection waits at the listener and the process has no
 * descriptor for it. The next poll() then ignores the listener, and lasts at most
 * PAUSE_MS. Otherwise it would return immediately again and again. Afterwards the thread
 * tries to accept the connection again. */
static void *run(void *unused)
{
    bool rests = false;

    (void)unused;
    for (;;) {
        size_t count = tarn__connections_poll(server.polls + 1);
        int due = tarn__connections_due();

        server.polls[0] = (struct pollfd){rests ? -1 : server.listener, POLLIN, 0};
        if (rests && (due < 0 || due > PAUSE_MS))
            due = PAUSE_MS;
        if (poll(server.polls, count + 1, due) < 0)
            pause_instead(server.polls + 1, count, errno);
        tarn__connections_serve(server.polls + 1, count);
        rests = !tarn__connections_accept(server.listener);
        tarn__export_table_sweep();
    }
    return NULL; /* not reached */
}

static tarn_status start_thread(void)
{
    pthread_t thread;
    int why = tarn__thread_start(&thread, run, NULL);

    if (why != 0)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                     "ipc: cannot create the server thread: %s",
                                     strerror(why));
    pthread_detach(thread);
    return TARN_OK;
}

/* --- the socket --- */

/* Fail with the message of errno, which is also the native error code. */
static tarn_status failed(const char *what)
{
    int why = errno;

    return tarn_error_set_native(TARN_SYSTEM_FAILURE, why, "ipc: cannot %s: %s", what,
                                 strerror(why));
}

/* Bind the socket and make it listen, in three steps:
 *
 *    bind      under the socket's name with a dot in front
 *    listen
 *    rename    to the name without the dot
 *
 * Another server that starts meanwhile removes sockets at which no process listens. It
 * leaves a name with a dot as long as the process exists (socket_directory.c). After a
 * failure of the last two steps this function removes that name. */
static tarn_status listen_at(int listener)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct sockaddr *generic = (const struct sockaddr *)(const void *)&address;
    char new_name[TARN__SOCKET_NAME + 1];

    snprintf(new_name, sizeof new_name, ".%s", server.name);
    tarn__socket_directory_path(server.directory, new_name, address.sun_path);
    if (bind(listener, generic, sizeof address) != 0)
        return failed("bind a socket");
    if (listen(listener, QUEUED) == 0 &&
        renameat(server.directory, new_name, server.directory, server.name) == 0)
        return TARN_OK;
    tarn_status status = failed("listen on a socket");
    unlinkat(server.directory, new_name, 0);
    return status;
}

/* Create the socket, and make it listen. The descriptor is created and recorded under one
 * lock, so that a forked child closes it (descriptor.h). */
static tarn_status open_socket(void)
{
    tarn__descriptor_lock();
    int listener = tarn__descriptor_record(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    tarn__descriptor_unlock();
    if (listener < 0)
        return failed("create a socket");
    tarn_status status = listen_at(listener);
    if (status != TARN_OK) {
        tarn__descriptor_close(listener);
        return status;
    }
    server.listener = listener;
    return TARN_OK;
}

static void close_socket(void)
{
    unlinkat(server.directory, server.name, 0);
    tarn__descriptor_close(server.listener);
    server.listener = -1;
}

/* --- starting --- */

/* Return the maximum number of open connections: half of the descriptors that the process
 * may have, but at least FEWEST and at most MOST. */
static size_t most_connections(void)
{
    struct rlimit limit = {.rlim_cur = 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur / 2 < FEWEST)
        return FEWEST;
    return limit.rlim_cur / 2 < MOST ? (size_t)limit.rlim_cur / 2 : MOST;
}

/* Allocate the tables of connections and of poll() entries. */
static tarn_status make_tables(void)
{
    size_t most = most_connections();
    struct pollfd *polls = calloc(most + 1, sizeof *polls);

    if (!polls || !tarn__connections_make(most, server.server)) {
        free(polls);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "ipc: no host memory for %zu connections", most);
    }
    free(server.polls);
    server.polls = polls;
    return TARN_OK;
}

/* Remove the sockets of processes that have ended, open ours, and start the thread. */
static tarn_status open_and_run(void)
{
    tarn__socket_directory_sweep(server.directory);
    tarn_status status = open_socket();
    if (status != TARN_OK)
        return status;
    status = start_thread();
    if (status != TARN_OK)
        close_socket();
    return status;
}

/* Start the server; `start` held. Other threads read the fields that this function sets
 * only once `runs` is true. The server's own thread reads them from its start on; they
 * are complete by then. */
static tarn_status start(void)
{
    tarn__assert_mutex_held(&server.start);

    if (getrandom(server.server, sizeof server.server, 0) !=
        (ssize_t)sizeof server.server)
        return failed("get a random name");
    server.process = (int)getpid();
    tarn__socket_directory_name(server.process, server.server, server.name);
    tarn_status status = make_tables();
    if (status == TARN_OK)
        status = tarn__socket_directory_open(0, true, &server.directory);
    if (status != TARN_OK)
        return status;
    status = open_and_run();
    if (status != TARN_OK) {
        tarn__descriptor_close(server.directory);
        server.directory = -1;
        return status;
    }
    atomic_store(&server.runs, true);
    return TARN_OK;
}

tarn_status tarn__server_start(unsigned char name_out[TARN__SERVER_BYTES])
{
    static bool has_exit_handler, has_fork_handler;
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&server.start);
    if (!has_exit_handler)
        has_exit_handler = atexit(remove_socket) == 0;
    if (!has_fork_handler)
        has_fork_handler = pthread_atfork(NULL, NULL, forget) == 0;
    if (!atomic_load(&server.runs))
        status = start();
    if (status == TARN_OK)
        memcpy(name_out, server.server, sizeof server.server);
    pthread_mutex_unlock(&server.start);
    return status;
}
