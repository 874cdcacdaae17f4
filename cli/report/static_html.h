/* static_html.h -- the sections of one log as plain HTML, for use without the script. */
#ifndef TARN_CLI_REPORT_STATIC_HTML_H
#define TARN_CLI_REPORT_STATIC_HTML_H

#include "view.h"

/* Write the sections timeline, flame, failures, sites and quality. */
void static_html_write(FILE *out, const struct view *view);
/* Write a cell of a table with a size. */
void static_html_bytes(FILE *out, uint64_t bytes);

#endif
