/* argument.c -- arguments of an exception that are known at run time alone. */
#include "aot/argument.h"
#include "aot/pickle.h"
#include <stdarg.h>
#include <string.h>
#include <tarn/nrt.h>

/* The item of a tuple that nothing was set for, or that there was no memory for. */
static struct tarn__value unknown = {.kind = TARN__VALUE_LATER};

/* Allocate a value with `bytes` behind it. */
static struct tarn__value *allocate(enum tarn__value_kind kind, size_t bytes)
{
    struct tarn__value *value = tarn_nrt_Allocate(sizeof *value + bytes);

    if (value)
        *value = (struct tarn__value){.kind = kind};
    return value;
}

/* Depth first: a tuple is freed when it has no items left. */
void tarn__argument_free(struct tarn__value *value)
{
    struct tarn__value *path[16];
    size_t depth = 0;

    if (!value || value == &unknown)
        return;
    path[depth++] = value;
    while (depth > 0) {
        struct tarn__value *top = path[depth - 1];
        if (top->kind != TARN__VALUE_TUPLE || top->tuple.count == 0) {
            tarn_nrt_Free(top);
            depth--;
            continue;
        }
        struct tarn__value *item =
            (struct tarn__value *)top->tuple.items[--top->tuple.count];
        if (item != &unknown && depth < sizeof path / sizeof *path)
            path[depth++] = item;
    }
}

/* --- numbers --- */

static struct tarn__value *copy(struct tarn__value number)
{
    struct tarn__value *value = allocate(number.kind, 0);

    if (value)
        *value = number;
    return value;
}

struct tarn__value *tarn__argument_signed(int64_t whole)
{
    return copy((struct tarn__value){.kind = TARN__VALUE_SIGNED, .whole = whole});
}

struct tarn__value *tarn__argument_unsigned(uint64_t natural)
{
    return copy((struct tarn__value){.kind = TARN__VALUE_UNSIGNED, .natural = natural});
}

struct tarn__value *tarn__argument_float(double real)
{
    return copy((struct tarn__value){.kind = TARN__VALUE_REAL, .real = real});
}

struct tarn__value *tarn__argument_boolean(int64_t is_true)
{
    return copy((struct tarn__value){.kind = TARN__VALUE_BOOLEAN, .whole = is_true});
}

/* --- texts --- */

static uint32_t character_at(int32_t kind, const void *characters, size_t index)
{
    switch (kind) {
    case 1:
        return ((const uint8_t *)characters)[index];
    case 2:
        return ((const uint16_t *)characters)[index];
    default:
        return ((const uint32_t *)characters)[index];
    }
}

/* Write a character as UTF-8; returns its number of bytes, 4 at most. */
static size_t encode(uint32_t character, char *out)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t bytes = character < 0x80      ? 1
                   : character < 0x800   ? 2
                   : character < 0x10000 ? 3
                                         : 4;

    if (bytes == 1) {
        out[0] = (char)character;
        return 1;
    }
    for (size_t i = bytes - 1; i > 0; i--, character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(first[bytes] | character);
    return bytes;
}

/* Copy a text behind a new value. */
static struct tarn__value *copy_text(enum tarn__value_kind kind, const char *text,
                                     size_t bytes)
{
    struct tarn__value *value = allocate(kind, bytes);

    if (!value)
        return NULL;
    value->text.at = memcpy(value + 1, text, bytes);
    value->text.bytes = bytes;
    return value;
}

struct tarn__value *tarn__argument_text(int32_t kind, const void *characters,
                                        int64_t length)
{
    struct tarn__value *value = allocate(TARN__VALUE_TEXT, 4 * (size_t)length);

    if (!value)
        return NULL;
    char *out = (char *)(value + 1);
    for (int64_t i = 0; i < length; i++)
        out += encode(character_at(kind, characters, (size_t)i), out);
    value->text.at = (char *)(value + 1);
    value->text.bytes = (size_t)(out - value->text.at);
    return value;
}

int64_t tarn__argument_hash(const struct tarn__value *value)
{
    (void)value;
    return 0;
}

struct tarn__value *tarn__argument_pickled(const void *bytes, int32_t count,
                                           const void *digest)
{
    struct tarn__pickle pickle;
    char shown[200] = "";
    struct tarn__value_writer writer = {.out = shown, .bytes = sizeof shown};
    const struct tarn__value *value = tarn__pickle_read(&pickle, bytes, (size_t)count);

    (void)digest;
    if (!value)
        return NULL;
    if (value->kind == TARN__VALUE_TEXT)
        return copy_text(TARN__VALUE_TEXT, value->text.at, value->text.bytes);
    tarn__value_show(&writer, value);
    return copy_text(TARN__VALUE_SHOWN, shown, writer.used);
}

/* --- tuples --- */

struct tarn__value *tarn__argument_tuple(int64_t count)
{
    size_t items = (size_t)count;
    struct tarn__value *value = allocate(TARN__VALUE_TUPLE, items * sizeof(void *));

    if (!value)
        return NULL;
    value->tuple.items = (const struct tarn__value **)(value + 1);
    value->tuple.count = items;
    for (size_t i = 0; i < items; i++)
        value->tuple.items[i] = &unknown;
    return value;
}

int32_t tarn__argument_set(struct tarn__value *tuple, int64_t index,
                           struct tarn__value *item)
{
    if (!tuple)
        tarn__argument_free(item);
    else if (item)
        tuple->tuple.items[index] = item;
    return 0;
}

struct tarn__value *tarn__argument_pack(int64_t count, ...)
{
    struct tarn__value *tuple = tarn__argument_tuple(count);
    va_list items;

    va_start(items, count);
    for (int64_t i = 0; i < count; i++)
        tarn__argument_set(tuple, i, va_arg(items, struct tarn__value *));
    va_end(items);
    return tuple;
}
