/* blocking_hook.c -- the blocking-call hook of each thread. */
#include "base/blocking_hook.h"

_Thread_local tarn_blocking_hook *tarn__blocking_hook_current;

/* The hook is cleared first: it may call Tarn, and must not be called again. */
void tarn__blocking_hook_run(void)
{
    tarn_blocking_hook *before = tarn__blocking_hook_current;

    tarn__blocking_hook_current = NULL;
    before->call(before);
}

tarn_blocking_hook *tarn_set_blocking_hook(tarn_blocking_hook *next)
{
    tarn_blocking_hook *previous = tarn__blocking_hook_current;

    tarn__blocking_hook_current = next;
    return previous;
}
