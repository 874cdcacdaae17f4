/* wait.h -- told before a call takes long: tarn_set_blocking_hook() from the inside.
 *
 * Called with no lock held, before the first of: a driver call that is more than a question
 * answered at once (which context, which stream), a lock that is held across such a call,
 * code of somebody else's. Calling it too often costs nothing; not calling it can bring a
 * program in Python to a stand, see status.h.
 */
#ifndef TARN_BASE_WAIT_H
#define TARN_BASE_WAIT_H

#include <tarn/status.h>

/* Of this thread, or NULL: it wants to hear of nothing, or has heard it in this call. */
extern _Thread_local tarn_blocking_hook *tarn__before_wait
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

void tarn__wait_tell(void);

static inline void tarn__wait_ahead(void)
{
    if (tarn__before_wait)
        tarn__wait_tell();
}

#endif
