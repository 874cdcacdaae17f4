/* bytes.c -- a growing array of bytes, and the numbers of a data block in it. */
#include "bytes.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

void bytes_add(struct bytes *bytes, const void *data, size_t count)
{
    bytes->data = memory_grow(bytes->data, &bytes->capacity, bytes->count + count, 1);
    if (count > 0)
        memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void bytes_add_number(struct bytes *bytes, uint64_t value)
{
    unsigned char text[10];
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        text[count++] = (unsigned char)(value | 0x80);
    text[count++] = (unsigned char)value;
    bytes_add(bytes, text, count);
}

void bytes_add_change(struct bytes *bytes, uint64_t from, uint64_t to)
{
    uint64_t change = to - from; /* modulo 2^64 */

    bytes_add_number(bytes, change << 1 ^ (change >> 63 ? UINT64_MAX : 0));
}

void bytes_add_fixed(struct bytes *bytes, uint64_t value, int count)
{
    unsigned char text[8];

    for (int i = 0; i < count; i++, value >>= 8)
        text[i] = (unsigned char)value;
    bytes_add(bytes, text, (size_t)count);
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){.count = 0};
}
