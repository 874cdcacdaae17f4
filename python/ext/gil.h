/* gil.h -- the GIL: C calls that keep it, and C code that enters Python. */
#ifndef TARN_PYTHON_GIL_H
#define TARN_PYTHON_GIL_H

#include "state.h"

/* --- calls that mostly use immediately available memory ---
 *
 * Such a call keeps the GIL, and releases it when Tarn reports that the call is going to
 * take long: releasing and taking it costs more than an allocation. Between begin and end
 * no other Python code runs on this thread unless the GIL was released. */
typedef struct tarn__gil_hold {
    tarn_blocking_hook before; /* first: the hook's address is the hold's too */
    tarn_blocking_hook *outer; /* the hook that was set before */
    PyThreadState *away;       /* NULL: the GIL was kept */
} tarn__gil_hold;

void tarn__gil_hold_release(tarn_blocking_hook *before);

static inline void tarn__gil_hold_begin(tarn__gil_hold *hold)
{
    hold->before.call = tarn__gil_hold_release;
    hold->away = NULL;
    hold->outer = tarn_set_blocking_hook(&hold->before);
}

static inline void tarn__gil_hold_end(const tarn__gil_hold *hold)
{
    tarn_set_blocking_hook(hold->outer);
    if (hold->away)
        PyEval_RestoreThread(hold->away);
}

/* --- C code that calls Python --- */

/* Enter Python from C code that may be on any thread, and in the middle of a failure. The
 * current exception and, where `status` is a failure, the last error are restored
 * afterwards. Enter returns false without any effect where the interpreter ends or is
 * gone: then no Python code can be called from this thread any more. Leave returns
 * `status`. */
struct tarn__gil_stay {
    PyGILState_STATE gil;
    PyObject *raised;
};
bool tarn__gil_enter(struct tarn__gil_stay *stay);
tarn_status tarn__gil_leave(const struct tarn__gil_stay *stay, tarn_status status);

/* Return true if exit has begun, on another thread. Then this thread can call no resource
 * written in Python any more. */
bool tarn__gil_is_ending(void);

#endif
