/* report.h -- the report of an out-of-memory failure. */
#ifndef TARN_POOL_REPORT_H
#define TARN_POOL_REPORT_H

#include "pool/order/caller.h"

/* Fill in the report of a failed allocation of `wanted` bytes. */
void tarn__report_fill(struct tarn__caller *caller, uint64_t wanted, uint64_t alignment,
                       unsigned attempts, const tarn_error *upstream,
                       tarn_pool_oom_report *out);
/* Fail with TARN_OUT_OF_MEMORY and a one-line message; the report is kept for the
 * thread. */
tarn_status tarn__report_fail(const tarn_pool_oom_report *report);

#endif
