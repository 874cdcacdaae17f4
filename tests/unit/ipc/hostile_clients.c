/* Test broken and hostile clients: the server serves all other clients, and keeps nothing
 * of the hostile one.
 *
 * The attacker writes to the socket itself.
 */
#define _GNU_SOURCE
#include "child.h"
#include "pair.h"
#include "ipc/socket_directory.h"
#include "ipc/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct process owner;
static tarn_ipc_handle plain, served; /* of the owner's block 0, with pattern 1 */
static uint64_t rejected_count;       /* by the server, in the last attack() */

static struct tarn__handle_encoding encoding_in(const tarn_ipc_handle *handle)
{
    struct tarn__handle_encoding encoding;

    memcpy(&encoding, handle->reserved, sizeof encoding);
    return encoding;
}

/* A connection to the owner's server, as any process of this user can make one. */
static int connect_raw(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct tarn__handle_encoding encoding = encoding_in(&plain);
    char name[TARN__SOCKET_NAME];
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    tarn__socket_directory_name(encoding.process, encoding.server, name);
    snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", socket_directory,
             name);
    CHILD_CHECK(line >= 0);
    CHILD_CHECK(connect(line, (const struct sockaddr *)(const void *)&address,
                        sizeof address) == 0);
    return line;
}

/* Read until the server has closed its end; drop its output. */
static void wait_for_end(int line)
{
    char rest[1024];

    while (recv(line, rest, sizeof rest, 0) > 0)
        continue;
    close(line);
}

static struct tarn__wire_request request_of(const tarn_ipc_handle *handle)
{
    return (struct tarn__wire_request){TARN__WIRE_MAGIC, encoding_in(handle)};
}

/* A child that opens the plain handle in time and reads the right bytes. */
static void open_honestly(int line)
{
    tarn_ipc_open_options options = {.size = sizeof options, .timeout_ms = 60000};
    tarn_pointer *opened;

    (void)line;
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&plain, &options, &opened));
    CHILD_CHECK(wrong_bytes(opened, 1) == 0);
    tarn_pointer_release(opened);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&served, &options, &opened));
    CHILD_CHECK(wrong_bytes(opened, 1) == 0);
    tarn_pointer_release(opened);
    check_nothing_open();
}

static void honest_one_is_served(void)
{
    struct process honest = process_start(open_honestly);

    process_end(&honest);
}

static void wait_for_connections(size_t wanted)
{
    while (counts_of(owner.line).connections != wanted)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Without connections, and with as many descriptors as wanted. A leak fails after ten seconds. */
static void wait_for_descriptors(size_t wanted)
{
    for (int i = 0; i < 10000; i++) {
        wait_for_connections(0);
        if (counts_of(owner.line).descriptors == wanted)
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    CHECK_EQUAL(wanted, counts_of(owner.line).descriptors);
}

/* This determines the number of connections that a server accepts. */
static void limit_descriptors(void)
{
    struct rlimit limit;

    CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &limit));
    CHECK(limit.rlim_max >= 1024);
    limit.rlim_cur = 1024;
    CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &limit));
}

/* Start an owner of a block that is exported in both ways. */
static void start_owner(void (*own)(int line))
{
    limit_descriptors();
    socket_directory_begin();
    owner = process_start(own);
    allocate(owner.line, 0, MIB, 1);
    plain = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    served = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
}

/* The owner has the same counts as before, once all clients are gone. */
static void attack(void (*attacker)(int line))
{
    start_owner(own_exportable);
    size_t files = counts_of(owner.line).descriptors;
    struct process child = process_start(attacker);
    char mark;
    if (receive_message(child.line, &mark, 1)) /* the attack is at its peak now */
        honest_one_is_served();
    process_end(&child);
    honest_one_is_served();
    wait_for_connections(0);
    CHECK_EQUAL(files, counts_of(owner.line).descriptors);
    CHECK_EQUAL(0, counts_of(owner.line).leases);
    CHECK_EQUAL(0, verify(owner.line, 0, 1));
    rejected_count = counts_of(owner.line).rejected;
    process_end(&owner);
    socket_directory_end();
}

static void send_wrong_sizes(int line)
{
    static const size_t sizes[] = {1, 8, sizeof(struct tarn__wire_request) - 1,
                                   sizeof(struct tarn__wire_request) + 1, 4096};
    static char bytes[4096];
    struct tarn__wire_request good = request_of(&served);

    (void)line;
    memcpy(bytes, &good, sizeof good);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int raw = connect_raw();
        CHILD_CHECK(send(raw, bytes, sizes[i], 0) == (ssize_t)sizes[i]);
        CHILD_CHECK(recv(raw, bytes + 100, 100, 0) <= 0); /* no answer */
        close(raw);
    }
}

TEST(a_message_of_another_size_gets_no_answer)
{
    attack(send_wrong_sizes);
}

