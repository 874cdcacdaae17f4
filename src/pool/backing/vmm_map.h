/* vmm_map.h -- the driver calls that change the mappings of a range; in a scope. */
#ifndef TARN_POOL_VMM_MAP_H
#define TARN_POOL_VMM_MAP_H

#include "pool/backing/backing.h"

/* Map new physical memory at `span`, without access. */
tarn_status tarn__vmm_map_new(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                              struct tarn__span span);
/* Map memory that exists already, at `from`, at `span` as well. */
tarn_status tarn__vmm_map_again(const struct tarn__vmm *vmm,
                                const struct tarn__calls *calls, uint64_t from,
                                struct tarn__span span);
/* Grant access to the device and its peers. */
tarn_status tarn__vmm_map_set_access(const struct tarn__vmm *vmm,
                                     const struct tarn__calls *calls,
                                     struct tarn__span span);

/* Unmap whole handles; a failure is tried again once. */
CUresult_ tarn__vmm_map_unmap(const struct tarn__vmm *vmm,
                              const struct tarn__calls *calls, struct tarn__span span);

/* Unmap whole handles of the table for an undo that cannot fail. Memory that the driver
 * keeps mapped is noted as failed. `hidden`: the caller takes the span for an unmapped
 * range, so the rest is removed from the table. */
void tarn__vmm_map_undo(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        struct tarn__span span, bool hidden);

/* Try again to unmap memory whose unmapping failed; the rest stays noted. */
void tarn__vmm_map_sweep(struct tarn__vmm *vmm, const struct tarn__calls *calls);

#endif
