/* value.c -- the arguments of an exception as text, as Python shows them. */
#define _GNU_SOURCE
#include "aot/value.h"
#include "base/c_locale.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tarn__value_put(struct tarn__value_writer *writer, const char *text, size_t bytes)
{
    size_t space = writer->bytes - writer->used - 1;

    bytes = bytes < space ? bytes : space;
    memcpy(writer->out + writer->used, text, bytes);
    writer->used += bytes;
    writer->out[writer->used] = '\0';
}

static void put(struct tarn__value_writer *writer, const char *text)
{
    tarn__value_put(writer, text, strlen(text));
}

/* Append the shortest digits that give the number again. */
static void put_real(struct tarn__value_writer *writer, double real)
{
    char digits[40];

    if (isnan(real)) {
        put(writer, "nan");
        return;
    }
    if (isinf(real)) {
        put(writer, real > 0 ? "inf" : "-inf");
        return;
    }
    locale_t former = tarn__c_locale_begin();

    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, real);
        if (strtod(digits, NULL) == real)
            break;
    }
    if (fabs(real) >= 1e4 && fabs(real) < 1e16 && strchr(digits, 'e')) /* 1e+05 */
        snprintf(digits, sizeof digits, "%.1f", real);
    tarn__c_locale_end(former);
    put(writer, digits);
    if (!strpbrk(digits, ".e"))
        put(writer, ".0");
}

/* Append one byte of a text in quotes. */
static void put_quoted_byte(struct tarn__value_writer *writer, char byte, char quote)
{
    char escaped[8];
    unsigned char code = (unsigned char)byte;
    static const char *const names[] = {['\t'] = "\\t", ['\n'] = "\\n", ['\r'] = "\\r"};

    if (byte == quote || byte == '\\')
        snprintf(escaped, sizeof escaped, "\\%c", byte);
    else if (code <= '\r' && names[code])
        snprintf(escaped, sizeof escaped, "%s", names[code]);
    else if (code < ' ' || code == 0x7f)
        snprintf(escaped, sizeof escaped, "\\x%02x", code);
    else
        snprintf(escaped, sizeof escaped, "%c", byte);
    put(writer, escaped);
}

static void put_quoted(struct tarn__value_writer *writer, const char *text, size_t bytes)
{
    bool has_single = memchr(text, '\'', bytes), has_double = memchr(text, '"', bytes);
    char quote = has_single && !has_double ? '"' : '\'';

    tarn__value_put(writer, &quote, 1);
    for (size_t i = 0; i < bytes; i++)
        put_quoted_byte(writer, text[i], quote);
    tarn__value_put(writer, &quote, 1);
}

static void put_number(struct tarn__value_writer *writer, const struct tarn__value *value)
{
    char digits[24];

    if (value->kind == TARN__VALUE_SIGNED)
        snprintf(digits, sizeof digits, "%lld", (long long)value->whole);
    else
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)value->natural);
    put(writer, digits);
}

/* Show a value outside of a tuple. */
static void show_single(struct tarn__value_writer *writer,
                        const struct tarn__value *value)
{
    switch (value->kind) {
    case TARN__VALUE_SIGNED:
    case TARN__VALUE_UNSIGNED:
        put_number(writer, value);
        break;
    case TARN__VALUE_REAL:
        put_real(writer, value->real);
        break;
    case TARN__VALUE_BOOLEAN:
        put(writer, value->whole ? "True" : "False");
        break;
    case TARN__VALUE_NONE:
        put(writer, "None");
        break;
    case TARN__VALUE_TEXT:
        put_quoted(writer, value->text.at, value->text.bytes);
        break;
    case TARN__VALUE_SHOWN:
        tarn__value_put(writer, value->text.at, value->text.bytes);
        break;
    default:
        put(writer, "...");
    }
}

/* A tuple that is being shown, and its next item. */
struct place {
    const struct tarn__value *tuple;
    size_t next;
};

enum { DEEPEST = 16 };

static bool is_tuple(const struct tarn__value *value)
{
    return value->kind == TARN__VALUE_TUPLE &&
           (value->tuple.items || !value->tuple.count);
}

void tarn__value_show(struct tarn__value_writer *writer, const struct tarn__value *value)
{
    struct place places[DEEPEST];
    size_t depth = 0;

    if (!is_tuple(value)) {
        show_single(writer, value);
        return;
    }
    places[depth++] = (struct place){value, 0};
    put(writer, "(");
    while (depth > 0) {
        struct place *place = &places[depth - 1];
        size_t count = place->tuple->tuple.count;
        if (place->next == count) {
            put(writer, count == 1 ? ",)" : ")");
            depth--;
            continue;
        }
        put(writer, place->next ? ", " : "");
        const struct tarn__value *item = place->tuple->tuple.items[place->next++];
        if (!is_tuple(item)) {
            show_single(writer, item);
        } else if (depth == DEEPEST) {
            put(writer, "(...)");
        } else {
            places[depth++] = (struct place){item, 0};
            put(writer, "(");
        }
    }
}

/* The arguments with the values of the run: at most as many as a message shows. */
enum { MOST_ARGUMENTS = 64 };

/* Fill in the values of the run; returns the number of arguments. */
static size_t merge(const struct tarn__value **items, const struct tarn__value *arguments,
                    const struct tarn__value *later)
{
    size_t count = arguments->tuple.count, used = 0;

    count = count < MOST_ARGUMENTS ? count : MOST_ARGUMENTS;
    for (size_t i = 0; i < count; i++) {
        items[i] = arguments->tuple.items[i];
        if (items[i]->kind == TARN__VALUE_LATER && later && used < later->tuple.count)
            items[i] = later->tuple.items[used++];
    }
    return count;
}

void tarn__value_show_arguments(struct tarn__value_writer *writer, const char *name,
                                size_t name_bytes, const struct tarn__value *arguments,
                                const struct tarn__value *later)
{
    const struct tarn__value *items[MOST_ARGUMENTS];

    if (!is_tuple(arguments) || arguments->tuple.count == 0)
        return;
    struct tarn__value all = {.kind = TARN__VALUE_TUPLE};
    all.tuple.count = merge(items, arguments, later && is_tuple(later) ? later : NULL);
    all.tuple.items = items;
    put(writer, ": ");
    bool quotes = name_bytes == 8 && memcmp(name, "KeyError", 8) == 0;
    if (all.tuple.count > 1)
        tarn__value_show(writer, &all);
    else if (items[0]->kind == TARN__VALUE_TEXT && !quotes)
        tarn__value_put(writer, items[0]->text.at, items[0]->text.bytes);
    else
        tarn__value_show(writer, items[0]);
}
