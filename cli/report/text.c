/* text.c -- figures and strings for people: sizes, times, HTML without surprises. */
#include "text.h"
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* Three significant digits of a value below 1,024. */
static void digits(char *out, size_t capacity, double value, const char *unit)
{
    int after = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

    snprintf(out, capacity, "%.*f %s", after, value, unit);
}

struct text text_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct text text;
    double value = (double)bytes;
    int unit = -1;

    while (value >= 1023.5) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(text.text, sizeof text.text, "%" PRIu64 " B", bytes);
    else
        digits(text.text, sizeof text.text, value, units[unit]);
    return text;
}

struct text text_time(uint64_t ns)
{
    static const char *const units[] = {"ns", "\302\265s", "ms", "s"};
    struct text text;
    double value = (double)ns;
    int unit = 0;

    while (unit < 3 && value >= 999.5) {
        value /= 1000;
        unit++;
    }
    if (unit == 0 || value >= 999.5)
        snprintf(text.text, sizeof text.text, "%.0f %s", value, units[unit]);
    else
        digits(text.text, sizeof text.text, value, units[unit]);
    return text;
}

struct text text_count(uint64_t count)
{
    struct text text;
    char plain[24];
    int length = snprintf(plain, sizeof plain, "%" PRIu64, count), at = 0;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text.text[at++] = ',';
        text.text[at++] = plain[i];
    }
    text.text[at] = '\0';
    return text;
}

struct text text_share(double share)
{
    struct text text;

    if (share > 0 && share < 0.001)
        snprintf(text.text, sizeof text.text, "<0.1 %%");
    else
        snprintf(text.text, sizeof text.text, "%.1f %%", 100 * share);
    return text;
}

/* Decode a character of UTF-8. Return its length; 0: the byte is none. */
static int decode(const unsigned char *at, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 0;

    if (length == 0 || *at > 0xf4)
        return 0;
    *out = length == 1 ? *at : *at & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *out = *out << 6 | (at[i] & 0x3f);
    }
    if (*out < least[length] || *out > 0x10ffff || (*out >= 0xd800 && *out < 0xe000))
        return 0;
    return length;
}

/* Whether a character is invisible, or changes how others are shown. */
static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

static void put(FILE *out, const unsigned char *at, int length, uint32_t c)
{
    if (is_hidden(c))
        fprintf(out, "\\u{%" PRIx32 "}", c);
    else if (c == '&')
        fputs("&amp;", out);
    else if (c == '<')
        fputs("&lt;", out);
    else if (c == '>')
        fputs("&gt;", out);
    else if (c == '"')
        fputs("&quot;", out);
    else if (c == '\'')
        fputs("&#39;", out);
    else
        fwrite(at, 1, (size_t)length, out);
}

void text_html(FILE *out, const char *text, size_t most)
{
    const unsigned char *at = (const unsigned char *)text, *begin = at;

    while (*at) {
        uint32_t c;
        int length = decode(at, &c);
        size_t end = (size_t)(at - begin) + (size_t)(length ? length : 1);
        if (end > most) {
            fputs("\342\200\246", out); /* an ellipsis */
            return;
        }
        if (length == 0)
            fputs("\357\277\275", out); /* the replacement character */
        else
            put(out, at, length, c);
        at += length ? length : 1;
    }
}
