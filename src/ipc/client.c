/* client.c -- query an owner's server for the memory that a handle names.
 *
 * No call here waits longer than the caller allows, whatever the peer does. The server
 * must run as our own user, just as the server requires of us.
 */
#define _GNU_SOURCE
#include "ipc/client.h"
#include "base/clock.h"
#include "ipc/descriptor.h"
#include "ipc/socket_directory.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { RETRY_NS = 1000000 }; /* pause between tries while the server's queue is full */

static tarn_status gone(const struct tarn__handle_encoding *encoding)
{
    return tarn_error_set_native(
        TARN_NOT_FOUND, ECONNREFUSED,
        "ipc: process %d, the owner of the memory, has ended: its socket has no listener",
        encoding->process);
}

static tarn_status silent(const struct tarn__handle_encoding *encoding,
                          unsigned timeout_ms)
{
    return tarn_error_set(
        TARN_SYSTEM_FAILURE,
        "ipc: process %d, the owner of the memory, did not answer within %u ms",
        encoding->process, timeout_ms);
}

static tarn_status invalid_answer(const struct tarn__handle_encoding *encoding,
                                  const char *what)
{
    return tarn_error_set(
        TARN_SYSTEM_FAILURE,
        "ipc: process %d, the owner of the memory, sent an invalid answer: %s",
        encoding->process, what);
}

