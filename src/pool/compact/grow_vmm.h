/* grow_vmm.h -- growth of a VMM pool. */
#ifndef TARN_POOL_GROW_VMM_H
#define TARN_POOL_GROW_VMM_H

#include "pool/order/caller.h"

/* Do tarn__grow() for a VMM pool. `growth` held. */
tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *out)
    TARN__REQUIRES(growth);

#endif
