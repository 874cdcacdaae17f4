/* pickle.c -- reads what compiled code pickles: an exception, or a value.
 *
 * A pickle is a program for a machine with a stack. Here it can make numbers, texts and
 * tuples only. Of an object that compiled code puts in the place of an argument of the
 * run it makes one value, whatever its state. Nothing is imported or called.
 */
#include "aot/pickle.h"
#include <string.h>

static const struct tarn__value none = {.kind = TARN__VALUE_NONE};

/* --- bytes --- */

/* Take bytes; NULL if there are not so many. */
static const unsigned char *take(struct tarn__pickle *pickle, size_t count)
{
    const unsigned char *at = pickle->at;

    if (count > pickle->left)
        return NULL;
    pickle->at += count;
    pickle->left -= count;
    return at;
}

/* Take a little-endian number of up to 8 bytes. */
static bool take_number(struct tarn__pickle *pickle, size_t count, uint64_t *number)
{
    const unsigned char *at = take(pickle, count);

    *number = 0;
    if (at)
        memcpy(number, at, count); /* little-endian, as the machine is */
    return at;
}

/* --- the stack --- */

static bool push(struct tarn__pickle *pickle, const struct tarn__value *value)
{
    if (pickle->depth == TARN__PICKLE_VALUES)
        return false;
    pickle->stack[pickle->depth++] = value;
    return true;
}

/* Make room for a value and push it; NULL without room. */
static struct tarn__value *push_new(struct tarn__pickle *pickle,
                                    enum tarn__value_kind kind)
{
    if (pickle->value_count == TARN__PICKLE_VALUES)
        return NULL;
    struct tarn__value *value = &pickle->values[pickle->value_count++];
    *value = (struct tarn__value){.kind = kind};
    return push(pickle, value) ? value : NULL;
}

/* Return how many values are above the last mark; false without a mark. */
static bool above_mark(const struct tarn__pickle *pickle, size_t *count)
{
    for (*count = 0; *count < pickle->depth; ++*count)
        if (!pickle->stack[pickle->depth - 1 - *count])
            return true;
    return false;
}

/* Drop values; false if there are not so many. */
static bool drop(struct tarn__pickle *pickle, size_t count)
{
    if (count > pickle->depth)
        return false;
    pickle->depth -= count;
    return true;
}

/* Drop the values above the last mark, and the mark. */
static bool drop_to_mark(struct tarn__pickle *pickle)
{
    size_t count;

    return above_mark(pickle, &count) && drop(pickle, count + 1);
}

/* --- instructions --- */

static bool push_signed(struct tarn__pickle *pickle, int64_t whole)
{
    struct tarn__value *value = push_new(pickle, TARN__VALUE_SIGNED);

    if (value)
        value->whole = whole;
    return value;
}

static bool push_boolean(struct tarn__pickle *pickle, bool is_true)
{
    struct tarn__value *value = push_new(pickle, TARN__VALUE_BOOLEAN);

    if (value)
        value->whole = is_true;
    return value;
}

/* LONG1: an integer of any length, of which 8 bytes fit. */
static bool push_long(struct tarn__pickle *pickle)
{
    uint64_t bytes, number;

    if (!take_number(pickle, 1, &bytes) || bytes > 8 ||
        !take_number(pickle, bytes, &number))
        return false;
    if (bytes && bytes < 8 && number >> (8 * bytes - 1)) /* negative */
        number |= ~(uint64_t)0 << (8 * bytes);
    return push_signed(pickle, (int64_t)number);
}

/* BINFLOAT: eight bytes, the highest first. */
static bool push_real(struct tarn__pickle *pickle)
{
    uint64_t number;

    if (!take_number(pickle, 8, &number))
        return false;
    number = __builtin_bswap64(number);
    struct tarn__value *value = push_new(pickle, TARN__VALUE_REAL);
    if (value)
        memcpy(&value->real, &number, sizeof number);
    return value;
}

static bool push_text(struct tarn__pickle *pickle, size_t digits)
{
    uint64_t bytes;

    if (!take_number(pickle, digits, &bytes))
        return false;
    const unsigned char *at = take(pickle, bytes);
    struct tarn__value *value = at ? push_new(pickle, TARN__VALUE_TEXT) : NULL;
    if (!value)
        return false;
    value->text.at = (const char *)at;
    value->text.bytes = bytes;
    return true;
}

