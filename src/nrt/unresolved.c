/* unresolved.c -- what stands in for a function that was never compiled (F15).
 *
 * A compiler that compiles one of two functions that call each other has no address for
 * the other yet, and puts this one there. It takes no arguments, and every calling
 * convention of C that Tarn runs on lets a function be called with more than it takes. If
 * it is ever called, the compiler has a bug: the host is told.
 */
#include "base/hook.h"
#include <tarn/nrt.h>
#include <stdio.h>
#include <stdlib.h>

/* A tarn_nrt_unresolved_hook; none: abort. It may not return, so nobody waits for its calls. */
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
                   "nrt: a function was called that was never compiled, at %s",
                   tarn_nrt_describe(caller, place, sizeof place));
    if (hook.function)
        return ((tarn_nrt_unresolved_hook)hook.function)(hook.data, caller);
    fprintf(stderr, "tarn: %s\n", tarn_error_last()->message);
    abort();
}
