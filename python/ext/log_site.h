/* log_site.h -- the place in the user's program, for rows of the log. */
#ifndef TARN_PYTHON_LOG_SITE_H
#define TARN_PYTHON_LOG_SITE_H

#include "state.h"

/* Return the current place in the user's program: the innermost frame that is neither
 * Numba's nor Tarn's. `freeing`: report a garbage collection as `<gc>`. GIL held; never
 * fails. */
tarn_site tarn__log_site(bool freeing);

/* Find the place and the call stack of this thread. Any thread, with or without the GIL.
 * The stack has at most the depth that was set. It is TARN_STACK_UNKNOWN if the depth is
 * 1, and for `<gc>` and `<exit>`. */
void tarn__log_site_find(bool freeing, tarn_site *site, tarn_stack *stack);

/* The call stack alone, for a call that has its site. GIL held. */
tarn_stack tarn__log_site_stack(const tarn_site *site);

/* Begin the exit: the site of later frees is `<exit>`. Return false if it had begun
 * before. GIL held. */
bool tarn__log_site_begin_exit(void);

/* Make logger adaptors find that place, too, for calls without a site. */
void tarn__log_site_set_finder(void);

/* The functions of log_site.c for the module. */
extern PyMethodDef tarn__log_site_methods[];

#endif
