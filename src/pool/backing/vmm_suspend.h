/* vmm_suspend.h -- releasing all physical memory of a range, and restoring it. */
#ifndef TARN_POOL_VMM_SUSPEND_H
#define TARN_POOL_VMM_SUSPEND_H

#include "pool/backing/backing.h"

/* Do tarn__pages_suspend() and tarn__pages_resume() for VMM. */
tarn_status tarn__vmm_suspend(struct tarn__pages *pages, const struct tarn__span *kept,
                              size_t count);
tarn_status tarn__vmm_suspend_end(struct tarn__pages *pages);
/* Drop the kept bytes. In a scope. */
void tarn__vmm_suspend_drop_kept(struct tarn__vmm *vmm, const struct tarn__scope *scope);

#endif
