/* vmm_move.h -- moving physical handles within the range. */
#ifndef TARN_POOL_VMM_MOVE_H
#define TARN_POOL_VMM_MOVE_H

#include "pool/backing/backing.h"

/* Do tarn__pages_move() for VMM. */
tarn_status tarn__vmm_move(struct tarn__pages *pages, const struct tarn__span *spans,
                           size_t count, size_t done, uint64_t at);

#endif
