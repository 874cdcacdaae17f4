/* alloc_site.h -- allocation sites: who allocated the live blocks. */
#ifndef TARN_NRT_ALLOC_SITE_H
#define TARN_NRT_ALLOC_SITE_H

#include "nrt/runtime.h"

/* Count a new block at its site, and return the site's number; 0: unknown. */
unsigned tarn__alloc_site_enter(const tarn_runtime *runtime, const void *caller,
                                const char *label, size_t bytes);
void tarn__alloc_site_leave(unsigned site, size_t bytes);
void tarn__alloc_site_resize(unsigned site, size_t before, size_t after);

/* Read the site with this number (1 to tarn__alloc_site_count() - 1), if it is one of
 * `runtime`. */
bool tarn__alloc_site_read(const tarn_runtime *runtime, unsigned number,
                           tarn_nrt_site *out);
unsigned tarn__alloc_site_count(void);

/* Lock the table for new sites. */
void tarn__alloc_site_lock(void);
void tarn__alloc_site_unlock(void);

#endif
