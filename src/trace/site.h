/* site.h -- the place in the user's program, for loggers. */
#ifndef TARN_TRACE_SITE_H
#define TARN_TRACE_SITE_H

#include <tarn/trace.h>

/* Return the calling thread's site; if it has set none, the result of the finder. */
tarn_site tarn__site_find(bool freeing);

#endif
