/* alloc_site.h -- allocation sites, for the code that reports them. */
#ifndef TARN_NRT_ALLOC_SITE_H
#define TARN_NRT_ALLOC_SITE_H

#include "nrt/runtime.h"

/* Read the site with this number (1 to tarn__alloc_site_count() - 1), if it is one of
 * `runtime`. */
bool tarn__alloc_site_read(const tarn_runtime *runtime, unsigned number,
                           tarn_nrt_site *out);
unsigned tarn__alloc_site_count(void);

#endif
