/* blocking_hook.h -- the blocking-call hook from the inside: tarn_set_blocking_hook().
 *
 * Call it with no lock held, before the first of these:
 *
 * - a driver call, unless it is a query answered at once (which context, which stream);
 * - a lock that is held across such a call;
 * - a user's code.
 *
 * Calling it too often costs nothing. Not calling it can deadlock a Python program, see
 * status.h.
 */
#ifndef TARN_BASE_BLOCKING_HOOK_H
#define TARN_BASE_BLOCKING_HOOK_H

#include <tarn/status.h>

/* The hook of this thread. NULL: it has none, or this call has called it already. */
extern _Thread_local tarn_blocking_hook *tarn__blocking_hook_current
    __attribute__((visibility("hidden")));

void tarn__blocking_hook_run(void);

static inline void tarn__blocking_hook_call(void)
{
    if (tarn__blocking_hook_current)
        tarn__blocking_hook_run();
}

#endif
