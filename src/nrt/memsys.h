/* memsys.h -- the lock of the counters under Numba's names. */
#ifndef TARN_NRT_MEMSYS_H
#define TARN_NRT_MEMSYS_H

#include "nrt/runtime.h"

/* Lock the view of the default instance's counters. It comes before the registry. */
void tarn__memsys_lock(void);
void tarn__memsys_unlock(void);

#endif
