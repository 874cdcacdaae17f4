/* bytes.h -- a growing array of bytes, and the numbers of a data block in it. */
#ifndef TARN_CLI_REPORT_BYTES_H
#define TARN_CLI_REPORT_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *data;
    size_t count, capacity;
};

void bytes_add(struct bytes *bytes, const void *data, size_t count);
/* Add an unsigned LEB128 number. */
void bytes_add_number(struct bytes *bytes, uint64_t value);
/* Add the difference `to - from` in zigzag LEB128; both are below 2^63. */
void bytes_add_change(struct bytes *bytes, uint64_t from, uint64_t to);
/* Add a fixed number of `count` bytes, little endian. */
void bytes_add_fixed(struct bytes *bytes, uint64_t value, int count);
void bytes_free(struct bytes *bytes);

#endif
