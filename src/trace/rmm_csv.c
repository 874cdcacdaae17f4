/* rmm_csv.c -- the log of RMM's logging adaptor: six columns.
 *
 * The time is the local time of day in microseconds, without a date. The pointer is
 * printed in the style of glibc's %p, so a failure has `(nil)`. The stream is 0 or
 * hexadecimal. Devices, locations and the end of a call are not in this format.
 *
 * The reader takes more than the writer writes: what RMM's replay reads, and what older
 * versions of RMM wrote. They had a colon before the microseconds, and at first no column
 * for the thread. A pointer is hexadecimal also without 0x.
 */
#include "trace/field.h"
#include "trace/format.h"
#include "trace/row.h"
#include <string.h>

enum { COLUMNS = 6, DAY_SECONDS = 24 * 60 * 60 };

static const char *const names[] = {"Thread",  "Time", "Action",
                                    "Pointer", "Size", "Stream"};

/* In place of a column that a log may lack. */
static const char *const absent[COLUMNS] = {"0", "00:00:00"};
enum { OPTIONAL = 1 << 0 | 1 << 1 };

/* By tarn_action. */
static const char *const actions[] = {"allocate", "free", "allocate failure"};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

static void write_time(struct tarn__row *row, uint64_t ns)
{
    uint64_t seconds = ns / 1000000000u % DAY_SECONDS;

    tarn__row_padded(row, seconds / 3600, 2);
    tarn__row_text(row, ":");
    tarn__row_padded(row, seconds / 60 % 60, 2);
    tarn__row_text(row, ":");
    tarn__row_padded(row, seconds % 60, 2);
    tarn__row_text(row, ".");
    tarn__row_padded(row, ns / 1000 % 1000000, 6);
}

static void rmm_write(struct tarn__row *row, const tarn_trace_event *event)
{
    tarn__row_decimal(row, event->thread);
    tarn__row_text(row, ",");
    write_time(row, event->start_ns);
    tarn__row_text(row, ",");
    tarn__row_text(row, actions[event->action]);
    tarn__row_text(row, ",");
    if (event->address)
        tarn__row_hex(row, event->address);
    else
        tarn__row_text(row, "(nil)");
    tarn__row_text(row, ",");
    tarn__row_decimal(row, event->bytes);
    tarn__row_text(row, ",");
    if (event->stream)
        tarn__row_hex(row, event->stream);
    else
        tarn__row_text(row, "0");
}

/* Read `count` digits at `*at`, below `limit`, and step over them. */
static bool take_digits(const char **at, int count, uint64_t limit, uint64_t *out)
{
    uint64_t value = 0;

    for (int i = 0; i < count; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        value = value * 10 + (uint64_t)(**at - '0');
    }
    *out = value;
    return value < limit;
}

/* The digits after the seconds, as nanoseconds; no digits are 0. */
static bool take_fraction(const char **at, uint64_t *out_ns)
{
    uint64_t scale = 100000000;

    *out_ns = 0;
    if (**at != '.' && **at != ':')
        return true;
    for (++*at; **at >= '0' && **at <= '9'; ++*at, scale /= 10)
        *out_ns += (uint64_t)(**at - '0') * scale;
    return true;
}

static bool parse_clock(const char *at, uint64_t *out_ns)
{
    uint64_t hours, minutes, seconds, fraction;

    if (!take_digits(&at, 2, 24, &hours) || *at++ != ':' ||
        !take_digits(&at, 2, 60, &minutes) || *at++ != ':' ||
        !take_digits(&at, 2, 61, &seconds) || !take_fraction(&at, &fraction) || *at)
        return false;
    *out_ns = ((hours * 60 + minutes) * 60 + seconds) * 1000000000u + fraction;
    return true;
}

/* A date, as programs that edit tables put it before the time; it does not count. */
static const char *skip_date(const char *text)
{
    const char *end = text + strspn(text, "0123456789-/");

    return end > text && (*end == ' ' || *end == 'T') ? end + 1 : text;
}

static tarn_status parse_time(const struct tarn__field *field, uint64_t *out_ns)
{
    if (parse_clock(field->text, out_ns) || parse_clock(skip_date(field->text), out_ns))
        return TARN_OK;
    return tarn__field_bad(field, "is not a time HH:MM:SS.uuuuuu");
}

static tarn_status parse_action(const struct tarn__field *field, tarn_action *out)
{
    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(field->text, actions[i]) == 0) {
            *out = (tarn_action)i;
            return TARN_OK;
        }
    }
    return tarn__field_bad(field, "is not allocate, free or allocate failure");
}

static tarn_status parse_pointer(const struct tarn__field *field, uint64_t *out)
{
    if (strcmp(field->text, "(nil)") != 0)
        return tarn__field_hex(field, out);
    *out = 0;
    return TARN_OK;
}

/* A stream without 0x is decimal, as in RMM's replay, if its digits are. */
static tarn_status parse_stream(const struct tarn__field *field, uint64_t *out)
{
    const char *at = field->text;

    while (*at >= '0' && *at <= '9')
        at++;
    return *at ? parse_pointer(field, out) : tarn__field_number(field, UINT64_MAX, out);
}

static tarn_status rmm_parse(const struct tarn__place *place, const char *const *fields,
                             tarn_trace_event *out)
{
    struct tarn__field field[COLUMNS];
    tarn_status status;

    for (int i = 0; i < COLUMNS; i++) {
        const char *text = fields[i] ? fields[i] : absent[i];
        field[i] = (struct tarn__field){place, names[i], tarn__field_trim(text)};
    }
    out->device = TARN_DEVICE_NONE;
    if ((status = tarn__field_number(&field[0], UINT64_MAX, &out->thread)) != TARN_OK ||
        (status = parse_time(&field[1], &out->start_ns)) != TARN_OK ||
        (status = parse_action(&field[2], &out->action)) != TARN_OK ||
        (status = parse_pointer(&field[3], &out->address)) != TARN_OK ||
        (status = tarn__field_number(&field[4], UINT64_MAX, &out->bytes)) != TARN_OK ||
        (status = parse_stream(&field[5], &out->stream)) != TARN_OK)
        return status;
    out->end_ns = out->start_ns;
    return TARN_OK;
}

const struct tarn__format tarn__rmm_csv = {
    .id = TARN_TRACE_RMM,
    .columns = COLUMNS,
    .names = names,
    .key = 2, /* Action */
    .optional = OPTIONAL,
    .write = rmm_write,
    .parse = rmm_parse,
};
