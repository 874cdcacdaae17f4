/* gil.c -- the GIL: C code that enters Python from any thread, and the end of that.
 *
 * If a thread requests the GIL while the interpreter ends, the interpreter ends the
 * thread in the middle of its C code, with its locks held: a pool calls its upstream
 * under one. Then the main thread, which frees the rest, would wait forever. So from the
 * exit handler on, before the interpreter ends, only the main thread may enter. The
 * handler waits for the threads inside.
 */
#include "gil.h"
#include "exception.h"
#include "module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#if PY_VERSION_HEX < 0x030d0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

enum { PATIENCE_MS = 1000 }; /* a thread inside may itself wait forever */

static struct {
    atomic_int inside;   /* threads between enter and leave */
    atomic_bool exiting; /* the handler was called, by `thread` */
    pthread_t thread;
} python;

bool tarn__gil_is_ending(void)
{
    return atomic_load(&python.exiting) && !pthread_equal(python.thread, pthread_self());
}

bool tarn__gil_enter(struct tarn__gil_stay *stay)
{
    atomic_fetch_add(&python.inside, 1); /* first: a thread that does not see `exiting`
                                          * is seen */
    if (!Py_IsInitialized() || tarn__gil_is_ending() ||
        (Py_IsFinalizing() && PyGILState_GetThisThreadState() == NULL)) {
        atomic_fetch_sub(&python.inside, 1);
        return false;
    }
    stay->gil = PyGILState_Ensure();
    stay->raised = tarn__exception_take();
    return true;
}

tarn_status tarn__gil_leave(const struct tarn__gil_stay *stay, tarn_status status)
{
    tarn_error error = *tarn_error_last();

    tarn__exception_put(stay->raised);
    PyGILState_Release(stay->gil); /* the end of a thread's state may run Python code */
    atomic_fetch_sub(&python.inside, 1);
    if (status != TARN_OK)
        tarn_error_set_native(error.status, error.native, "%s", error.message);
    return status;
}

/* For atexit. */
static PyObject *exit_begins(PyObject *module, PyObject *Py_UNUSED(none))
{
    (void)module;
    python.thread = pthread_self();
    atomic_store(&python.exiting, true);
    Py_BEGIN_ALLOW_THREADS;
    for (int i = 0; i < PATIENCE_MS && atomic_load(&python.inside) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* The threads that were inside are not in the child. */
static void forget_threads(void)
{
    atomic_store(&python.inside, 0);
}

int tarn__gil_init(PyObject *module)
{
    static PyMethodDef handler = {
        "_exit_begins", exit_begins, METH_NOARGS,
        "_exit_begins()\n--\n\n"
        "Record that exit has begun, and wait for calls of resources in Python."};
    static bool watches_forks; /* the hook is the process's, not the module's */
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *function = PyCFunction_New(&handler, module);
    PyObject *result = atexit != NULL && function != NULL
                           ? PyObject_CallMethod(atexit, "register", "O", function)
                           : NULL;

    atomic_store(&python.exiting, false); /* that of an earlier interpreter */
    if (!watches_forks)
        watches_forks = pthread_atfork(NULL, NULL, forget_threads) == 0;
    Py_XDECREF(atexit);
    Py_XDECREF(function);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

void tarn__gil_hold_release(tarn_blocking_hook *before)
{
    ((tarn__gil_hold *)before)->away = PyEval_SaveThread();
}
