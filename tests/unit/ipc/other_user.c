/* Test a peer of another user: it gets nothing, on either side.
 *
 * It tries the socket directory, the directory's descriptor, a socket that it can reach,
 * and a server at the address of a handle.
 *
 * Root can be another user as well, so these tests run as root. If this process is not
 * root, or may not change its user, each test reports that and tries nothing.
 * tests/unit/ipc/plain.c has the tests that need no second user (handles that name one).
 */
#define _GNU_SOURCE
#include "pair.h"
#include "ipc/socket_directory.h"
#include "ipc/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { NOBODY = 65534 };

static tarn_ipc_handle plain, served; /* of the owner's block 0, with pattern 1 */
static char socket_name[TARN__SOCKET_NAME];

/* --- changing the user --- */

/* In a child, permanently. A process that changed its user is closed to its own debugger,
 * such as the leak checker. */
static bool become_nobody(void)
{
    return setgid(NOBODY) == 0 && setuid(NOBODY) == 0 && geteuid() == NOBODY &&
           prctl(PR_SET_DUMPABLE, 1) == 0;
}

static bool can_become_nobody(void)
{
    int status = 1;
    pid_t child = geteuid() == 0 ? fork() : -1;

    if (child == 0)
        _exit(become_nobody() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The driver is opened before: its files may be root's. */
static void open_driver_and_become_nobody(void)
{
    CHILD_STATUS(TARN_OK, tarn_driver_open(NULL));
    CHILD_CHECK(live_bytes() == 0);
    CHILD_CHECK(become_nobody());
}

static bool is_tried(const char *what)
{
    if (can_become_nobody())
        return true;
    print_message("not tried, as this process cannot be another user: %s\n", what);
    return false;
}

/* --- the attacker's tools --- */

static struct tarn__handle_encoding encoding_in(const tarn_ipc_handle *handle)
{
    struct tarn__handle_encoding encoding;

    memcpy(&encoding, handle->reserved, sizeof encoding);
    return encoding;
}

static struct tarn__wire_request request_of(const tarn_ipc_handle *handle)
{
    return (struct tarn__wire_request){TARN__WIRE_MAGIC, encoding_in(handle)};
}

/* The handle, as if it were of that user. */
static tarn_ipc_handle forged(const tarn_ipc_handle *handle, unsigned user)
{
    struct tarn__handle_encoding encoding = encoding_in(handle);
    tarn_ipc_handle made = *handle;

    encoding.user = user;
    tarn__handle_encoding_seal(&encoding);
    memcpy(made.reserved, &encoding, sizeof encoding);
    return made;
}

static void name_socket(const struct tarn__handle_encoding *encoding)
{
    tarn__socket_directory_name(encoding->process, encoding->server, socket_name);
}

static struct sockaddr_un socket_in_directory(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", socket_directory,
             socket_name);
    return address;
}

/* Return an errno, or 0 and a connection. */
static int connect_to(const struct sockaddr_un *address, int *out)
{
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    CHILD_CHECK(line >= 0);
    *out = line;
    if (connect(line, (const struct sockaddr *)(const void *)address, sizeof *address))
        return errno;
    return 0;
}

/* Send a request on a connection, whether or not the server has closed it. Return the
 * number of bytes of the answer, and whether a descriptor came. */
static ssize_t ask(int line, const tarn_ipc_handle *handle, bool *has_file_out)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct tarn__wire_request request = request_of(handle);
    struct tarn__wire_reply reply;
    struct iovec part = {&reply, sizeof reply};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control};

    send(line, &request, sizeof request, MSG_NOSIGNAL);
    ssize_t got = recvmsg(line, &message, MSG_CMSG_CLOEXEC);
    *has_file_out = got > 0 && CMSG_FIRSTHDR(&message) != NULL;
    return got > 0 && reply.status != TARN_OK ? -1 : got;
}

static void cannot_open(const tarn_ipc_handle *handle, tarn_status wanted,
                        const char *message)
{
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77, *out = untouched;

    CHILD_STATUS(wanted, tarn_ipc_open(handle, NULL, &out));
    CHILD_MESSAGE(message);
    CHILD_CHECK(out == untouched);
}

/* --- an owner of this user, and a client of another user --- */

static void open_honestly(int line)
{
    tarn_pointer *opened;

    (void)line;
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&plain, NULL, &opened));
    CHILD_CHECK(wrong_bytes(opened, 1) == 0);
    tarn_pointer_release(opened);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&served, NULL, &opened));
    CHILD_CHECK(wrong_bytes(opened, 1) == 0);
    tarn_pointer_release(opened);
    check_nothing_open();
}

