/* field.c -- convert fields of a row to numbers, with an error message for those that are
 * none.
 *
 * Digits are read one by one. strtoull accepts signs and blanks, strtod uses the locale's
 * decimal point, and neither reports where a number became too large.
 */
#include "trace/field.h"
#include <stdio.h>
#include <string.h>

const char *tarn__field_printable(const char *text, char *buffer, size_t capacity)
{
    size_t used = 0;

    for (const char *at = text; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (used + 8 > capacity) {
            memcpy(buffer + used, "...", 3);
            used += 3;
            break;
        }
        if (byte < 0x20 || byte == 0x7f)
            used += (size_t)snprintf(buffer + used, 5, "\\x%02x", byte);
        else
            buffer[used++] = *at;
    }
    buffer[used] = 0;
    return buffer;
}

tarn_status tarn__field_bad(const struct tarn__field *field, const char *what)
{
    char shown[64];

    return tarn_error_set(TARN_BAD_FORMAT, "%.200s:%llu: %s \"%s\" %s",
                          field->place->name, (unsigned long long)field->place->line,
                          field->column,
                          tarn__field_printable(field->text, shown, sizeof shown), what);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

static bool has_prefix(const char *text)
{
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

/* Convert the digits at `at`, the rest of the field. */
static tarn_status convert(const struct tarn__field *field, const char *at, uint64_t base,
                           uint64_t limit, uint64_t *out)
{
    uint64_t value = 0;

    if (!*at)
        return tarn__field_bad(field, "is not a number");
    for (; *at; at++) {
        uint64_t digit = (uint64_t)digit_of(*at);
        if (digit >= base)
            return tarn__field_bad(field, "is not a number");
        if (value > (limit - digit) / base || digit > limit)
            return tarn__field_bad(field, "is too large");
        value = value * base + digit;
    }
    *out = value;
    return TARN_OK;
}

tarn_status tarn__field_number(const struct tarn__field *field, uint64_t limit,
                               uint64_t *out)
{
    if (has_prefix(field->text))
        return convert(field, field->text + 2, 16, limit, out);
    return convert(field, field->text, 10, limit, out);
}

tarn_status tarn__field_hex(const struct tarn__field *field, uint64_t *out)
{
    return convert(field, field->text + (has_prefix(field->text) ? 2 : 0), 16, UINT64_MAX,
                   out);
}

/* A number of seconds, taken apart: digits * 10^power. */
struct decimal {
    uint64_t digits;
    int power;
};

enum { POWER_MAX = 64, DIGITS_LIMIT = 18 };

/* The digits and the point; digits past the 18th no longer count. */
static const char *read_mantissa(const char *at, struct decimal *out)
{
    bool point = false, any = false;
    int kept = 0;

    for (;; at++) {
        int digit = digit_of(*at);
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9)
            break;
        any = true;
        if (kept < DIGITS_LIMIT) {
            out->digits = out->digits * 10 + (uint64_t)digit;
            kept += out->digits != 0;
            out->power -= point;
        } else if (!point && out->power < POWER_MAX) {
            out->power++;
        }
        if (out->power < -POWER_MAX)
            out->power = -POWER_MAX;
    }
    return any ? at : NULL;
}

/* `e-05` and the like; NULL where it is none. */
static const char *read_exponent(const char *at, struct decimal *out)
{
    int sign = 1, exponent = 0;

    if (*at != 'e' && *at != 'E')
        return at;
    at++;
    if (*at == '-' || *at == '+')
        sign = *at++ == '-' ? -1 : 1;
    if (digit_of(*at) > 9)
        return NULL;
    for (; digit_of(*at) <= 9; at++)
        exponent = exponent < 1000 ? exponent * 10 + digit_of(*at) : exponent;
    out->power += sign * exponent;
    return at;
}

tarn_status tarn__field_seconds(const struct tarn__field *field, uint64_t *out_ns)
{
    struct decimal number = {0, 0};
    const char *at = read_mantissa(field->text, &number);

    if (at)
        at = read_exponent(at, &number);
    if (!at || *at)
        return tarn__field_bad(field, "is not a number of seconds");
    number.power += 9;
    for (; number.power < 0 && number.digits != 0; number.power++)
        number.digits /= 10;
    for (; number.power > 0 && number.digits != 0; number.power--) {
        if (number.digits > UINT64_MAX / 10)
            return tarn__field_bad(field, "is too large");
        number.digits *= 10;
    }
    *out_ns = number.digits;
    return TARN_OK;
}
