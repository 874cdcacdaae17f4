/* client.c -- query an owner's server for the memory that a handle names.
 *
 * No call here waits longer than the caller allows, whatever the peer does. The server
 * must run as our own user, just as the server requires of us.
 */
#define _GNU_SOURCE
#include "ipc/client.h"
#include "base/clock.h"
#include "ipc/files.h"
#include "ipc/folder.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { RETRY_NS = 1000000 }; /* pause between tries while the server's queue is full */

static tarn_status gone(const struct tarn__ticket *ticket)
{
    return tarn_error_set(
        TARN_NOT_FOUND,
        "ipc: process %d, the owner of the memory, has ended: its socket has no listener",
        ticket->process);
}

static tarn_status silent(const struct tarn__ticket *ticket, unsigned timeout_ms)
{
    return tarn_error_set(
        TARN_SYSTEM_FAILURE,
        "ipc: process %d, the owner of the memory, did not answer within %u ms",
        ticket->process, timeout_ms);
}

static tarn_status nonsense(const struct tarn__ticket *ticket, const char *what)
{
    return tarn_error_set(
        TARN_SYSTEM_FAILURE,
        "ipc: process %d, the owner of the memory, sent an invalid answer: %s",
        ticket->process, what);
}

static bool is_over(uint64_t deadline_ns)
{
    return tarn__now_ns() >= deadline_ns;
}

/* --- connecting --- */

