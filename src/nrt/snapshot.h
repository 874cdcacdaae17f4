/* snapshot.h -- the report of live memory at exit. */
#ifndef TARN_NRT_SNAPSHOT_H
#define TARN_NRT_SNAPSHOT_H

#include "nrt/runtime.h"

/* Have live memory printed when the process ends; once. */
void tarn__snapshot_report_at_exit(void);

#endif
