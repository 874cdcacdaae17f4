/* ipc.c -- a fuzz target: any bytes as a handle, as an owner's answer, as a request.
 *
 *     fuzz-ipc [-max_total_time=10] [FOLDER]
 *
 * The first byte chooses which. The others are combined by exclusive or with a valid message,
 * so that bytes of 0 change nothing. A handle that cannot be opened leaves its output
 * untouched and a message of `ipc`. A server answers a request, or ends the connection.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tarn/tarn.h>
#include <unistd.h>
#include <fcntl.h>
#include "input.h"
#include "ipc/socket_directory.h"
#include "ipc/wire.h"

#ifndef SIMULATOR /* CMake has its path: the static library does not find it */
#define SIMULATOR "sim"
#endif

enum { HANDLE = 0, ANSWER = 1, REQUEST = 2, KINDS = 3, ANSWER_MS = 2000 };

static char folder[] = "/tmp/tarn-fuzz-ipc-XXXXXX";
static tarn_ipc_handle own[2], theirs; /* of this process; of the hostile owner */
static tarn_pointer *exported;
static int listener = -1;

/* What the hostile owner answers next. */
static struct {
    struct tarn__wire_reply reply;
    size_t bytes;
    bool has_file;
} script;

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz-ipc: %s: %s\n", what, tarn_error_last()->message);
    abort();
}

static void answer(int peer)
{
    struct tarn__wire_request request;

    if (recv(peer, &request, sizeof request, 0) <= 0)
        return;
    if (script.bytes != sizeof script.reply) {
        send(peer, &script.reply, script.bytes, MSG_NOSIGNAL);
        return;
    }
    int file = script.has_file ? memfd_create("fuzz", MFD_CLOEXEC) : -1;
    tarn__wire_send(peer, &script.reply, sizeof script.reply, file);
    if (file >= 0)
        close(file);
}

static void *own_badly(void *none)
{
    for (;;) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0)
            return none;
        answer(peer);
        close(peer);
    }
}

static struct sockaddr_un address_of(const struct tarn__handle_encoding *encoding)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[TARN__SOCKET_NAME];

    tarn__socket_directory_name(encoding->process, encoding->server, name);
    snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", folder, name);
    return address;
}

static void start_hostile_owner(void)
{
    struct tarn__handle_encoding encoding = {.kind = TARN_IPC_PLAIN,
                                             .process = getpid(),
                                             .user = (uint32_t)geteuid(),
                                             .slot = 5,
                                             .generation = 6,
                                             .server = "fifteen letters"};
    struct sockaddr_un address = address_of(&encoding);
    pthread_t thread;

    theirs = own[0];
    tarn__handle_encoding_seal(&encoding);
    memcpy(theirs.reserved, &encoding, sizeof encoding);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    must(listener >= 0 &&
             bind(listener, (const struct sockaddr *)(const void *)&address,
                  sizeof address) == 0 &&
             listen(listener, 8) == 0 &&
             pthread_create(&thread, NULL, own_badly, NULL) == 0,
         "no socket");
}

static void begin(void)
{
    tarn_resource *exportable;

    must(mkdtemp(folder) && setenv("TARN_IPC_DIR", folder, 1) == 0, "no folder");
    must(tarn_driver_open(SIMULATOR) == TARN_OK, "no simulator");
    must(tarn_exportable_create(0, NULL, &exportable) == TARN_OK &&
             tarn_pointer_allocate(exportable, 5000, TARN_STREAM_NONE, &exported) ==
                 TARN_OK,
         "no memory");
    for (int kind = 0; kind < 2; kind++)
        must(tarn_ipc_export(exported, (tarn_ipc_kind)kind, &own[kind]) == TARN_OK,
             "no handle");
    start_hostile_owner();
}

static void combine(void *message, size_t bytes, const struct input *input)
{
    for (size_t i = 0; i < bytes && input->at + i < input->end; i++)
        ((uint8_t *)message)[i] ^= input->at[i];
}

static void open_handle(const tarn_ipc_handle *handle)
{
    tarn_ipc_open_options options = {.size = sizeof options, .timeout_ms = ANSWER_MS};
    tarn_pointer *untouched = (tarn_pointer *)(void *)folder, *opened = untouched;
    tarn_status status = tarn_ipc_open(handle, &options, &opened);

    must((status == TARN_OK) == (opened != untouched), "an output that does not fit");
    if (status == TARN_OK)
        tarn_pointer_release(opened);
    else
        must(tarn_error_last()->status == status &&
                 strchr(tarn_error_last()->message, ':'),
             "no message");
}

static void try_handle(struct input *input, unsigned choice)
{
    tarn_ipc_handle handle = choice & 1 ? theirs : own[choice >> 1 & 1];
    struct tarn__handle_encoding encoding;

    combine(&handle, sizeof handle, input);
    if (choice & 4) {
        memcpy(&encoding, handle.reserved, sizeof encoding);
        tarn__handle_encoding_seal(&encoding);
        memcpy(handle.reserved, &encoding, sizeof encoding);
    }
    script.bytes = 0;
    open_handle(&handle);
}

static void try_answer(struct input *input, unsigned choice)
{
    script.reply = (struct tarn__wire_reply){
        .magic = TARN__WIRE_MAGIC, .slot = 5, .generation = 6, .bytes = 1 << 21};
    script.has_file = choice & 1;
    script.bytes = choice & 2 ? (size_t)(input->end - input->at) % sizeof script.reply
                              : sizeof script.reply;
    combine(&script.reply, sizeof script.reply, input);
    open_handle(&theirs);
}

static void try_request(struct input *input, unsigned choice)
{
    struct tarn__wire_request request = {.magic = TARN__WIRE_MAGIC};
    struct tarn__wire_reply reply;
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(&request.encoding, own[choice & 1].reserved, sizeof request.encoding);
    struct sockaddr_un address = address_of(&request.encoding);
    combine(&request, sizeof request, input);
    if (choice & 2)
        tarn__handle_encoding_seal(&request.encoding);
    size_t bytes =
        choice & 4 ? (size_t)(input->end - input->at) % sizeof request : sizeof request;
    must(connection >= 0 &&
             connect(connection, (const struct sockaddr *)(const void *)&address,
                     sizeof address) == 0,
         "the server does not listen");
    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    if (send(connection, &request, bytes, MSG_NOSIGNAL) == (ssize_t)bytes && bytes > 0) {
        must(poll(&waiting, 1, 10 * ANSWER_MS) == 1, "the server is silent");
        int file = -1;
        enum tarn__wire_result result =
            tarn__wire_receive(connection, &reply, sizeof reply, &file);
        must(result == TARN__WIRE_END ||
                 (result == TARN__WIRE_WHOLE && reply.magic == TARN__WIRE_MAGIC &&
                  reply.status < TARN_STATUS_COUNT &&
                  memchr(reply.message, 0, sizeof reply.message)),
             "the server answers with something else");
        if (file >= 0)
            close(file);
    }
    close(connection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static void (*const targets[KINDS])(struct input *,
                                        unsigned) = {try_handle, try_answer, try_request};
    struct input input = {data + 1, data + count, SIZE_MAX};

    if (listener < 0)
        begin();
    if (count > 0)
        targets[data[0] % KINDS](&input, data[0] / KINDS);
    return 0;
}
