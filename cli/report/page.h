/* page.h -- the whole page: static HTML, the data blocks, the script. */
#ifndef TARN_CLI_REPORT_PAGE_H
#define TARN_CLI_REPORT_PAGE_H

#include "process.h"

/* Write the page of `count` processes. `compares`: compare the second with the first. */
void page_write(FILE *out, struct process *processes, size_t count, bool compares);

#endif
