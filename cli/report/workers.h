/* workers.h -- rule F12: one of several processes of the same command differs. */
#ifndef TARN_CLI_REPORT_WORKERS_H
#define TARN_CLI_REPORT_WORKERS_H

#include "process.h"

/* Add findings to the processes that differ from the others of their command. */
void workers_compare(struct process *processes, size_t count);

#endif