/* Wait while the queue is full; every other error is final. */
static int connect_until(int connection, const struct sockaddr_un *address,
                         uint64_t deadline_ns)
{
    const struct timespec pause = {0, RETRY_NS};
    const struct sockaddr *generic = (const struct sockaddr *)(const void *)address;

    while (connect(connection, generic, sizeof *address) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (is_over(deadline_ns))
            return ETIMEDOUT;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* An errno. */
static int connect_in(int folder, const struct tarn__ticket *ticket, uint64_t deadline_ns,
                      int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[TARN__SOCKET_NAME];

    tarn__socket_name(ticket->process, ticket->server, name);
    tarn__socket_path(folder, name, address.sun_path);
    tarn__files_lock();
    int connection = tarn__file_keep(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int why = connection < 0 ? errno : 0;
    tarn__files_unlock();
    if (connection >= 0)
        why = connect_until(connection, &address, deadline_ns);
    if (why != 0) {
        tarn__file_close(connection);
        return why;
    }
    *out = connection;
    return 0;
}

/* An owner's environment may name another socket directory than ours, so all are
 * searched. A directory that cannot be used has no socket. TARN_INVALID_ARGUMENT: our
 * environment names no possible directory. */
static tarn_status connect_anywhere(const struct tarn__ticket *ticket,
                                    uint64_t deadline_ns, int *why_out, int *out)
{
    *why_out = ENOENT;
    for (unsigned which = 0; which < TARN__FOLDERS && *why_out == ENOENT; which++) {
        int folder;
        tarn_status status = tarn__folder_open(which, false, &folder);
        if (status == TARN_OK) {
            *why_out = connect_in(folder, ticket, deadline_ns, out);
            tarn__file_close(folder);
        } else if (status == TARN_INVALID_ARGUMENT) {
            return status;
        }
    }
    return TARN_OK;
}

static tarn_status connect_to(const struct tarn__ticket *ticket, uint64_t deadline_ns,
                              unsigned timeout_ms, int *out)
{
    int why, connection = -1;
    tarn_status status = connect_anywhere(ticket, deadline_ns, &why, &connection);

    if (status != TARN_OK)
        return status;
    if (why == ETIMEDOUT)
        return silent(ticket, timeout_ms);
    if (why == ENOENT || why == ECONNREFUSED)
        return gone(ticket);
    if (why != 0)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                     "ipc: cannot connect to process %d: %s",
                                     ticket->process, strerror(why));
    if (!tarn__wire_peer(connection, NULL)) {
        tarn__file_close(connection);
        return nonsense(ticket, "its socket belongs to another user");
    }
    *out = connection;
    return TARN_OK;
}

/* --- the answer --- */

/* Wait until there is something to read. False: not in time. */
static bool wait_for_answer(int connection, uint64_t deadline_ns)
{
    struct pollfd one = {.fd = connection, .events = POLLIN};

    while (!is_over(deadline_ns)) {
        uint64_t left_ms = (deadline_ns - tarn__now_ns()) / 1000000 + 1;
        if (poll(&one, 1, left_ms < 3600000 ? (int)left_ms : 3600000) > 0)
            return true;
    }
    return false;
}

static tarn_status receive(const struct tarn__ticket *ticket, unsigned timeout_ms,
                           uint64_t deadline_ns, struct tarn__given *given)
{
    enum tarn__came came = TARN__CAME_NOTHING;

    while (came == TARN__CAME_NOTHING) {
        if (!wait_for_answer(given->connection, deadline_ns))
            return silent(ticket, timeout_ms);
        came = tarn__wire_receive(given->connection, &given->reply, sizeof given->reply,
                                  &given->memory);
    }
    if (came == TARN__CAME_END)
        return gone(ticket);
    return came == TARN__CAME_WHOLE ? TARN_OK : nonsense(ticket, "wrong length");
}

/* Report the owner's rejection with the owner's own message, made safe for a terminal. */
static tarn_status relay(const struct tarn__ticket *ticket, struct tarn__reply *reply)
{
    tarn_status status = reply->status < TARN_STATUS_COUNT ? (tarn_status)reply->status
                                                           : TARN_SYSTEM_FAILURE;

    reply->words[sizeof reply->words - 1] = '\0';
    for (char *letter = reply->words; *letter; letter++)
        if (*letter < ' ' || *letter > '~')
            *letter = '?';
    return tarn_error_set(status, "ipc: process %d rejected the request: %s",
                          ticket->process, reply->words);
}

static bool is_what_was_asked_for(const struct tarn__ticket *ticket,
                                  const struct tarn__reply *reply)
{
    return reply->backing == tarn__backing_of(ticket) && reply->slot == ticket->slot &&
           reply->generation == ticket->generation && reply->base == ticket->base;
}

static tarn_status check_reply(const struct tarn__ticket *ticket,
                               struct tarn__given *given)
{
    struct tarn__reply *reply = &given->reply;

    if (reply->magic != TARN__WIRE_MAGIC)
        return nonsense(ticket, "not a reply");
    if (reply->status != TARN_OK)
        return relay(ticket, reply);
    if (reply->backing > TARN__BACKING_POOLED ||
        (reply->backing == TARN__BACKING_POOLED) != (reply->base != 0))
        return nonsense(ticket, "an unknown kind of memory");
    if ((reply->backing != TARN__BACKING_CUDA) != (given->memory >= 0))
        return nonsense(ticket, "wrong number of descriptors");
    if (ticket->kind == TARN_IPC_PLAIN && !is_what_was_asked_for(ticket, reply))
        return nonsense(ticket, "a different segment");
    return TARN_OK;
}

/* Exchange request and answer on a connection. */
static tarn_status ask(const struct tarn__ticket *ticket, unsigned timeout_ms,
                       uint64_t deadline_ns, struct tarn__given *given)
{
    struct tarn__request request = {TARN__WIRE_MAGIC, *ticket};

    if (!tarn__wire_send(given->connection, &request, sizeof request, -1))
        return gone(ticket);
    tarn_status status = receive(ticket, timeout_ms, deadline_ns, given);
    return status == TARN_OK ? check_reply(ticket, given) : status;
}

tarn_status tarn__ask_owner(const struct tarn__ticket *ticket, unsigned timeout_ms,
                            struct tarn__given *out)
{
    uint64_t deadline_ns = tarn__now_ns() + (uint64_t)timeout_ms * 1000000;
    struct tarn__given given = {.memory = -1, .connection = -1};
    tarn_status status = tarn__ticket_check_user(ticket);

    if (status == TARN_OK)
        status = connect_to(ticket, deadline_ns, timeout_ms, &given.connection);
    if (status != TARN_OK)
        return status;
    status = ask(ticket, timeout_ms, deadline_ns, &given);
    if (status != TARN_OK || ticket->kind != TARN_IPC_SERVED) {
        tarn__file_close(given.connection);
        given.connection = -1;
    }
    if (status != TARN_OK) {
        tarn__file_close(given.memory);
        return status;
    }
    *out = given;
    return TARN_OK;
}

bool tarn__owner_is_gone(int connection)
{
    struct pollfd one = {.fd = connection, .events = POLLIN};

    return poll(&one, 1, 0) != 0;
}
