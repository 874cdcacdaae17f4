/* unresolved.c -- the placeholder for a function that was never compiled.
 *
 * A compiler that compiles one of two functions that call each other has no address for
 * the other yet, and uses this one. It takes no arguments, and every C calling convention
 * that Tarn runs on allows calls with more arguments than a function takes. A call of it
 * is a bug of the compiler: the host is notified.
 */
#include "base/hook.h"
#include <tarn/nrt.h>
#include <stdio.h>
#include <stdlib.h>

/* A tarn_nrt_unresolved_hook; none: abort. It may not return, so no caller waits for its
 * calls. */
static struct tarn__hook unresolved;

void tarn_nrt_set_unresolved_hook(tarn_nrt_unresolved_hook hook, void *data)
{
    tarn__hook_set(&unresolved, (tarn__any_function *)hook, data);
}

int tarn_nrt_unresolved_abort(void)
{
    const void *caller = __builtin_return_address(0);
    struct tarn__hook hook = tarn__hook_get(&unresolved);
    char place[256];

    tarn_error_set(TARN_INVALID_ARGUMENT,
                   "nrt: a function without a compiled implementation was called at %s",
                   tarn_nrt_describe(caller, place, sizeof place));
    if (hook.function)
        return ((tarn_nrt_unresolved_hook)hook.function)(hook.data, caller);
    fprintf(stderr, "tarn: %s\n", tarn_error_last()->message);
    abort();
}
