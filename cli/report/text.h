/* text.h -- figures and strings for people: sizes, times, escaped HTML. */
#ifndef TARN_CLI_REPORT_TEXT_H
#define TARN_CLI_REPORT_TEXT_H

#include <stdint.h>
#include <stdio.h>

enum { TEXT_BOX = 256, TEXT_TITLE = 4096 }; /* most bytes of a string that are shown */

struct text {
    char text[32];
};

/* Return "1.50 GiB": three significant digits, binary units. */
struct text text_bytes(uint64_t bytes);
/* Return "12.4 ms". */
struct text text_time(uint64_t ns);
/* Return "1,234,567". */
struct text text_count(uint64_t count);
/* Return "12.3 %" of a share between 0 and 1. */
struct text text_share(double share);
/* Write a string of a log as HTML text or value of an attribute.
 *
 * Bytes that are not UTF-8 are replaced. Control characters, and characters without
 * width or with an effect on the direction of text, are shown as \u{...}. At most
 * `most` bytes of the string are shown. */
void text_html(FILE *out, const char *text, size_t most);

#endif
