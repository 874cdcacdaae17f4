/* call.c -- support around a call of compiled code: arrays for it, error messages from
 * it.
 *
 * The bytes of an error are a pickle of a tuple whose first items are the exception's
 * class and its arguments. A pickle is a small program; only its texts matter here, in
 * their order: the module and the name of the class, then the first text among the
 * arguments.
 */
#include "aot/alias.h"
#include <stdio.h>
#include <string.h>
#include <tarn/aot.h>

/* Bytes that are still unread. */
struct bytes {
    const unsigned char *at;
    size_t left;
};

/* If the instruction `code` carries a text, the number of bytes of its length field; else
 * 0. */
static size_t length_bytes(unsigned char code)
{
    switch (code) {
    case 0x8c: /* SHORT_BINUNICODE */
        return 1;
    case 'X': /* BINUNICODE */
        return 4;
    default:
        return 0;
    }
}

/* How many bytes follow the other instructions that Python writes for such a tuple? */
static size_t argument_bytes(unsigned char code)
{
    switch (code) {
    case 0x80: /* PROTO */
    case 'K':  /* BININT1 */
    case 'h':  /* BINGET */
    case 'q':  /* BINPUT */
        return 1;
    case 'M': /* BININT2 */
        return 2;
    case 'J': /* BININT */
    case 'j': /* LONG_BINGET */
    case 'r': /* LONG_BINPUT */
        return 4;
    case 0x95: /* FRAME */
    case 'G':  /* BINFLOAT */
        return 8;
    default:
        return 0;
    }
}

static void skip(struct bytes *bytes, size_t count)
{
    count = count < bytes->left ? count : bytes->left;
    bytes->at += count;
    bytes->left -= count;
}

/* The next text: its beginning and length; NULL at the end. */
static const char *next_text(struct bytes *bytes, size_t *length)
{
    while (bytes->left > 0) {
        unsigned char code = *bytes->at;
        size_t digits = length_bytes(code);
        skip(bytes, 1);
        if (digits == 0) {
            skip(bytes, argument_bytes(code));
            continue;
        }
        if (bytes->left < digits)
            return NULL;
        *length = 0;
        memcpy(length, bytes->at, digits); /* little-endian, as the machine is */
        skip(bytes, digits);
        const char *text = (const char *)bytes->at;
        if (*length > bytes->left)
            return NULL;
        skip(bytes, *length);
        return text;
    }
    return NULL;
}

const char *tarn_aot_error_message(const tarn_aot_error *error, char *out, size_t bytes)
{
    struct bytes rest = {error ? error->pickle : NULL, error && error->pickle_bytes > 0
                                                           ? (size_t)error->pickle_bytes
                                                           : 0};
    size_t all = rest.left, module_length, class_length, text_length;
    const char *module = next_text(&rest, &module_length);
    const char *class = module ? next_text(&rest, &class_length) : NULL;
    const char *text = class ? next_text(&rest, &text_length) : NULL;

    if (!class)
        snprintf(out, bytes, "an exception of %zu bytes", all);
    else if (!text)
        snprintf(out, bytes, "%.*s", (int)class_length, class);
    else
        snprintf(out, bytes, "%.*s: %.*s", (int)class_length, class, (int)text_length,
                 text);
    return out;
}

tarn_aot_array1 tarn_aot_array1_of(NRT_MemInfo *meminfo, double *data, int64_t items)
{
    return (tarn_aot_array1){.meminfo = meminfo,
                             .items = items,
                             .item_bytes = sizeof *data,
                             .data = data,
                             .shape = {items},
                             .strides = {sizeof *data}};
}

void tarn_aot_gdb_breakpoint(void)
{
}

TARN__ALIAS(gdb_breakpoint);
