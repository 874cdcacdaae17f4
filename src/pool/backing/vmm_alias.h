/* vmm_alias.h -- memory with several mappings (aliases); in a scope, but for functions
 * that take no calls. */
#ifndef TARN_POOL_VMM_ALIAS_H
#define TARN_POOL_VMM_ALIAS_H

#include "pool/backing/backing.h"

/* Turn the handles of `span`, which moved and which no work uses here, into unmapped
 * ranges. */
void tarn__vmm_alias_retire(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                            struct tarn__span span);
/* Unmap the retired mappings in this unmapped range, or in the whole range, before other
 * memory comes there. Memory that the driver keeps mapped is noted as failed. */
void tarn__vmm_alias_unmap_in(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                              struct tarn__span span);
void tarn__vmm_alias_unmap_all(struct tarn__vmm *vmm, const struct tarn__calls *calls);
/* Note that each retiring mapping is to be unmapped once no work uses it. */
void tarn__vmm_alias_unlink_retiring(struct tarn__vmm *vmm);
/* Unmap the retired mappings of the memory of `span`, which is to be released. On failure
 * the memory that is still mapped stays retired as before. */
CUresult_ tarn__vmm_alias_unmap_of(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                                   struct tarn__span span);

#endif
