/* stack_table.h -- the strings, frames and stacks of this process, each with a number. */
#ifndef TARN_TRACE_STACK_TABLE_H
#define TARN_TRACE_STACK_TABLE_H

#include <stdbool.h>
#include <tarn/stack.h>

/* A frame as numbers of strings in the table; 0: no string. */
struct tarn__stack_table_frame {
    uint32_t function, file;
    uint32_t build_id; /* not 0 in a native frame */
    int32_t line;
    uint64_t offset;
};

/* Return the number of a string or of a frame; 0: there is no space. */
uint32_t tarn__stack_table_string(const char *text);
uint32_t tarn__stack_table_add_frame(const struct tarn__stack_table_frame *frame);

/* Return a string by its number (0 is ""), valid permanently. */
const char *tarn__stack_table_text(uint32_t string);
/* Copy a frame; false: there is none with that number. */
bool tarn__stack_table_frame(uint32_t number, struct tarn__stack_table_frame *out);
/* Copy the numbers of the frames of a stack, 0 for one that is missing. Returns the number
 * of all frames. */
size_t tarn__stack_table_numbers(tarn_stack stack, size_t capacity, uint32_t *frames);
/* Copy the frames of a stack. Returns the number of all. */
size_t tarn__stack_table_frames(tarn_stack stack, size_t capacity,
                                struct tarn__stack_table_frame *frames);

#endif
