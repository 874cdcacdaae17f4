/* vmm.h -- the functions of pages.h for VMM: the range, adding and removing its
 * memory. */
#ifndef TARN_POOL_VMM_H
#define TARN_POOL_VMM_H

#include "pool/backing/backing.h"

tarn_status tarn__vmm_is_supported(int device, bool *out);
tarn_status tarn__vmm_open(struct tarn__pages *pages);
void tarn__vmm_close(struct tarn__pages *pages);
tarn_status tarn__vmm_grow(struct tarn__pages *pages, struct tarn__span span);
struct tarn__span tarn__vmm_removable(const struct tarn__vmm *vmm,
                                      struct tarn__span idle);
struct tarn__span tarn__vmm_first(const struct tarn__vmm *vmm, struct tarn__span span,
                                  size_t bytes);
struct tarn__span tarn__vmm_handle_at(const struct tarn__vmm *vmm, uint64_t address);
unsigned tarn__vmm_count(const struct tarn__vmm *vmm, struct tarn__span span);
tarn_status tarn__vmm_remove(struct tarn__pages *pages, struct tarn__span span);

/* Check that `span` is an unmapped range that may get memory now. Pages in it whose
 * unmapping failed are unmapped. In a scope. */
tarn_status tarn__vmm_check_unmapped(struct tarn__pages *pages,
                                     const struct tarn__calls *calls,
                                     struct tarn__span span);
/* Check that the span is whole handles without an unmapped range between them. */
tarn_status tarn__vmm_check_handles(const struct tarn__vmm *vmm, struct tarn__span span);

#endif
