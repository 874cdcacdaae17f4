/* misuse.h -- report the use of a block that is freed or damaged. */
#ifndef TARN_NRT_MISUSE_H
#define TARN_NRT_MISUSE_H

#include "nrt/runtime.h"

void tarn__misuse_report(tarn_runtime *runtime, const char *format, ...)
    TARN_PRINTF(2, 3);

/* Report that `block` is not LIVE, or that its count is invalid. */
void tarn__misuse_block(const struct tarn__block *block, const char *what);

#endif
