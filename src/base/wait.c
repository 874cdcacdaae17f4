/* wait.c -- who is told before a call takes long, one a thread. */
#include "base/wait.h"

_Thread_local tarn_before_wait *tarn__before_wait;

/* Forgotten first: what it does may call Tarn, and it has been told. */
void tarn__wait_tell(void)
{
    tarn_before_wait *before = tarn__before_wait;

    tarn__before_wait = NULL;
    before->call(before);
}

tarn_before_wait *tarn_set_before_wait(tarn_before_wait *next)
{
    tarn_before_wait *previous = tarn__before_wait;

    tarn__before_wait = next;
    return previous;
}
