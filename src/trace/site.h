/* site.h -- the place in the user's program, for loggers. */
#ifndef TARN_TRACE_SITE_H
#define TARN_TRACE_SITE_H

#include <tarn/trace.h>

/* Return the calling thread's site; where it has set none, what the finder returns. */
tarn_site tarn__site_find(bool freeing);

#endif
