/* input.h -- the bytes of a log, from a function of the caller. */
#ifndef TARN_TRACE_INPUT_H
#define TARN_TRACE_INPUT_H

#include <tarn/trace.h>

/* Returned instead of a byte. errno tells the reason of a failure; 0: none was given. */
enum { TARN__INPUT_END = -1, TARN__INPUT_FAILED = -2 };

struct tarn__input {
    const char *name; /* of the log, for messages; borrowed */
    tarn_trace_read_fn read;
    void *data;           /* of `read` */
    unsigned char *bytes; /* read and not yet taken; owned */
    size_t at, count;
    int ended; /* 0, or what every further read returns */
    int error; /* errno of the failure */
};

/* False: no host memory. */
bool tarn__input_open(struct tarn__input *input, const char *name,
                      tarn_trace_read_fn read, void *data);
void tarn__input_close(struct tarn__input *input);

/* Read more bytes behind those not yet taken. 0, or TARN__INPUT_…. */
int tarn__input_fill(struct tarn__input *input);

/* Take a byte, or return TARN__INPUT_…. */
static inline int tarn__input_byte(struct tarn__input *input)
{
    if (input->at == input->count) {
        int ended = tarn__input_fill(input);
        if (ended)
            return ended;
    }
    return input->bytes[input->at++];
}

/* Return true if the log begins with those bytes, at most 16, and take none. */
bool tarn__input_begins_with(struct tarn__input *input, const void *bytes, size_t count);

/* Take `count` bytes. `*got` is less at the end of the log. A failed read is an error
 * with a message. */
tarn_status tarn__input_take(struct tarn__input *input, void *out, size_t count,
                             size_t *got);

#endif
