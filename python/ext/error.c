/* error.c -- from a tarn_status to an exception, and back.
 *
 * Failures that a program would handle differently have a class of their own; all others
 * are TarnError. Each is also the built-in exception that other libraries raise for the
 * same failure.
 *
 * Python code may sit below C code (a resource written in Python under a limiter under a
 * DeviceBuffer). Its exception becomes a status on the way up through C, and has to be
 * raised again unchanged, with its traceback. So it is kept, next to the error message
 * that tarn_error_set() stored for it. If that is still the last error when the outer
 * call raises, no later call has failed, and the same exception is raised again.
 *
 * An exception keeps its traceback, a traceback its frames, and a frame all locals of its
 * callers. C code may also ignore a failure: a pool retries. So an exception belongs to
 * the call of the extension beneath which it was raised, and is dropped when that call
 * returns.
 */
#include "error.h"
#include "exception.h"
#include "gil.h"
#include "module.h"

#include <string.h>

enum {
    KEPT_MAX = 8,      /* exceptions of one call; the oldest goes first */
    QUOTED_BYTES = 200 /* of another message that a pool quotes in its own */
};

struct tarn__kept {
    struct tarn__kept *next; /* the next older one */
    unsigned depth;          /* of the call that owns it */
    PyObject *exception;
    tarn_error error; /* the error that it became */
};

_Thread_local struct tarn__calls tarn__calls;

/* --- keeping an exception while C code passes a status on --- */

static void drop(struct tarn__kept **link)
{
    struct tarn__kept *kept = *link;
    PyObject *exception = kept->exception;

    *link = kept->next; /* first: the end of held frames may call Tarn */
    PyMem_Free(kept);
    Py_DECREF(exception);
}

void tarn__error_calls_drop(unsigned depth)
{
    PyObject *raised = tarn__exception_take();

    while (tarn__calls.kept != NULL && tarn__calls.kept->depth >= depth)
        drop(&tarn__calls.kept);
    tarn__exception_put(raised);
}

/* Keep `exception`, which is taken over, for the innermost call. Outside of all calls it
 * is dropped, as no call could raise it. */
static void keep(PyObject *exception, const tarn_error *error)
{
    struct tarn__kept *kept = tarn__calls.depth > 0 ? PyMem_Malloc(sizeof *kept) : NULL;
    struct tarn__kept **link = &tarn__calls.kept;

    if (kept == NULL) {
        Py_DECREF(exception);
        return;
    }
    *kept = (struct tarn__kept){*link, tarn__calls.depth, exception, *error};
    *link = kept;
    for (int count = 0; *link != NULL && (*link)->depth == tarn__calls.depth; count++) {
        if (count == KEPT_MAX) {
            drop(link);
            return;
        }
        link = &(*link)->next;
    }
}

static tarn_status status_of(tarn__state *state, PyObject *exception)
{
    if (state != NULL && state->TarnError != NULL &&
        PyErr_GivenExceptionMatches(exception, state->TarnError)) {
        PyObject *number = PyObject_GetAttrString(exception, "status");
        long status = number != NULL ? PyLong_AsLong(number) : -1;
        Py_XDECREF(number);
        PyErr_Clear();
        if (status > TARN_OK && status < TARN_STATUS_COUNT)
            return (tarn_status)status;
    }
    return PyErr_GivenExceptionMatches(exception, PyExc_MemoryError)
               ? TARN_OUT_OF_MEMORY
               : TARN_PLUGIN_FAILURE;
}

static tarn_error error_of(tarn__state *state, const char *component, PyObject *exception)
{
    tarn_error error = {.status = status_of(state, exception)};
    PyObject *text = PyObject_Str(exception);
    const char *message = text != NULL ? PyUnicode_AsUTF8(text) : NULL;

    snprintf(error.message, sizeof error.message, "%s: %s: %s", component,
             Py_TYPE(exception)->tp_name, message != NULL ? message : "(no message)");
    Py_XDECREF(text);
    PyErr_Clear();
    return error;
}

tarn_status tarn__error_keep(tarn__state *state, const char *component)
{
    PyObject *exception = tarn__exception_take();

    if (exception == NULL)
        return tarn_error_set(TARN_PLUGIN_FAILURE, "%s: failed without an exception",
                              component);
    tarn_error error = error_of(state, component, exception);
    keep(exception, &error);
    /* Last: ending objects of an exception may have failed, too. */
    return tarn_error_set(error.status, "%s", error.message);
}

/* The newest exception of the innermost call that became `error` or, with `quoted`, whose
 * message `error` quotes. NULL: none. */
static struct tarn__kept **find(const tarn_error *error, bool quoted)
{
    struct tarn__kept **link = &tarn__calls.kept;
    char start[QUOTED_BYTES + 1];

    for (; *link != NULL && (*link)->depth == tarn__calls.depth; link = &(*link)->next) {
        const tarn_error *its = &(*link)->error;
        if (!quoted && its->status == error->status &&
            strcmp(its->message, error->message) == 0)
            return link;
        snprintf(start, sizeof start, "%.*s", QUOTED_BYTES, its->message);
        if (quoted && strstr(error->message, start) != NULL)
            return link;
    }
    return NULL;
}

/* --- raising --- */

static PyObject *class_in(tarn__state *state, tarn_status status)
{
    switch (status) {
    case TARN_OUT_OF_MEMORY:
        return state->OutOfMemoryError;
    case TARN_INVALID_ARGUMENT:
        return state->InvalidArgumentError;
    case TARN_NOT_SUPPORTED:
        return state->NotSupportedError;
    case TARN_NO_DRIVER:
        return state->NoDriverError;
    default:
        return state->TarnError;
    }
}