static void own_server_of(const struct process *owner)
{
    allocate(owner->line, 0, MIB, 1);
    plain = export_block(owner->line, 0, 0, MIB, TARN_IPC_PLAIN);
    served = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    struct tarn__handle_encoding encoding = encoding_in(&plain);
    name_socket(&encoding);
}

/* Run a client against an owner, whose counts are the same afterwards. Return the number
 * of rejected requests. `open_socket_directory`: the client can reach the socket. */
static uint64_t attack(void (*client)(int line), bool open_socket_directory)
{
    socket_directory_begin();
    struct process owner = process_start(own_exportable);
    own_server_of(&owner);
    tarn_ipc_counts before = counts_of(owner.line);
    struct sockaddr_un address = socket_in_directory();
    if (open_socket_directory)
        CHECK(chmod(socket_directory, 0755) == 0 && chmod(address.sun_path, 0777) == 0);
    struct process attacker = process_start(client);
    process_end(&attacker);
    CHECK_EQUAL(0, chmod(socket_directory, 0700));
    struct process honest = process_start(open_honestly);
    process_end(&honest);
    wait_for_no_connections(owner.line);
    tarn_ipc_counts after = counts_of(owner.line);
    CHECK_EQUAL(before.descriptors, after.descriptors);
    CHECK_EQUAL(0, after.leases);
    CHECK_EQUAL(0, verify(owner.line, 0, 1));
    process_end(&owner);
    socket_directory_end();
    return after.rejected - before.rejected;
}

/* Root's descriptor of the directory does not give access to the socket either. */
static void try_the_directory(int line)
{
    struct sockaddr_un address = socket_in_directory(), by_file = {.sun_family = AF_UNIX};
    tarn_ipc_handle mine = forged(&plain, NOBODY);
    int file = open(socket_directory, O_PATH | O_DIRECTORY | O_CLOEXEC), connection;

    (void)line;
    CHILD_CHECK(file >= 0);
    open_driver_and_become_nobody();
    cannot_open(&plain, TARN_INVALID_ARGUMENT, "to user 0, this process to user 65534");
    cannot_open(&served, TARN_INVALID_ARGUMENT, "to user 0");
    cannot_open(&mine, TARN_NOT_FOUND, "has ended");
    CHILD_CHECK(connect_to(&address, &connection) == EACCES);
    close(connection);
    tarn__socket_directory_path(file, socket_name, by_file.sun_path);
    CHILD_CHECK(connect_to(&by_file, &connection) == EACCES);
    close(connection);
    close(file);
    check_nothing_open();
}

TEST(another_user_cannot_enter_the_socket_directory)
{
    if (is_tried("the folder of sockets"))
        CHECK_EQUAL(0, attack(try_the_directory, false));
}

static void try_the_socket(int line)
{
    const tarn_ipc_handle handles[] = {plain, served, forged(&plain, NOBODY)};
    struct sockaddr_un address = socket_in_directory();
    bool has_file = true;

    (void)line;
    CHILD_CHECK(become_nobody());
    for (size_t i = 0; i < 3; i++) {
        int connection;
        CHILD_CHECK(connect_to(&address, &connection) == 0);
        CHILD_CHECK(ask(connection, &handles[i], &has_file) <= 0);
        CHILD_CHECK(!has_file);
        close(connection);
    }
}

TEST(another_user_at_the_socket_gets_no_answer_and_no_descriptor)
{
    if (is_tried("a socket in an open folder"))
        CHECK_EQUAL(3, attack(try_the_socket, true));
}

/* A process that passes on a connection passes on the right to its requests. */
static void ask_on_a_gift(int line)
{
    struct sockaddr_un address = socket_in_directory();
    bool has_file = false;
    int connection;

    (void)line;
    CHILD_CHECK(connect_to(&address, &connection) == 0);
    CHILD_CHECK(become_nobody());
    CHILD_CHECK(ask(connection, &plain, &has_file) ==
                (ssize_t)sizeof(struct tarn__wire_reply));
    CHILD_CHECK(has_file);
    close(connection);
}

TEST(a_connection_has_the_user_that_made_it_even_after_it_is_passed_on)
{
    if (is_tried("a connection that was given away"))
        CHECK_EQUAL(0, attack(ask_on_a_gift, false));
}

/* --- an importer of this user, and a server of another user --- */

