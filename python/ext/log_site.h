/* log_site.h -- the place in the user's program, for rows of the log. */
#ifndef TARN_PYTHON_LOG_SITE_H
#define TARN_PYTHON_LOG_SITE_H

#include "state.h"

/* The current place in the user's program: the first frame that is neither Numba's nor
 * Tarn's. `freeing`: a garbage collection is reported as `<gc>`. GIL held; never fails.
 */
tarn_site tarn__log_site(bool freeing);

/* Have logger adaptors find that place, too, for rows of calls without one. */
void tarn__log_site_set_finder(void);

/* The functions of log_site.c for the module. */
extern PyMethodDef tarn__log_site_methods[];

#endif
