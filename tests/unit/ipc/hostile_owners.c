/* Test broken and hostile owners: opening ends in time, with a status, and keeps nothing.
 *
 * The attacker is a process that listens on a handle's socket, and sends any answer.
 */
#define _GNU_SOURCE
#include "pair.h"
#include "ipc/socket_directory.h"
#include "ipc/wire.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The owner's answer: a message of this many bytes, with this many descriptors. */
struct script {
    struct tarn__wire_reply reply;
    size_t bytes; /* 0: no answer */
    int files;    /* all are /dev/null */
    bool hang_up; /* at once */
};

static struct script script;
static tarn_ipc_handle handle;
static uint64_t block; /* the device pool that the handle names; 0: a segment */

static struct tarn__handle_encoding make_encoding(int process)
{
    struct tarn__handle_encoding encoding = {.kind = TARN_IPC_PLAIN,
                                             .process = process,
                                             .user = (uint32_t)geteuid(),
                                             .slot = 5,
                                             .generation = 6,
                                             .base = block,
                                             .server = "fifteen letters"};

    tarn__handle_encoding_seal(&encoding);
    return encoding;
}

static int listen_raw(int process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct tarn__handle_encoding encoding = make_encoding(process);
    char name[TARN__SOCKET_NAME];
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    tarn__socket_directory_name(encoding.process, encoding.server, name);
    snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", socket_directory,
             name);
    CHILD_CHECK(bind(listener, (const struct sockaddr *)(const void *)&address,
                     sizeof address) == 0);
    CHILD_CHECK(listen(listener, 8) == 0);
    return listener;
}

static void answer_raw(int peer)
{
    enum { FILES = 64 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FILES * sizeof(int))];
    } control;
    static char bytes[1024];
    int files[FILES];
    struct iovec part = {bytes, script.bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    memcpy(bytes, &script.reply, sizeof script.reply);
    for (int i = 0; i < script.files; i++)
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (script.files > 0) {
        size_t length = (size_t)script.files * sizeof *files;
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){CMSG_LEN(length), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), files, length);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(length);
    }
    sendmsg(peer, &message, MSG_NOSIGNAL);
}

static tarn_status wanted;
static const char *message;

static void open_badly(int line)
{
    tarn_ipc_open_options options = {
        .size = sizeof options,
        .timeout_ms = script.bytes == 0 && !script.hang_up ? 50 : 60000};
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77, *out = untouched;

    (void)line;
    CHILD_CHECK(live_bytes() == 0); /* the driver is open now, with its descriptors */
    tarn_ipc_open(&handle, &options, &out);
    int before = open_files();
    CHILD_STATUS(wanted, tarn_ipc_open(&handle, &options, &out));
    CHILD_MESSAGE(message);
    CHILD_CHECK(out == untouched);
    CHILD_CHECK(open_files() == before);
    check_nothing_open();
}

/* Answer one importer twice, and stay until the test has the result of it. */
static void own_badly(int line)
{
    int listener = listen_raw((int)getpid());
    struct tarn__wire_request request;
    int peers[2];
    char mark;

    must_send(line, "x", 1);
    for (int i = 0; i < 2; i++) {
        peers[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        CHILD_CHECK(peers[i] >= 0);
        CHILD_CHECK(recv(peers[i], &request, sizeof request, 0) ==
                    (ssize_t)sizeof request);
        if (script.bytes > 0)
            answer_raw(peers[i]);
        if (script.hang_up)
            close(peers[i]);
    }
    receive_message(line, &mark, 1);
}

/* The uuid of device 0, from a process that has the driver open. */
static void tell_uuid(int line)
{
    tarn_resource *resource;
    tarn_pointer *pointer;
    tarn_ipc_handle some;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &resource));
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_PLAIN, &some));
    must_send(line, some.uuid, sizeof some.uuid);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

static void remove_socket(int process)
{
    struct tarn__handle_encoding encoding = make_encoding(process);
    char name[TARN__SOCKET_NAME], path[128];

    tarn__socket_directory_name(process, encoding.server, name);
    snprintf(path, sizeof path, "%.40s/%.60s", socket_directory, name);
    CHECK_EQUAL(0, unlink(path));
}

