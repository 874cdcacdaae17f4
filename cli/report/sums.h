/* sums.h -- the live bytes of all processes of a GPU together. */
#ifndef TARN_CLI_REPORT_SUMS_H
#define TARN_CLI_REPORT_SUMS_H

#include "process.h"

/* Write, for each GPU with several processes, the maximum of the sum of their live
 * bytes. */
void sums_write(FILE *out, const struct process *processes, size_t count);

#endif
