/* grow_vmm.h -- growth of a VMM pool. */
#ifndef TARN_POOL_GROW_VMM_H
#define TARN_POOL_GROW_VMM_H

#include "pool/compact/reclaimable.h"

/* Do tarn__grow() for a VMM pool. `growth` held. */
tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *out)
    TARN__REQUIRES(growth);

/* A place for memory: whole pages of an unmapped range of the area. */
struct tarn__grow_at {
    tarn__index range;
    struct tarn__span need; /* has to be mapped */
    struct tarn__span kept; /* what begins here does not move */
    uint64_t end;           /* more may be mapped, up to this address */
    uint64_t aim;           /* reserved bytes beyond which memory moves */
    bool has_large_handles; /* what is mapped here is expected to stay */
};

/* Map memory there. Up to the aim the pool grows; beyond it, free memory from elsewhere moves
 * there, and the pool grows only where too little is completed. Of completed memory the
 * handles move that are needed last. `growth` held. */
tarn_status tarn__grow_vmm_at(struct tarn__caller *caller, const struct tarn__grow_at *at)
    TARN__REQUIRES(growth);

/* Map one handle where the pool would grow next, towards `bytes` more, and make it
 * completed memory. Nothing moves. Returns its bytes; 0: there is none. `growth` held. */
uint64_t tarn__grow_vmm_ahead(struct tarn__pool *pool, uint64_t bytes)
    TARN__REQUIRES(growth);

#endif