/* Borrowed; a built-in class once those of the module are gone, at exit. A thread that is
 * still running when exit begins ends with SystemExit, which is not reported. */
static PyObject *class_for(tarn__state *state, tarn_status status)
{
    if (tarn__gil_is_ending())
        return PyExc_SystemExit;
    PyObject *type = state != NULL ? class_in(state, status) : NULL;
    return type != NULL ? type : PyExc_RuntimeError;
}

static int set_number(PyObject *exception, const char *name, long value)
{
    PyObject *number = PyLong_FromLong(value);
    int result = number != NULL ? PyObject_SetAttrString(exception, name, number) : -1;
    Py_XDECREF(number);
    return result;
}

/* An exception of `type` with the numbers of `error`. NULL with another one set. */
static PyObject *exception_of(PyObject *type, const tarn_error *error)
{
    /* A message is cut at a fixed length, and may quote the name of any file. */
    PyObject *text = PyUnicode_DecodeUTF8(error->message,
                                          (Py_ssize_t)strlen(error->message), "replace");
    PyObject *exception = text != NULL ? PyObject_CallOneArg(type, text) : NULL;

    Py_XDECREF(text);
    if (exception != NULL && (set_number(exception, "status", error->status) != 0 ||
                              set_number(exception, "native", error->native) != 0))
        Py_CLEAR(exception);
    return exception;
}

PyObject *tarn__error_raise(tarn__state *state, tarn_status status)
{
    tarn_error error = *tarn_error_last();

    if (error.status != status) {
        error = (tarn_error){.status = status};
        snprintf(error.message, sizeof error.message, "%s", tarn_status_string(status));
    }
    struct tarn__kept **kept = find(&error, false);
    if (kept != NULL) {
        tarn__exception_put(Py_NewRef((*kept)->exception));
        return NULL;
    }
    PyObject *type = class_for(state, status);
    PyObject *exception = exception_of(type, &error);
    if (exception == NULL)
        return NULL;
    struct tarn__kept **cause = find(&error, true);
    if (cause != NULL)
        PyException_SetCause(exception, Py_NewRef((*cause)->exception));
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return NULL;
}

void tarn__error_write_unraisable(PyObject *object)
{
    if (tarn__gil_is_ending() && PyErr_ExceptionMatches(PyExc_SystemExit))
        PyErr_Clear(); /* the end of a thread, see class_for() */
    else
        PyErr_WriteUnraisable(object);
}

void tarn__error_raise_unraisable(tarn__state *state, tarn_status status,
                                  PyObject *object)
{
    PyObject *before = tarn__exception_take();
    tarn__error_raise(state, status);
    tarn__error_write_unraisable(object);
    tarn__exception_put(before);
}

/* --- the classes --- */

PyDoc_STRVAR(tarn_error_doc,
             "A call of Tarn failed.\n\n"
             "The message has the component, the problem and the numbers.\n\n"
             "status: the tarn_status, an int (see include/tarn/status.h).\n"
             "native: the driver's CUresult, or errno; 0 if there is none.");
PyDoc_STRVAR(out_of_memory_doc,
             "Memory is unavailable, or the allocation is over a limit.\n\n"
             "It is also a MemoryError.");
PyDoc_STRVAR(
    invalid_argument_doc,
    "An argument is invalid.\n\n"
    "Examples are an unknown address, a second free, or a wrong size. It is also a\n"
    "ValueError.");
PyDoc_STRVAR(not_supported_doc,
             "This device or resource does not support the operation.\n\n"
             "It is also a NotImplementedError.");
PyDoc_STRVAR(no_driver_doc,
             "No GPU driver can be loaded.\n\n"
             "TARN_DRIVER=sim selects the driver simulator that comes with Tarn.");

/* Add a class of exceptions with the attribute `status`, which those have that a program makes
 * itself. So a resource written in Python can report it. */
static int add_class(PyObject *module, PyObject **slot, const char *name, const char *doc,
                     PyObject *base, PyObject *builtin, tarn_status status)
{
    PyObject *bases =
        builtin != NULL ? PyTuple_Pack(2, base, builtin) : PyTuple_Pack(1, base);
    if (bases == NULL)
        return -1;
    *slot = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    if (*slot == NULL || set_number(*slot, "status", status) != 0)
        return -1;
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, *slot);
}

int tarn__error_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    if (add_class(module, &state->TarnError, "tarn.TarnError", tarn_error_doc,
                  PyExc_RuntimeError, NULL, TARN_OK) != 0)
        return -1;
    PyObject *base = state->TarnError;
    if (set_number(base, "native", 0) != 0 ||
        add_class(module, &state->OutOfMemoryError, "tarn.OutOfMemoryError",
                  out_of_memory_doc, base, PyExc_MemoryError, TARN_OUT_OF_MEMORY) != 0 ||
        add_class(module, &state->InvalidArgumentError, "tarn.InvalidArgumentError",
                  invalid_argument_doc, base, PyExc_ValueError,
                  TARN_INVALID_ARGUMENT) != 0 ||
        add_class(module, &state->NotSupportedError, "tarn.NotSupportedError",
                  not_supported_doc, base, PyExc_NotImplementedError,
                  TARN_NOT_SUPPORTED) != 0)
        return -1;
    return add_class(module, &state->NoDriverError, "tarn.NoDriverError", no_driver_doc,
                     base, NULL, TARN_NO_DRIVER);
}