static bool is_over(uint64_t deadline_ns)
{
    return tarn__clock_now_ns() >= deadline_ns;
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
static int connect_in(int directory, const struct tarn__handle_encoding *encoding,
                      uint64_t deadline_ns, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[TARN__SOCKET_NAME];

    tarn__socket_directory_name(encoding->process, encoding->server, name);
    tarn__socket_directory_path(directory, name, address.sun_path);
    tarn__descriptor_lock();
    int connection = tarn__descriptor_record(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int why = connection < 0 ? errno : 0;
    tarn__descriptor_unlock();
    if (connection >= 0)
        why = connect_until(connection, &address, deadline_ns);
    if (why != 0) {
        tarn__descriptor_close(connection);
        return why;
    }
    *out = connection;
    return 0;
}

/* An owner's environment may name another socket directory than ours, so all are
 * searched. A directory that cannot be used has no socket. TARN_INVALID_ARGUMENT: our
 * environment names no possible directory. */
static tarn_status connect_anywhere(const struct tarn__handle_encoding *encoding,
                                    uint64_t deadline_ns, int *why_out, int *out)
{
    *why_out = ENOENT;
    for (unsigned which = 0; which < TARN__SOCKET_DIRECTORIES && *why_out == ENOENT;
         which++) {
        int directory;
        tarn_status status = tarn__socket_directory_open(which, false, &directory);
        if (status == TARN_OK) {
            *why_out = connect_in(directory, encoding, deadline_ns, out);
            tarn__descriptor_close(directory);
        } else if (status == TARN_INVALID_ARGUMENT) {
            return status;
        }
    }
    return TARN_OK;
}

static tarn_status connect_to(const struct tarn__handle_encoding *encoding,
                              uint64_t deadline_ns, unsigned timeout_ms, int *out)
{
    int why, connection = -1;
    tarn_status status = connect_anywhere(encoding, deadline_ns, &why, &connection);

    if (status != TARN_OK)
        return status;
    if (why == ETIMEDOUT)
        return silent(encoding, timeout_ms);
    if (why == ENOENT || why == ECONNREFUSED)
        return gone(encoding);
    if (why != 0)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                     "ipc: cannot connect to process %d: %s",
                                     encoding->process, strerror(why));
    if (!tarn__wire_peer(connection, NULL)) {
        tarn__descriptor_close(connection);
        return invalid_answer(encoding, "its socket belongs to another user");
    }
    *out = connection;
    return TARN_OK;
}

/* --- the answer --- */

/* Wait until there is something to read. False: not in time. poll() fails while
 * RLIMIT_NOFILE is 0: then the caller tries to read, once in a millisecond. */
static bool wait_for_answer(int connection, uint64_t deadline_ns)
{
    struct pollfd one = {.fd = connection, .events = POLLIN};

    while (!is_over(deadline_ns)) {
        uint64_t left_ms = (deadline_ns - tarn__clock_now_ns()) / 1000000 + 1;
        int ready = poll(&one, 1, left_ms < 3600000 ? (int)left_ms : 3600000);
        if (ready < 0 && errno != EINTR)
            ready = 1 + poll(NULL, 0, 1);
        if (ready > 0)
            return true;
    }
    return false;
}

static tarn_status receive(const struct tarn__handle_encoding *encoding,
                           unsigned timeout_ms, uint64_t deadline_ns,
                           struct tarn__client_answer *answer)
{
    enum tarn__wire_result came = TARN__WIRE_NOTHING;

    while (came == TARN__WIRE_NOTHING) {
        if (!wait_for_answer(answer->connection, deadline_ns))
            return silent(encoding, timeout_ms);
        came = tarn__wire_receive(answer->connection, &answer->reply,
                                  sizeof answer->reply, &answer->memory);
    }
    if (came == TARN__WIRE_END)
        return gone(encoding);
    return came == TARN__WIRE_WHOLE ? TARN_OK : invalid_answer(encoding, "wrong length");
}

/* Report the owner's rejection with the owner's own message, made safe for a terminal. */
static tarn_status relay(const struct tarn__handle_encoding *encoding,
                         struct tarn__wire_reply *reply)
{
    tarn_status status = reply->status < TARN_STATUS_COUNT ? (tarn_status)reply->status
                                                           : TARN_SYSTEM_FAILURE;

    reply->message[sizeof reply->message - 1] = '\0';
    for (char *letter = reply->message; *letter; letter++)
        if (*letter < ' ' || *letter > '~')
            *letter = '?';
    return tarn_error_set(status, "ipc: process %d rejected the request: %s",
                          encoding->process, reply->message);
}

static bool is_requested_memory(const struct tarn__handle_encoding *encoding,
                                const struct tarn__wire_reply *reply)
{
    return reply->backing == tarn__wire_backing_of(encoding) &&
           reply->slot == encoding->slot && reply->generation == encoding->generation &&
           reply->base == encoding->base;
}

static tarn_status check_reply(const struct tarn__handle_encoding *encoding,
                               struct tarn__client_answer *answer)
{
    struct tarn__wire_reply *reply = &answer->reply;

    if (reply->magic != TARN__WIRE_MAGIC)
        return invalid_answer(encoding, "not a reply");
    if (reply->status != TARN_OK)
        return relay(encoding, reply);
    if (reply->backing > TARN__BACKING_DRIVER_POOL ||
        (reply->backing == TARN__BACKING_DRIVER_POOL) != (reply->base != 0))
        return invalid_answer(encoding, "an unknown kind of memory");
    if ((reply->backing != TARN__BACKING_CUDA) != (answer->memory >= 0))
        return invalid_answer(encoding, "wrong number of descriptors");
    if (encoding->kind == TARN_IPC_PLAIN && !is_requested_memory(encoding, reply))
        return invalid_answer(encoding, "a different segment");
    return TARN_OK;
}

/* Exchange request and answer on a connection. */
static tarn_status ask(const struct tarn__handle_encoding *encoding, unsigned timeout_ms,
                       uint64_t deadline_ns, struct tarn__client_answer *answer)
{
    struct tarn__wire_request request = {TARN__WIRE_MAGIC, *encoding};

    if (!tarn__wire_send(answer->connection, &request, sizeof request, -1))
        return gone(encoding);
    tarn_status status = receive(encoding, timeout_ms, deadline_ns, answer);
    return status == TARN_OK ? check_reply(encoding, answer) : status;
}

tarn_status tarn__client_query_owner(const struct tarn__handle_encoding *encoding,
                                     unsigned timeout_ms, struct tarn__client_answer *out)
{
    uint64_t deadline_ns = tarn__clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct tarn__client_answer answer = {.memory = -1, .connection = -1};
    tarn_status status = tarn__handle_encoding_check_user(encoding);

    if (status == TARN_OK)
        status = connect_to(encoding, deadline_ns, timeout_ms, &answer.connection);
    if (status != TARN_OK)
        return status;
    status = ask(encoding, timeout_ms, deadline_ns, &answer);
    if (status != TARN_OK || encoding->kind != TARN_IPC_SERVED) {
        tarn__descriptor_close(answer.connection);
        answer.connection = -1;
    }
    if (status != TARN_OK) {
        tarn__descriptor_close(answer.memory);
        return status;
    }
    *out = answer;
    return TARN_OK;
}

bool tarn__client_owner_is_gone(int connection)
{
    char byte;

    return recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}
