/* data_block.c -- a data block of the page: tagged sections, and one table of strings. */
#include "data_block.h"
#include <string.h>
#include <zlib.h>

enum { HEADER_BYTES = 16, ENTRY_BYTES = 16, MAJOR = 1, MINOR = 0 };

struct bytes *data_block_section(struct data_block *block, const char tag[5])
{
    struct data_section *section = &block->sections[block->count++];

    memcpy(section->tag, tag, 5);
    return &section->bytes;
}

void data_block_string(struct data_block *block, struct bytes *bytes, const char *text)
{
    bytes_add_number(bytes, names_add(&block->strings, text));
}

/* Add the strings in the order of their numbers; each shares bytes with the last one. */
static void add_strings(struct data_block *block)
{
    struct bytes *out = data_block_section(block, "STRS");
    struct names *strings = &block->strings;
    const char *before = "";

    names_add(strings, "");
    bytes_add_number(out, strings->count);
    for (size_t i = 0; i < strings->count; i++) {
        const char *text = names_text(strings, (uint32_t)i);
        size_t shared = 0;
        while (text[shared] != '\0' && text[shared] == before[shared])
            shared++;
        bytes_add_number(out, shared);
        bytes_add_number(out, strlen(text + shared));
        bytes_add(out, text + shared, strlen(text + shared));
        before = text;
    }
}

size_t data_block_size(const struct data_block *block)
{
    size_t size = HEADER_BYTES;

    for (size_t i = 0; i < block->count; i++)
        size += ENTRY_BYTES + block->sections[i].bytes.count;
    return size;
}

void data_block_write(struct data_block *block, struct bytes *out)
{
    add_strings(block);
    size_t offset = HEADER_BYTES + block->count * ENTRY_BYTES;

    bytes_add(out, "TARNREP", 8);
    bytes_add_fixed(out, MAJOR, 2);
    bytes_add_fixed(out, MINOR, 2);
    bytes_add_fixed(out, block->count, 4);
    for (size_t i = 0; i < block->count; i++) {
        const struct data_section *section = &block->sections[i];
        bytes_add(out, section->tag, 4);
        bytes_add_fixed(out, offset, 4);
        bytes_add_fixed(out, section->bytes.count, 4);
        bytes_add_fixed(out,
                        crc32(0, section->bytes.data, (unsigned)section->bytes.count), 4);
        offset += section->bytes.count;
    }
    for (size_t i = 0; i < block->count; i++)
        bytes_add(out, block->sections[i].bytes.data, block->sections[i].bytes.count);
}

void data_block_free(struct data_block *block)
{
    names_free(&block->strings);
    for (size_t i = 0; i < block->count; i++)
        bytes_free(&block->sections[i].bytes);
    block->count = 0;
}
