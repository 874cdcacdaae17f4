/* value.h -- arguments of an exception: numbers, texts and tuples of them. */
#ifndef TARN_AOT_VALUE_H
#define TARN_AOT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tarn__value_kind {
    TARN__VALUE_SIGNED,
    TARN__VALUE_UNSIGNED,
    TARN__VALUE_REAL,
    TARN__VALUE_BOOLEAN, /* `whole` */
    TARN__VALUE_NONE,
    TARN__VALUE_TEXT,  /* UTF-8 */
    TARN__VALUE_SHOWN, /* UTF-8 that shows a value; no quotes around it */
    TARN__VALUE_TUPLE,
    TARN__VALUE_LATER /* a value known at run time alone */
};

struct tarn__value {
    enum tarn__value_kind kind;
    union {
        int64_t whole;
        uint64_t natural;
        double real;
        struct {
            const char *at;
            size_t bytes;
        } text;
        struct {
            const struct tarn__value *
                *items; /* NULL items: no memory was left for them */
            size_t count;
        } tuple;
    };
};

/* A text of limited length that is being written; always NUL-terminated. */
struct tarn__value_writer {
    char *out;
    size_t bytes; /* of `out`, the NUL included; not 0 */
    size_t used;  /* without the NUL; less than `bytes` */
};

/* Append bytes, as many as fit. */
void tarn__value_put(struct tarn__value_writer *writer, const char *text, size_t bytes);

/* Append a value as Python's repr() shows it. */
void tarn__value_show(struct tarn__value_writer *writer, const struct tarn__value *value);

/* Append the arguments of an exception of class `name` as Python shows them in a
 * traceback, with a colon before them. `later` has the values that are known at run time
 * alone, in their order; NULL: unknown. */
void tarn__value_show_arguments(struct tarn__value_writer *writer, const char *name,
                                size_t name_bytes, const struct tarn__value *arguments,
                                const struct tarn__value *later);

#endif
