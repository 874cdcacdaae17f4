/* Test one message with an optional descriptor: the unit of all traffic between owner and
 * importer. */
#define _GNU_SOURCE
#include "test.h"
#include "ipc/descriptor.h"
#include "ipc/wire.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES = 3 };

static int line[2]; /* messages from 1 arrive at 0 */

static void begin(void)
{
    CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line));
}

static void end(void)
{
    close(line[0]);
    close(line[1]);
}

/* Of this process, except those of the listing itself. */
static int open_files(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;

    CHECK(list != NULL);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

/* Send `bytes` of a request, with this many descriptors that a program would inherit over
 * exec(). */
static void send_message(size_t bytes, int files)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FILES * sizeof(int))];
    } control;
    static char message[2 * sizeof(struct tarn__wire_request)];
    struct iovec part = {message, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    int sent[FILES];

    for (int i = 0; i < files; i++) {
        sent[i] = open("/dev/null", O_RDONLY); /* not O_CLOEXEC */
        CHECK(sent[i] >= 0);
    }
    if (files > 0) {
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){CMSG_LEN((size_t)files * sizeof(int)),
                                          SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), sent, (size_t)files * sizeof(int));
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE((size_t)files * sizeof(int));
    }
    CHECK_EQUAL(bytes, sendmsg(line[1], &header, 0));
    for (int i = 0; i < files; i++)
        close(sent[i]);
}

static enum tarn__wire_result receive_message(int *file_out)
{
    struct tarn__wire_request request;

    return tarn__wire_receive(line[0], &request, sizeof request, file_out);
}

TEST(descriptor_that_comes_is_closed_when_the_program_becomes_another_one)
{
    int file = -1;

    begin();
    send_message(sizeof(struct tarn__wire_request), 1);
    CHECK_EQUAL(TARN__WIRE_WHOLE, receive_message(&file));
    CHECK(file >= 0);
    CHECK(fcntl(file, F_GETFD) & FD_CLOEXEC);
    tarn__descriptor_close(file);
    end();
}

TEST(descriptor_that_the_driver_exports_is_closed_when_the_program_becomes_another_one)
{
    int exported = open("/dev/null", O_RDONLY), file = -1;

    tarn__descriptor_lock();
    CHECK_EQUAL(CUDA_SUCCESS_,
                tarn__descriptor_record_exported(CUDA_SUCCESS_, exported, &file));
    CHECK_EQUAL(exported, file);
    CHECK(fcntl(file, F_GETFD) & FD_CLOEXEC);
    tarn__descriptor_close(file);
}

TEST(unrequested_descriptors_are_closed)
{
    int before, file = -1;

    begin();
    before = open_files();
    send_message(sizeof(struct tarn__wire_request), FILES);
    CHECK_EQUAL(TARN__WIRE_WHOLE, receive_message(&file)); /* the first is wanted */
    CHECK_EQUAL(before + 1, open_files());
    tarn__descriptor_close(file);
    send_message(sizeof(struct tarn__wire_request), FILES);
    CHECK_EQUAL(TARN__WIRE_WHOLE, receive_message(NULL)); /* none is */
    CHECK_EQUAL(before, open_files());
    end();
}

TEST(descriptor_of_a_message_of_another_size_is_closed)
{
    static const size_t sizes[] = {1, sizeof(struct tarn__wire_request) - 1,
                                   sizeof(struct tarn__wire_request) + 1};
    int before, untouched = 77;

    begin();
    before = open_files();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_message(sizes[i], 1);
        CHECK_EQUAL(TARN__WIRE_WRONG, receive_message(&untouched));
        CHECK_EQUAL(77, untouched);
        CHECK_EQUAL(before, open_files());
    }
    CHECK_EQUAL(0, tarn__descriptor_count());
    end();
}

TEST(silence_differs_from_the_end_of_a_connection)
{
    int untouched = 77;

    begin();
    CHECK_EQUAL(TARN__WIRE_NOTHING, receive_message(&untouched));
    close(line[1]);
    CHECK_EQUAL(TARN__WIRE_END, receive_message(&untouched));
    CHECK_EQUAL(77, untouched);
    close(line[0]);
}
