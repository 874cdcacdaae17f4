/* Test the server's table of connections, without the thread that serves them. */
#define _GNU_SOURCE
#include "test.h"
#include "ipc/connections.h"
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS = 3, MANY = 100 };

static int listener, clients[MANY];

static int new_socket(int flags)
{
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

    if (file < 0)
        abort();
    return file;
}

/* One process may have a quarter of the places. */
static void make_places_for(size_t count)
{
    static const unsigned char server[TARN__SERVER_BYTES] = "a server";

    CHECK(tarn__connections_make(4 * count, server));
}

/* Connect to a listener of this process, at an address that the system chooses. */
static void connect_clients(int count)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr *generic = (struct sockaddr *)(void *)&address;
    socklen_t bytes = sizeof address;

    listener = new_socket(SOCK_NONBLOCK);
    CHECK_EQUAL(0, bind(listener, generic, sizeof address.sun_family));
    CHECK_EQUAL(0, listen(listener, count));
    CHECK_EQUAL(0, getsockname(listener, generic, &bytes));
    for (int i = 0; i < count; i++) {
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

static void end_clients(int count)
{
    struct pollfd polls[MANY];

    for (int i = 0; i < count; i++)
        CHECK_EQUAL(0, close(clients[i]));
    CHECK_EQUAL(count, tarn__connections_poll(polls));
    CHECK_EQUAL(count, poll(polls, (nfds_t)count, -1));
    tarn__connections_serve(polls, (size_t)count); /* each has ended */
    CHECK_EQUAL(0, connection_count());
    CHECK_EQUAL(0, close(listener));
}

TEST(poll_has_one_entry_for_each_connection)
{
    const struct pollfd unused = {.fd = -77, .events = 77, .revents = 77};
    struct pollfd polls[CLIENTS + 1] = {unused, unused, unused, unused};

    make_places_for(CLIENTS);
    CHECK_EQUAL(0, tarn__connections_poll(polls));
    CHECK_EQUAL(-77, polls[0].fd);
    connect_clients(CLIENTS);
    CHECK(tarn__connections_accept(listener));
    CHECK_EQUAL(CLIENTS, connection_count());
    CHECK_EQUAL(CLIENTS, tarn__connections_poll(polls));
    for (int i = 0; i < CLIENTS; i++)
        CHECK(polls[i].fd >= 0 && polls[i].events == POLLIN && polls[i].revents == 0);
    CHECK(memcmp(&polls[CLIENTS], &unused, sizeof unused) == 0);
    end_clients(CLIENTS);
}

/* Those in use have requests that wait for their answers. The server need not rest, as it
 * does without descriptors. */
TEST(a_part_of_many_clients_is_accepted_at_once_and_the_others_next)
{
    make_places_for(MANY);
    connect_clients(MANY);
    CHECK(tarn__connections_accept(listener));
    size_t first = connection_count();
    CHECK(first > 0 && first < MANY);
    CHECK(tarn__connections_accept(listener));
    CHECK_EQUAL(MANY, connection_count());
    end_clients(MANY);
}