/* Listen as the user nobody in the test's directory, where root bound the socket. Report
 * every received byte. */
static void listen_as_nobody(int line)
{
    struct tarn__handle_encoding encoding = {.process = (int32_t)getpid(),
                                             .user = 0,
                                             .slot = 5,
                                             .generation = 6,
                                             .server = "fifteen letters"};
    struct tarn__wire_request request;

    tarn__handle_encoding_seal(&encoding);
    name_socket(&encoding);
    struct sockaddr_un address = socket_in_directory();
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHILD_CHECK(listener >= 0);
    CHILD_CHECK(bind(listener, (const struct sockaddr *)(const void *)&address,
                     sizeof address) == 0);
    CHILD_CHECK(become_nobody());
    CHILD_CHECK(listen(listener, 8) == 0);
    must_send(line, &encoding, sizeof encoding);
    for (int i = 0; i < 2; i++) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        CHILD_CHECK(peer >= 0);
        CHILD_CHECK(recv(peer, &request, sizeof request, 0) == 0);
        close(peer);
    }
}

static void open_of_a_foreign_server(int line)
{
    (void)line;
    cannot_open(&plain, TARN_SYSTEM_FAILURE, "its socket belongs to another user");
    cannot_open(&served, TARN_SYSTEM_FAILURE, "its socket belongs to another user");
    check_nothing_open();
}

/* Handles of an owner that has ended, except for the server of the memory. */
static void point_handles_at(struct tarn__handle_encoding encoding)
{
    memcpy(plain.reserved, &encoding, sizeof encoding);
    encoding.kind = TARN_IPC_SERVED;
    tarn__handle_encoding_seal(&encoding);
    memcpy(served.reserved, &encoding, sizeof encoding);
}

TEST(a_server_of_another_user_gets_no_request)
{
    struct tarn__handle_encoding encoding;

    if (!is_tried("a server that is not ours"))
        return;
    socket_directory_begin();
    struct process owner = process_start(own_exportable);
    own_server_of(&owner);
    process_end(&owner);
    struct process liar = process_start(listen_as_nobody);
    must_receive(liar.line, &encoding, sizeof encoding);
    point_handles_at(encoding);
    struct process importer = process_start(open_of_a_foreign_server);
    process_end(&importer);
    process_end(&liar);
    name_socket(&encoding);
    struct sockaddr_un address = socket_in_directory();
    CHECK_EQUAL(0, unlink(address.sun_path));
    socket_directory_end();
}

/* A complete owner of another user, in a directory of its own. */
static void own_as_nobody(int line)
{
    open_driver_and_become_nobody();
    own_exportable(line);
}

/* Root can enter any directory; a check of the owner shows that this one is not its own.
 */
static void open_of_a_foreign_owner(int line)
{
    tarn_ipc_handle mine = forged(&plain, 0), mine_served = forged(&served, 0);
    struct sockaddr_un address = socket_in_directory();
    bool has_file = true;
    int connection;

    (void)line;
    cannot_open(&plain, TARN_INVALID_ARGUMENT, "to user 65534, this process to user 0");
    cannot_open(&mine, TARN_NOT_FOUND, "has ended");
    cannot_open(&mine_served, TARN_NOT_FOUND, "has ended");
    CHILD_CHECK(connect_to(&address, &connection) == 0);
    CHILD_CHECK(ask(connection, &mine, &has_file) <= 0);
    CHILD_CHECK(!has_file);
    close(connection);
    check_nothing_open();
}

static void export_into_a_foreign_directory(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);
    tarn_ipc_handle handle = {.bytes = 77};
    tarn_pointer *pointer;

    (void)line;
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_SYSTEM_FAILURE, tarn_ipc_export(pointer, TARN_IPC_PLAIN, &handle));
    CHILD_MESSAGE("belongs to user 65534 with mode 700, it has to belong to user 0");
    CHILD_CHECK(handle.bytes == 77);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

TEST(a_socket_directory_of_another_user_is_not_used)
{
    if (!is_tried("a folder that is not ours"))
        return;
    socket_directory_begin();
    CHECK_EQUAL(0, chown(socket_directory, NOBODY, NOBODY));
    struct process owner = process_start(own_as_nobody);
    own_server_of(&owner);
    struct process importer = process_start(open_of_a_foreign_owner);
    process_end(&importer);
    CHECK_EQUAL(1, counts_of(owner.line).rejected);
    process_end(&owner);
    struct process other = process_start(export_into_a_foreign_directory);
    process_end(&other);
    socket_directory_end();
}
