/* binary_names.h -- the strings, frames and stacks of a binary log, by their numbers. */
#ifndef TARN_TRACE_BINARY_NAMES_H
#define TARN_TRACE_BINARY_NAMES_H

#include <tarn/stack.h>
#include "base/map.h"
#include "trace/binary.h"

struct tarn__binary_names {
    struct tarn__map strings; /* number -> char *, owned */
    struct tarn__map frames;  /* number -> struct named_frame */
    struct tarn__map stacks;  /* number -> uint32_t, the frame of its location */
    size_t bytes;             /* of all strings and locations */
};

/* What became of a record. */
enum tarn__binary_name {
    TARN__BINARY_NAME_ADDED,
    TARN__BINARY_NAME_KNOWN,   /* its number has a meaning already, which stays */
    TARN__BINARY_NAME_INVALID, /* of a wrong size, or without a number */
    TARN__BINARY_NAME_NO_SPACE /* there are too many, or there is no host memory */
};

void tarn__binary_names_init(struct tarn__binary_names *names);
void tarn__binary_names_free(struct tarn__binary_names *names);

/* Add the payload of a record of that kind. */
enum tarn__binary_name tarn__binary_names_add_string(struct tarn__binary_names *names,
                                                     const void *payload, size_t bytes);
enum tarn__binary_name tarn__binary_names_add_frame(struct tarn__binary_names *names,
                                                    const void *payload, size_t bytes);
/* `frames` gets the `*count` frames of a stack that is added, the innermost first. */
enum tarn__binary_name tarn__binary_names_add_stack(
    struct tarn__binary_names *names, const void *payload, size_t bytes,
    tarn_stack *stack, tarn_stack_frame frames[TARN_STACK_DEPTH_MAX], size_t *count);

/* Return a string by its number; "" if there is none. */
const char *tarn__binary_names_text(const struct tarn__binary_names *names,
                                    uint32_t string);
/* Return true if the stack is in the log so far. */
bool tarn__binary_names_knows(const struct tarn__binary_names *names, tarn_stack stack);
/* The place of the program in a stack: "" if the stack is not known. False: no space. */
bool tarn__binary_names_location(struct tarn__binary_names *names, tarn_stack stack,
                                 const char **out);

#endif
