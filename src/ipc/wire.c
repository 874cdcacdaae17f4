/* wire.c -- send and receive one message, perhaps with a descriptor, and nothing
 * unrequested. */
#define _GNU_SOURCE
#include "ipc/wire.h"
#include "ipc/descriptor.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES_AT_ONCE = 4 }; /* the system drops descriptors beyond this number */

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(FILES_AT_ONCE * sizeof(int))];
};

/* Under the lock of files: note the first descriptor of a message, close the others. */
static int take_first(struct msghdr *message)
{
    int first = -1;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
            if (first < 0)
                first = tarn__descriptor_record(file);
            else
                close(file);
        }
    }
    return first;
}

static enum tarn__wire_result judge(ssize_t got, int why, int flags, size_t bytes)
{
    if (got < 0)
        return why == EAGAIN || why == EINTR ? TARN__WIRE_NOTHING : TARN__WIRE_END;
    if (got == 0)
        return TARN__WIRE_END; /* an empty message is treated as the end */
    return (size_t)got == bytes && !(flags & MSG_TRUNC) ? TARN__WIRE_WHOLE
                                                        : TARN__WIRE_WRONG;
}

enum tarn__wire_result tarn__wire_receive(int connection, void *message, size_t bytes,
                                          int *file_out)
{
    union control control;
    struct iovec part = {message, bytes};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = file_out ? control.bytes : NULL,
                            .msg_controllen = file_out ? sizeof control : 0};

    tarn__descriptor_lock();
    ssize_t got = recvmsg(connection, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int why = errno;
    int file = got >= 0 && file_out ? take_first(&header) : -1;
    tarn__descriptor_unlock();
    enum tarn__wire_result came = judge(got, why, header.msg_flags, bytes);
    if (came != TARN__WIRE_WHOLE) {
        tarn__descriptor_close(file);
        return came;
    }
    if (file_out)
        *file_out = file;
    return came;
}

bool tarn__wire_send(int connection, const void *message, size_t bytes, int file)
{
    union control control;
    struct iovec part = {(void *)(uintptr_t)message, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

    if (file >= 0) {
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &file, sizeof file);
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof file);
    }
    return sendmsg(connection, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

bool tarn__wire_peer(int connection, int *process_out)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        peer.uid != geteuid())
        return false;
    if (process_out)
        *process_out = (int)peer.pid;
    return true;
}
