/* site.h -- the place in the user's program, for those who write it down. */
#ifndef TARN_TRACE_SITE_H
#define TARN_TRACE_SITE_H

#include <tarn/trace.h>

/* The calling thread's site; found where it has set none, and somebody can. */
tarn_site tarn__site_find(bool freeing);

#endif
