/* Test the server's table of connections, without the thread that serves them. */
#define _GNU_SOURCE
#include "test.h"
#include "ipc/connections.h"
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PLACES = 12, CLIENTS = 3 }; /* one process may have a quarter of the places */

static int listener, clients[CLIENTS];

static int new_socket(int flags)
{
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

    if (file < 0)
        abort();
    return file;
}

/* Connect to a listener of this process, at an address that the system chooses. */
static void connect_clients(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr *generic = (struct sockaddr *)(void *)&address;
    socklen_t bytes = sizeof address;

    listener = new_socket(SOCK_NONBLOCK);
    CHECK_EQUAL(0, bind(listener, generic, sizeof address.sun_family));
    CHECK_EQUAL(0, listen(listener, CLIENTS));
    CHECK_EQUAL(0, getsockname(listener, generic, &bytes));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = new_socket(0);
        CHECK_EQUAL(0, connect(clients[i], generic, bytes));
    }
}

static size_t connection_count(void)
{
    uint64_t requests, rejected;
    size_t count;

    tarn__connections_counts(&count, &requests, &rejected);
    return count;
}

TEST(poll_has_one_entry_for_each_connection)
{
    static const unsigned char server[TARN__SERVER_BYTES] = "a server";
    const struct pollfd unused = {.fd = -77, .events = 77, .revents = 77};
    struct pollfd polls[CLIENTS + 1] = {unused, unused, unused, unused};

    CHECK(tarn__connections_make(PLACES, server));
    CHECK_EQUAL(0, tarn__connections_poll(polls));
    CHECK_EQUAL(-77, polls[0].fd);
    connect_clients();
    CHECK(tarn__connections_accept(listener));
    CHECK_EQUAL(CLIENTS, connection_count());
    CHECK_EQUAL(CLIENTS, tarn__connections_poll(polls));
    for (int i = 0; i < CLIENTS; i++)
        CHECK(polls[i].fd >= 0 && polls[i].events == POLLIN && polls[i].revents == 0);
    CHECK(memcmp(&polls[CLIENTS], &unused, sizeof unused) == 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQUAL(0, close(clients[i]));
    CHECK_EQUAL(CLIENTS, poll(polls, CLIENTS, -1));
    tarn__connections_serve(polls, CLIENTS); /* each has ended */
    CHECK_EQUAL(0, connection_count());
    CHECK_EQUAL(0, close(listener));
}
