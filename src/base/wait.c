/* wait.c -- the blocking-call hook of each thread. */
#include "base/wait.h"

_Thread_local tarn_blocking_hook *tarn__before_wait;

/* The hook is cleared first: it may call Tarn, and must not be called again. */
void tarn__wait_tell(void)
{
    tarn_blocking_hook *before = tarn__before_wait;

    tarn__before_wait = NULL;
    before->call(before);
}

tarn_blocking_hook *tarn_set_blocking_hook(tarn_blocking_hook *next)
{
    tarn_blocking_hook *previous = tarn__before_wait;

    tarn__before_wait = next;
    return previous;
}