/* Replace the last `count` values by a tuple of them. */
static bool push_tuple(struct tarn__pickle *pickle, size_t count)
{
    const struct tarn__value **items = pickle->items + pickle->item_count;

    if (count > TARN__PICKLE_VALUES - pickle->item_count || !drop(pickle, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        items[i] = pickle->stack[pickle->depth + i];
        if (!items[i]) /* a mark */
            return false;
    }
    pickle->item_count += count;
    struct tarn__value *value = push_new(pickle, TARN__VALUE_TUPLE);
    if (!value)
        return false;
    value->tuple.items = items;
    value->tuple.count = count;
    return true;
}

static bool push_marked_tuple(struct tarn__pickle *pickle)
{
    size_t count;

    if (!above_mark(pickle, &count))
        return false;
    if (!push_tuple(pickle, count))
        return false;
    const struct tarn__value *tuple = pickle->stack[pickle->depth - 1];
    return drop(pickle, 2) && push(pickle, tuple); /* the mark too */
}

/* STACK_GLOBAL: the name of a class in a module. */
static bool push_class(struct tarn__pickle *pickle)
{
    if (pickle->depth < 2)
        return false;
    const struct tarn__value *name = pickle->stack[pickle->depth - 1];
    if (!name || name->kind != TARN__VALUE_TEXT)
        return false;
    drop(pickle, 2);
    struct tarn__value *value = push_new(pickle, TARN__VALUE_SHOWN);
    if (value)
        value->text = name->text;
    return value;
}

/* NEWOBJ, REDUCE: an object of a class and arguments. */
static bool push_object(struct tarn__pickle *pickle)
{
    return drop(pickle, 2) && push_new(pickle, TARN__VALUE_LATER);
}

static bool remember(struct tarn__pickle *pickle)
{
    if (pickle->depth == 0 || pickle->memo_count == TARN__PICKLE_VALUES)
        return false;
    pickle->memo[pickle->memo_count++] = pickle->stack[pickle->depth - 1];
    return true;
}

static bool push_remembered(struct tarn__pickle *pickle, size_t digits)
{
    uint64_t number;

    return take_number(pickle, digits, &number) && number < pickle->memo_count &&
           push(pickle, pickle->memo[number]);
}

static bool push_integer(struct tarn__pickle *pickle, size_t digits)
{
    uint64_t number;

    if (!take_number(pickle, digits, &number))
        return false;
    return push_signed(pickle, digits == 4 ? (int32_t)number : (int64_t)number);
}

/* Carry out an instruction on objects and containers; false if it is unknown or does not
 * fit. */
static bool step_object(struct tarn__pickle *pickle, unsigned char code)
{
    switch (code) {
    case ')': /* EMPTY_TUPLE */
        return push_tuple(pickle, 0);
    case 0x85: /* TUPLE1 */
    case 0x86: /* TUPLE2 */
    case 0x87: /* TUPLE3 */
        return push_tuple(pickle, code - 0x84);
    case 't': /* TUPLE */
        return push_marked_tuple(pickle);
    case '(': /* MARK */
        return push(pickle, NULL);
    case 0x93: /* STACK_GLOBAL */
        return push_class(pickle);
    case 0x81: /* NEWOBJ */
    case 'R':  /* REDUCE */
        return push_object(pickle);
    case '}': /* EMPTY_DICT */
    case ']': /* EMPTY_LIST */
        return push_new(pickle, TARN__VALUE_LATER);
    case 'u': /* SETITEMS */
    case 'e': /* APPENDS */
        return drop_to_mark(pickle);
    case 's': /* SETITEM */
        return drop(pickle, 2);
    case 'a': /* APPEND */
    case 'b': /* BUILD */
        return drop(pickle, 1);
    default:
        return false;
    }
}

/* Carry out one instruction; false if it is unknown or does not fit. */
static bool step(struct tarn__pickle *pickle, unsigned char code)
{
    switch (code) {
    case 0x80: /* PROTO */
        return take(pickle, 1);
    case 0x95: /* FRAME */
        return take(pickle, 8);
    case 'N':
        return push(pickle, &none);
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push_boolean(pickle, code == 0x88);
    case 'K': /* BININT1 */
        return push_integer(pickle, 1);
    case 'M': /* BININT2 */
        return push_integer(pickle, 2);
    case 'J': /* BININT */
        return push_integer(pickle, 4);
    case 0x8a: /* LONG1 */
        return push_long(pickle);
    case 'G': /* BINFLOAT */
        return push_real(pickle);
    case 0x8c: /* SHORT_BINUNICODE */
        return push_text(pickle, 1);
    case 'X': /* BINUNICODE */
        return push_text(pickle, 4);
    case 0x8d: /* BINUNICODE8 */
        return push_text(pickle, 8);
    case 0x94: /* MEMOIZE */
        return remember(pickle);
    case 'h': /* BINGET */
        return push_remembered(pickle, 1);
    case 'j': /* LONG_BINGET */
        return push_remembered(pickle, 4);
    default:
        return step_object(pickle, code);
    }
}

const struct tarn__value *tarn__pickle_read(struct tarn__pickle *pickle,
                                            const void *bytes, size_t count)
{
    pickle->at = bytes;
    pickle->left = count;
    pickle->value_count = pickle->item_count = pickle->depth = pickle->memo_count = 0;
    while (pickle->left > 0) {
        unsigned char code = *take(pickle, 1);
        if (code == '.')
            return pickle->depth > 0 ? pickle->stack[pickle->depth - 1] : NULL;
        if (!step(pickle, code))
            return NULL;
    }
    return NULL;
}