static void send_garbage(int line)
{
    struct tarn__wire_reply reply;

    (void)line;
    for (size_t i = 0; i < sizeof(struct tarn__wire_request); i++) {
        struct tarn__wire_request request = request_of(i % 2 ? &served : &plain);
        ((unsigned char *)&request)[i] ^= 0x40;
        int raw = connect_raw();
        CHILD_CHECK(send(raw, &request, sizeof request, 0) == (ssize_t)sizeof request);
        CHILD_CHECK(recv(raw, &reply, sizeof reply, 0) == (ssize_t)sizeof reply);
        CHILD_CHECK(reply.status != TARN_OK);
        CHILD_CHECK(memchr(reply.message, '\0', sizeof reply.message) != NULL);
        wait_for_end(raw);
    }
}

TEST(a_request_of_garbage_is_rejected_and_ends_the_connection)
{
    attack(send_garbage);
}

static void must_get_an_answer(int raw)
{
    struct tarn__wire_request request = request_of(&served);
    struct tarn__wire_reply reply;

    CHILD_CHECK(send(raw, &request, sizeof request, 0) == (ssize_t)sizeof request);
    CHILD_CHECK(recv(raw, &reply, sizeof reply, 0) == (ssize_t)sizeof reply);
    CHILD_CHECK(reply.status == TARN_OK);
}

/* Return the ms of processor time that the owner takes within 200 ms. */
static long busy_ms_of_owner(void)
{
    struct timespec before, after;
    clockid_t clock;

    CHILD_CHECK(clock_getcpuclockid(owner.pid, &clock) == 0);
    CHILD_CHECK(clock_gettime(clock, &before) == 0);
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    CHILD_CHECK(clock_gettime(clock, &after) == 0);
    return (after.tv_sec - before.tv_sec) * 1000 +
           (after.tv_nsec - before.tv_nsec) / 1000000;
}

static void be_silent(int line)
{
    int raw[40], lease = connect_raw();

    must_get_an_answer(lease);
    for (int i = 0; i < 40; i++)
        raw[i] = connect_raw();
    must_send(line, "x", 1);
    for (int i = 0; i < 40; i++)
        wait_for_end(raw[i]); /* the server does not wait indefinitely */
    /* Only the lease is left, and it sends nothing. */
    CHILD_CHECK(busy_ms_of_owner() < 20);
    close(lease);
}

TEST(silent_clients_delay_no_others_and_are_dropped)
{
    attack(be_silent);
    CHECK(rejected_count >= 40);
}

/* Open as many connections as possible, half of them with a request, and read no answer.
 */
static void flood(int line)
{
    enum { CONNECTIONS = 400 }; /* a process may have 128 */
    static int raw[CONNECTIONS];
    struct tarn__wire_request request = request_of(&plain);

    for (int i = 0; i < CONNECTIONS; i++) {
        raw[i] = connect_raw();
        if (i % 2)
            send(raw[i], &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    must_send(line, "x", 1);
    for (int i = 0; i < CONNECTIONS; i++)
        close(raw[i]);
}

TEST(a_flood_of_one_process_leaves_places_for_others)
{
    attack(flood);
    CHECK(rejected_count > 0);
}

static void send_descriptors(int line)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    int files[8], null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)line;
    for (int i = 0; i < 8; i++)
        files[i] = null;
    for (int i = 0; i < 20; i++) {
        struct tarn__wire_request request = request_of(i % 2 ? &served : &plain);
        struct iovec part = {&request, sizeof request};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control};
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){CMSG_LEN(sizeof files), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), files, sizeof files);
        int raw = connect_raw();
        CHILD_CHECK(sendmsg(raw, &message, 0) == (ssize_t)sizeof request);
        struct tarn__wire_reply reply;
        CHILD_CHECK(recv(raw, &reply, sizeof reply, 0) == (ssize_t)sizeof reply);
        CHILD_CHECK(reply.status == TARN_OK); /* after all, its request was valid */
        close(raw);
    }
    close(null);
}

TEST(descriptors_that_the_server_did_not_request_are_closed)
{
    attack(send_descriptors);
}

static void talk_on_a_lease(int line)
{
    struct tarn__wire_request request = request_of(&served);
    struct tarn__wire_reply reply;
    int raw = connect_raw(), half = connect_raw();

    (void)line;
    CHILD_CHECK(send(raw, &request, sizeof request, 0) == (ssize_t)sizeof request);
    CHILD_CHECK(recv(raw, &reply, sizeof reply, 0) == (ssize_t)sizeof reply);
    CHILD_CHECK(reply.status == TARN_OK);
    CHILD_CHECK(send(raw, &request, sizeof request, 0) == (ssize_t)sizeof request);
    wait_for_end(raw);
    CHILD_CHECK(send(half, &request, sizeof request, 0) == (ssize_t)sizeof request);
    CHILD_CHECK(recv(half, &reply, sizeof reply, 0) == (ssize_t)sizeof reply);
    CHILD_CHECK(shutdown(half, SHUT_WR) == 0);
    wait_for_end(half);
}

TEST(a_lease_ends_after_a_second_request_or_a_half_close)
{
    attack(talk_on_a_lease);
}

