/* importer.c -- the second process of a soak, which opens the handles of the first. */
#define _GNU_SOURCE
#include "importer.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
    tarn_ipc_handle handle;
    unsigned char value;
};

static int line = -1; /* to the other process */
static pid_t child;

uint64_t device_bytes(tarn_resource *of_driver)
{
    size_t free_bytes, total;

    NEED(tarn_resource_memory_info(of_driver, TARN_STREAM_NONE, &free_bytes, &total));
    return total - free_bytes;
}

static uint64_t count_wrong(const tarn_pointer *pointer, unsigned char value)
{
    size_t bytes = tarn_pointer_bytes(pointer);
    unsigned char *host = malloc(bytes);
    uint64_t wrong = 0;

    if (!host)
        fail("no host memory for %zu bytes", bytes);
    NEED(tarn_memcpy_async(0, (uintptr_t)host, tarn_pointer_address(pointer), bytes,
                           TARN_STREAM_NONE));
    NEED(tarn_stream_synchronize(0, TARN_STREAM_NONE));
    for (size_t i = 0; i < bytes; i++)
        wrong += host[i] != value;
    free(host);
    return wrong;
}

static struct importer_answer answer_to(const struct request *request,
                                        tarn_resource *cuda)
{
    struct importer_answer answer = {0};
    tarn_pointer *pointer;
    uint64_t from = thread_ns();

    NEED(tarn_ipc_open(&request->handle, NULL, &pointer));
    answer.open_ns = thread_ns() - from;
    answer.wrong = count_wrong(pointer, request->value);
    from = thread_ns();
    NEED(tarn_pointer_release_checked(pointer));
    answer.open_ns += thread_ns() - from;
    answer.device_bytes = device_bytes(cuda);
    answer.figures = figures_now();
    return answer;
}

static void serve(void)
{
    struct request request;
    tarn_resource *cuda;

    NEED(tarn_cuda_create(0, &cuda));
    while (recv(line, &request, sizeof request, MSG_WAITALL) == sizeof request) {
        struct importer_answer answer = answer_to(&request, cuda);
        if (send(line, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
            fail("the owner has ended");
    }
    NEED(tarn_resource_release(cuda));
    exit(0);
}

void importer_start(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail("no socket pair");
    child = fork();
    if (child < 0)
        fail("no process for the importer");
    line = ends[child == 0];
    close(ends[child != 0]);
    if (child == 0)
        serve();
}

struct importer_answer importer_open(const tarn_ipc_handle *handle, unsigned char value)
{
    struct request request = {.handle = *handle, .value = value};
    struct importer_answer answer;

    if (send(line, &request, sizeof request, MSG_NOSIGNAL) != sizeof request ||
        recv(line, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
        fail("the importer has ended");
    if (answer.wrong > 0)
        fail("%zu of %zu bytes are wrong in the importer", (size_t)answer.wrong,
             handle->bytes);
    return answer;
}

void importer_end(void)
{
    int status = 0;

    close(line);
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the importer ended with status %#x", (unsigned)status);
}
