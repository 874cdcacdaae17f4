/* quarantine.h -- quarantine: freed blocks that are kept for a while. */
#ifndef TARN_NRT_QUARANTINE_H
#define TARN_NRT_QUARANTINE_H

#include "nrt/runtime.h"

/* Quarantine a block whose data were filled with 0xDE; blocks beyond the limit are freed.
 */
void tarn__quarantine_add(tarn_runtime *runtime, struct tarn__block *block);

/* Free the oldest blocks until at most `bytes` are kept. Return the freed bytes. */
size_t tarn__quarantine_shrink(tarn_runtime *runtime, size_t bytes);

#endif