/* Killed between connecting and asking, between asking and reading, and with a lease. */
static void die_at(int line)
{
    struct tarn__wire_request request = request_of(&served);
    struct tarn__wire_reply reply;
    char where = 0;
    int raw;

    must_receive(line, &where, 1);
    raw = connect_raw();
    if (where > 0)
        send(raw, &request, sizeof request, 0);
    if (where > 1)
        recv(raw, &reply, sizeof reply, 0);
    must_send(line, "x", 1);
    pause();
}

static void kill_at_each_step(enum source source)
{
    socket_directory_begin();
    owner = process_start(owners[source]);
    allocate(owner.line, 0, MIB, 1);
    plain = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    served = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    size_t files = counts_of(owner.line).descriptors;
    for (char where = 0; where < 3; where++) {
        struct process child = process_start(die_at);
        char mark;
        must_send(child.line, &where, 1);
        must_receive(child.line, &mark, 1);
        process_kill(&child);
        /* The server may accept the connection of a killed process. */
        wait_for_descriptors(files);
        CHECK_EQUAL(0, counts_of(owner.line).connections);
    }
    honest_one_is_served();
    process_end(&owner);
    socket_directory_end();
}

TEST(a_client_that_is_killed_at_any_step_leaves_nothing)
{
    kill_at_each_step(FROM_EXPORTABLE);
    kill_at_each_step(FROM_ASYNC);
}

/* --- a process that lowers its limit of descriptors --- */

enum { MANY = 60, REMAINING = 30 };

static atomic_int *warnings; /* of the owner; in memory that it shares with the test */

/* The server polls its connections and its listener. */
static void count_warning(void *data, const char *message)
{
    tarn_ipc_counts counts;
    char polled[64];

    tarn_ipc_get_counts(&counts);
    snprintf(polled, sizeof polled, "poll() of %zu descriptors", counts.connections + 1);
    atomic_fetch_add((atomic_int *)data, strstr(message, "RLIMIT_NOFILE is 30") != NULL &&
                                             strstr(message, polled) != NULL);
}

static void own_and_count_warnings(int line)
{
    tarn_set_warning_handler(count_warning, warnings);
    own_exportable(line);
}

/* Take leases, and one connection without. Then, under the lower limit, end some leases
 * and send a request. */
static void lease_across_the_change(int line)
{
    int raw[MANY];
    char mark;

    for (int i = 0; i < MANY; i++)
        raw[i] = connect_raw();
    for (int i = 0; i < MANY - 1; i++)
        must_get_an_answer(raw[i]);
    must_send(line, "x", 1);
    must_receive(line, &mark, 1);
    for (int i = 0; i < 5; i++)
        close(raw[i]);
    must_send(line, "x", 1);
    must_receive(line, &mark, 1);
    must_get_an_answer(raw[MANY - 1]);
    must_send(line, "x", 1);
    must_receive(line, &mark, 1);
}

TEST(a_server_with_more_connections_than_the_limit_of_descriptors_serves_them)
{
    const struct rlimit low = {REMAINING, 1024};
    char mark;

    if (!has_sim()) /* a real driver has more descriptors open, and then exports none */
        skip();
    warnings = mmap(NULL, sizeof *warnings, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(warnings != MAP_FAILED);
    start_owner(own_and_count_warnings);
    struct process child = process_start(lease_across_the_change);
    must_receive(child.line, &mark, 1);
    CHECK_EQUAL(0, prlimit(owner.pid, RLIMIT_NOFILE, &low, NULL));
    must_send(child.line, "x", 1); /* end leases */
    must_receive(child.line, &mark, 1);
    wait_for_connections(MANY - 5);
    must_send(child.line, "x", 1); /* send a request */
    must_receive(child.line, &mark, 1);
    honest_one_is_served();
    wait_for_connections(MANY - 5);
    must_send(child.line, "x", 1);
    process_end(&child);
    wait_for_connections(0);
    CHECK_EQUAL(1, atomic_load(warnings));
    process_end(&owner);
    socket_directory_end();
    munmap(warnings, sizeof *warnings);
}

/* Connect while the server has no descriptor for it. */
static void wait_for_a_descriptor(int line)
{
    const struct timeval limit = {.tv_sec = 10};
    char mark;
    int raw = connect_raw();

    CHILD_CHECK(setsockopt(raw, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* the server tries to accept it */
    must_send(line, "x", 1);
    must_receive(line, &mark, 1);
    must_get_an_answer(raw);
    close(raw);
}

TEST(a_connection_that_waited_for_a_descriptor_is_served)
{
    const struct rlimit none = {3, 1024}, many = {1024, 1024};
    char mark;

    start_owner(own_exportable);
    CHECK_EQUAL(0, prlimit(owner.pid, RLIMIT_NOFILE, &none, NULL));
    struct process child = process_start(wait_for_a_descriptor);
    must_receive(child.line, &mark, 1);
    CHECK_EQUAL(0, counts_of(owner.line).connections);
    CHECK_EQUAL(0, prlimit(owner.pid, RLIMIT_NOFILE, &many, NULL));
    must_send(child.line, "x", 1);
    process_end(&child);
    process_end(&owner);
    socket_directory_end();
}
