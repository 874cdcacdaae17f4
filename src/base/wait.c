/* wait.c -- who is told before a call takes long, one a thread. */
#include "base/wait.h"

_Thread_local tarn_blocking_hook *tarn__before_wait;

/* Forgotten first: what it does may call Tarn, and it has been told. */
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
