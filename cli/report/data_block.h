/* data_block.h -- a data block of the page: tagged sections, and one table of strings.
 *
 * docs/design/report-data.md has the layout. */
#ifndef TARN_CLI_REPORT_DATA_BLOCK_H
#define TARN_CLI_REPORT_DATA_BLOCK_H

#include "bytes.h"
#include "names.h"

enum { DATA_BLOCK_SECTIONS = 20 };

struct data_block {
    struct names strings;
    struct data_section {
        char tag[5];
        struct bytes bytes;
    } sections[DATA_BLOCK_SECTIONS];
    size_t count;
};

/* Begin a section and return its bytes; they stay valid until the block is freed. */
struct bytes *data_block_section(struct data_block *block, const char tag[5]);
/* Add the number of a string, which is added to the table. */
void data_block_string(struct data_block *block, struct bytes *bytes, const char *text);
/* Write the whole block, with its table of strings, behind what `out` has. */
void data_block_write(struct data_block *block, struct bytes *out);
/* Return the size of the block without the table of strings, in bytes. */
size_t data_block_size(const struct data_block *block);
void data_block_free(struct data_block *block);

#endif
