/* print.c -- safe output of text from any source, readable sizes and times, JSON. */
#include "tool.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The length of the UTF-8 character at `at` that may be printed unchanged; 0: there is
 * none. Control characters may not, in either of their ranges. */
static int showable(const unsigned char *at)
{
    unsigned char first = at[0];
    int length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    if (first < 0x20 || first == 0x7f || (first >= 0x80 && first < 0xc2) || first > 0xf4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if (first == 0xc2 && at[1] < 0xa0)
        return 0;
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
        (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

void print_text(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at) {
        int length = showable(at);
        if (length == 0)
            fprintf(file, "\\x%02x", *at++);
        for (; length > 0; length--)
            fputc(*at++, file);
    }
}

struct short_text bytes_text(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct short_text short_text;
    double value = (double)bytes;
    int unit = -1;

    while (value >= 1023.995) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(short_text.text, sizeof short_text.text, "%" PRIu64 " B", bytes);
    else
        snprintf(short_text.text, sizeof short_text.text, "%.2f %s", value, units[unit]);
    return short_text;
}

bool bytes_of(const char *text, uint64_t *out)
{
    static const char *const units[] = {"", "B", "KiB", "MiB", "GiB", "TiB"};
    char *end;
    double value = strtod(text, &end);

    if (end == text || *text < '0' || *text > '9' || strpbrk(text, "xXpP"))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i]) == 0 && value < 1e18) {
            *out = (uint64_t)value;
            return *out < UINT64_MAX >> 24;
        }
        value *= i == 0 ? 1 : 1024;
    }
    return false;
}

struct short_text time_text(double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    struct short_text short_text;
    int unit = 0;

    while (unit < 3 && ns >= 999.95) {
        ns /= 1000;
        unit++;
    }
    /* From 999.5 on %.3g would write 1e+03. */
    snprintf(short_text.text, sizeof short_text.text,
             unit == 0 || ns >= 999.5 ? "%.0f %s" : "%.3g %s", ns, units[unit]);
    return short_text;
}

static void json_string(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    fputc('"', file);
    while (*at) {
        int length = showable(at);
        if (*at == '"' || *at == '\\') {
            fprintf(file, "\\%c", *at++);
            continue;
        }
        if (length == 0 && (*at < 0x20 || *at == 0x7f))
            fprintf(file, "\\u%04x", *at++);
        else if (length == 0 && *at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
            fprintf(file, "\\u%04x", at[1]);
            at += 2;
        } else if (length == 0) {
            fputs("\\ufffd", file);
            at++;
        }
        for (; length > 0; length--)
            fputc(*at++, file);
    }
    fputc('"', file);
}

/* The comma after what came before, a new line, and the key. */
static void json_begin(struct json *json, const char *key)
{
    if (json->depth > 0 && json->flat && json->depth >= json->flat) {
        if (!json->empty)
            fputc(',', json->file);
    } else if (json->depth > 0) {
        fputs(json->empty ? "\n" : ",\n", json->file);
        fprintf(json->file, "%*s", 2 * json->depth, "");
    }
    json->empty = false;
    if (key) {
        json_string(json->file, key);
        fputs(": ", json->file);
    }
}

void json_open(struct json *json, const char *key, char bracket)
{
    json_begin(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->empty = true;
}

void json_close(struct json *json, char bracket)
{
    json->depth--;
    if (!json->empty && !(json->flat && json->depth >= json->flat - 1))
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    json->empty = false;
    fputc(bracket, json->file);
    if (json->depth == 0)
        fputc('\n', json->file);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
    json_begin(json, key);
    fprintf(json->file, "%" PRIu64, value);
}

void json_real(struct json *json, const char *key, double value)
{
    json_begin(json, key);
    fprintf(json->file, "%.1f", value);
}

void json_micros(struct json *json, const char *key, uint64_t ns)
{
    json_begin(json, key);
    fprintf(json->file, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void json_bool(struct json *json, const char *key, bool value)
{
    json_begin(json, key);
    fputs(value ? "true" : "false", json->file);
}

void json_text(struct json *json, const char *key, const char *value)
{
    json_begin(json, key);
    json_string(json->file, value);
}
