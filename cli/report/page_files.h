/* page_files.h -- the script and the style of the page, in a file that the build
 * makes. */
#ifndef TARN_CLI_REPORT_PAGE_FILES_H
#define TARN_CLI_REPORT_PAGE_FILES_H

#include <stddef.h>

extern const unsigned char page_script[], page_style[];
extern const size_t page_script_bytes, page_style_bytes;

#endif
