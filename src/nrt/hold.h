/* hold.h -- quarantine: freed blocks that are held back for a while. */
#ifndef TARN_NRT_HOLD_H
#define TARN_NRT_HOLD_H

#include "nrt/runtime.h"

/* Hold a block whose data were filled with 0xDE; what no longer fits goes for good. */
void tarn__hold(tarn_runtime *runtime, struct tarn__block *block);

/* Let the oldest go until at most `bytes` are held. Returns the bytes that went. */
size_t tarn__hold_shrink(tarn_runtime *runtime, size_t bytes);

#endif
