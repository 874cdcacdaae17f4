/* input.c -- the bytes of a log, from a function of the caller. */
#include "trace/input.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 64 * 1024, FIRST_BYTES_MAX = 16 };

bool tarn__input_open(struct tarn__input *input, const char *name,
                      tarn_trace_read_fn read, void *data)
{
    *input = (struct tarn__input){.name = name, .read = read, .data = data};
    input->bytes = malloc(BUFFER_BYTES);
    return input->bytes != NULL;
}

void tarn__input_close(struct tarn__input *input)
{
    free(input->bytes);
    input->bytes = NULL;
}

int tarn__input_fill(struct tarn__input *input)
{
    if (input->ended) {
        errno = input->error;
        return input->ended;
    }
    if (input->at == input->count)
        input->at = input->count = 0;
    size_t capacity = BUFFER_BYTES - input->count;
    errno = 0;
    long count = input->read(input->data, (char *)input->bytes + input->count, capacity);
    if (count > 0 && (size_t)count <= capacity) {
        input->count += (size_t)count;
        return 0;
    }
    input->error = errno;
    return input->ended = count == 0 ? TARN__INPUT_END : TARN__INPUT_FAILED;
}

bool tarn__input_begins_with(struct tarn__input *input, const void *bytes, size_t count)
{
    while (input->count - input->at < count && count <= FIRST_BYTES_MAX)
        if (tarn__input_fill(input) != 0)
            return false;
    return memcmp(input->bytes + input->at, bytes, count) == 0;
}

tarn_status tarn__input_take(struct tarn__input *input, void *out, size_t count,
                             size_t *got)
{
    size_t done = 0;

    while (done < count) {
        int ended = input->at == input->count ? tarn__input_fill(input) : 0;
        if (ended == TARN__INPUT_FAILED)
            return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                         "%.200s: cannot read: %s", input->name,
                                         errno ? strerror(errno) : "no reason given");
        if (ended)
            break;
        size_t part = input->count - input->at;
        if (part > count - done)
            part = count - done;
        memcpy((char *)out + done, input->bytes + input->at, part);
        input->at += part;
        done += part;
    }
    *got = done;
    return TARN_OK;
}
