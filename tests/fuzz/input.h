/* input.h -- the bytes of a fuzz target, as a source that is read in portions. */
#ifndef TARN_FUZZ_INPUT_H
#define TARN_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

struct input {
    const uint8_t *at, *end;
    size_t portion; /* bytes that a read returns at most */
};

static inline long read_input(void *data, char *buffer, size_t capacity)
{
    struct input *input = data;
    size_t count = (size_t)(input->end - input->at);

    if (count > capacity)
        count = capacity;
    if (count > input->portion)
        count = input->portion;
    if (count > 0)
        memcpy(buffer, input->at, count);
    input->at += count;
    return (long)count;
}

#endif