static void check_rejected(struct script answers, tarn_status status, const char *says)
{
    script = answers;
    wanted = status;
    message = says;
    socket_directory_begin();
    struct process queried = process_start(tell_uuid);
    must_receive(queried.line, handle.uuid, sizeof handle.uuid);
    process_end(&queried);
    struct process owner = process_start(own_badly);
    struct tarn__handle_encoding encoding = make_encoding(owner.pid);
    char mark;
    must_receive(owner.line, &mark, 1);
    memcpy(handle.reserved, &encoding, sizeof encoding);
    handle.bytes = MIB;
    struct process importer = process_start(open_badly);
    process_end(&importer);
    process_end(&owner);
    remove_socket(owner.pid);
    socket_directory_end();
}

static struct script good(void)
{
    return (struct script){.reply = {.magic = TARN__WIRE_MAGIC,
                                     .backing = TARN__BACKING_SEGMENT,
                                     .slot = 5,
                                     .generation = 6,
                                     .bytes = 2 * MIB},
                           .bytes = sizeof(struct tarn__wire_reply),
                           .files = 1};
}

TEST(an_open_waits_for_a_silent_owner_no_longer_than_its_timeout)
{
    check_rejected((struct script){.bytes = 0}, TARN_SYSTEM_FAILURE,
                   "not answer within 50 ms");
}

TEST(an_owner_that_hangs_up_is_gone)
{
    check_rejected((struct script){.hang_up = true}, TARN_NOT_FOUND, "has ended");
}

TEST(an_answer_of_another_length_is_nonsense)
{
    struct script answers = good();

    answers.bytes = 10;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "wrong length");
    answers.bytes = sizeof(struct tarn__wire_reply) + 1;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "wrong length");
}

TEST(an_answer_of_garbage_is_nonsense)
{
    struct script answers = good();

    answers.reply.magic++;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "not a reply");
    answers = good();
    answers.reply.backing = 7;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "unknown kind");
    answers = good();
    answers.reply.slot = 4;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a different segment");
    answers = good();
    answers.reply.bytes = 12345;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a segment of 12345 bytes");
    answers.reply.bytes = 0;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a segment of 0 bytes");
}

/* The same of a block of a driver's pool. */
static struct script good_driver_pool(void)
{
    struct script answers = good();

    answers.reply.backing = TARN__BACKING_DRIVER_POOL;
    answers.reply.base = block = 0x7000000000;
    return answers;
}

TEST(an_answer_of_another_block_is_nonsense)
{
    struct script answers = good_driver_pool();

    answers.reply.generation++;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a different segment");
    answers = good_driver_pool();
    answers.reply.slot++;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a different segment");
    answers = good_driver_pool();
    answers.reply.base++;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "a different segment");
    check_rejected(good(), TARN_SYSTEM_FAILURE, "a different segment");
    answers = good_driver_pool();
    answers.reply.base = 0;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "unknown kind");
    answers = good_driver_pool();
    answers.files = 0;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "wrong number of descriptors");
    block = 0;
    answers = good();
    answers.reply.base = 1;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "unknown kind");
}

TEST(a_descriptor_of_no_pool_is_rejected_by_the_driver)
{
    struct script answers = good_driver_pool();

    skip_on_gpu(); /* its message differs */
    check_rejected(answers, TARN_DRIVER_FAILURE, "cuMemPoolImportFromShareableHandle");
    answers.files = 60;
    check_rejected(answers, TARN_DRIVER_FAILURE, "cuMemPoolImportFromShareableHandle");
    block = 0;
}

TEST(descriptors_too_many_or_too_few_are_closed_and_rejected)
{
    struct script answers = good();

    skip_on_gpu();
    answers.files = 0;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "wrong number of descriptors");
    answers = good();
    answers.reply.backing = TARN__BACKING_CUDA;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "wrong number of descriptors");
    answers = good();
    answers.files = 3; /* the first is taken for memory, and is none */
    check_rejected(answers, TARN_DRIVER_FAILURE, "cuMemImportFromShareableHandle");
    answers.files = 60;
    check_rejected(answers, TARN_DRIVER_FAILURE, "cuMemImportFromShareableHandle");
}

TEST(a_descriptor_of_no_memory_is_rejected_by_the_driver)
{
    skip_on_gpu(); /* its message differs */
    check_rejected(good(), TARN_DRIVER_FAILURE, "cuMemImportFromShareableHandle");
}

TEST(the_message_of_a_rejection_is_escaped_and_bounded)
{
    struct script answers = good();

    answers.files = 0;
    answers.reply.status = TARN_NOT_FOUND;
    memset(answers.reply.message, '\x1b', sizeof answers.reply.message); /* no end */
    check_rejected(answers, TARN_NOT_FOUND, "rejected the request: ????");
    answers.reply.status = 12345;
    check_rejected(answers, TARN_SYSTEM_FAILURE, "rejected the request: ????");
}
