/* error.h -- from a tarn_status to an exception, and back. */
#ifndef TARN_PYTHON_ERROR_H
#define TARN_PYTHON_ERROR_H

#include "state.h"

/* The calls of the extension in progress on this thread, nested. */
struct tarn__calls {
    unsigned depth;          /* how many */
    struct tarn__kept *kept; /* exceptions that were raised beneath them, newest first */
};
extern _Thread_local struct tarn__calls tarn__calls
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Drop the exceptions of the call at `depth`. The current exception stays set. GIL held.
 */
void tarn__error_calls_drop(unsigned depth);

static inline void tarn__error_call_end(const unsigned *depth)
{
    if (tarn__calls.kept != NULL)
        tarn__error_calls_drop(*depth);
    tarn__calls.depth--;
}

/* The first declaration of each function that Python calls and that may call Python code
 * through Tarn. Until the function returns, and no longer, tarn__error_raise() can raise
 * the exceptions of that code again. The GIL is held where the function begins and where
 * it returns. */
#define TARN__CALL                                                                     \
    __attribute__((cleanup(tarn__error_call_end), unused)) const unsigned tarn__call = \
        ++tarn__calls.depth

/* Raise Tarn's last error on this thread for `status`; return NULL so that callers can
 * return it. If the cause is an exception that Python code raised beneath this call (see
 * tarn__error_keep), that very exception is raised again. If the error message quotes
 * one, it is the `__cause__`. GIL held. */
PyObject *tarn__error_raise(tarn__state *state, tarn_status status);

/* Turn the exception that is set into a status, so that C code can pass it on:
 * MemoryError is TARN_OUT_OF_MEMORY, a TarnError its own status, all others
 * TARN_PLUGIN_FAILURE. The exception is kept until the call of the extension returns
 * beneath which it was raised. `state` may be NULL. GIL held. */
tarn_status tarn__error_keep(tarn__state *state, const char *component);

/* Give the current exception to sys.unraisablehook, with `object` as its place. The
 * SystemExit that ends a thread once exit has begun is dropped. GIL held. */
void tarn__error_write_unraisable(PyObject *object);

/* The same as tarn__error_raise() where no exception can be raised: it goes to
 * sys.unraisablehook, with `object` as its place. The current exception stays set. GIL
 * held. */
void tarn__error_raise_unraisable(tarn__state *state, tarn_status status,
                                  PyObject *object);

#endif
