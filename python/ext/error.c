/* error.c -- from a tarn_status to an exception, and back.
 *
 * Failures that a program would handle differently have a class of their own, the rest is
 * TarnError. Each is also the built-in exception that other libraries raise for the same.
 *
 * Python code may sit below C code (a resource written in Python under a limiter under a
 * DeviceBuffer). Its exception becomes a status on the way up through C, and has to come
 * out again whole, with its traceback. So it is kept for the thread, next to the words
 * that it left with tarn_error_set(). If those are still the last ones when the outer
 * call raises, nobody has failed since, and the kept exception is the cause.
 */
#include "state.h"

#include <string.h>

/* Where a thread keeps the exception: key in its PyThreadState dict, value a tuple of the
 * exception and the words. */
#define KEPT "tarn.kept_exception"

/* --- the exception that is set, as one object --- */

PyObject *tarn__exception_take(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void tarn__exception_put(PyObject *exception)
{
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(exception);
#else
    if (exception == NULL) {
        PyErr_Clear();
        return;
    }
    PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                  PyException_GetTraceback(exception));
#endif
}

/* --- keeping an exception while C code passes a status on --- */

static tarn_status status_of(tarn__state *state, PyObject *exception)
{
    if (PyErr_GivenExceptionMatches(exception, state->TarnError)) {
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

static void set_words(tarn_status status, const char *who, PyObject *exception)
{
    PyObject *text = PyObject_Str(exception);
    const char *words = text != NULL ? PyUnicode_AsUTF8(text) : NULL;

    tarn_error_set(status, "%s: %s: %s", who, Py_TYPE(exception)->tp_name,
                   words != NULL ? words : "(no words)");
    Py_XDECREF(text);
    PyErr_Clear();
}

tarn_status tarn__error_keep(tarn__state *state, const char *who)
{
    PyObject *exception = tarn__exception_take();
    PyObject *thread = PyThreadState_GetDict(); /* borrowed */

    if (exception == NULL)
        return tarn_error_set(TARN_PLUGIN_FAILURE, "%s: failed without an exception",
                              who);

    tarn_status status = status_of(state, exception);
    set_words(status, who, exception);
    PyObject *kept = Py_BuildValue("(Oy)", exception, tarn_error_last()->message);
    if (kept == NULL || thread == NULL || PyDict_SetItemString(thread, KEPT, kept) != 0)
        PyErr_Clear();
    Py_XDECREF(kept);
    Py_DECREF(exception);
    return status;
}

/* The exception that this thread kept, if it is behind the last failure. New reference or
 * NULL; either way nothing is kept afterwards. */
static PyObject *take_kept(void)
{
    PyObject *thread = PyThreadState_GetDict();
    PyObject *kept = thread != NULL ? PyDict_GetItemString(thread, KEPT) : NULL;
    PyObject *exception = NULL;

    if (kept == NULL)
        return NULL;
    if (strcmp(PyBytes_AS_STRING(PyTuple_GET_ITEM(kept, 1)),
               tarn_error_last()->message) == 0)
        exception = Py_NewRef(PyTuple_GET_ITEM(kept, 0));
    if (PyDict_DelItemString(thread, KEPT) != 0)
        PyErr_Clear();
    return exception;
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

/* Borrowed; a class of Python's own once those of the module are gone, at exit. */
static PyObject *class_for(tarn__state *state, tarn_status status)
{
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

PyObject *tarn__raise(tarn__state *state, tarn_status status)
{
    PyObject *kept = take_kept();
    if (kept != NULL) {
        tarn__exception_put(kept);
        return NULL;
    }

    const tarn_error *last = tarn_error_last();
    bool known = last->status == status;
    PyObject *type = class_for(state, status);
    PyObject *exception = PyObject_CallFunction(
        type, "s", known ? last->message : tarn_status_meaning(status));
    if (exception == NULL)
        return NULL;
    if (set_number(exception, "status", status) == 0 &&
        set_number(exception, "native", known ? last->native : 0) == 0)
        PyErr_SetObject(type, exception);
    Py_DECREF(exception);
    return NULL;
}

void tarn__raise_unraisable(tarn__state *state, tarn_status status, PyObject *object)
{
    PyObject *before = tarn__exception_take();
    tarn__raise(state, status);
    PyErr_WriteUnraisable(object);
    tarn__exception_put(before);
}

/* --- the classes --- */

PyDoc_STRVAR(
    tarn_error_doc,
    "A call of Tarn failed. The words say who refused, what, and the numbers.\n\n"
    "status: the tarn_status, an int (see include/tarn/status.h).\n"
    "native: the driver's own code (a CUresult) or errno; 0 if there is none.");
PyDoc_STRVAR(out_of_memory_doc, "Not enough memory, or over a limit.");
PyDoc_STRVAR(
    invalid_argument_doc,
    "An argument is out of range: a foreign pointer, a second free, wrong sizes.");
PyDoc_STRVAR(not_supported_doc, "This device or resource does not offer the operation.");
PyDoc_STRVAR(no_driver_doc, "No GPU driver could be loaded. TARN_DRIVER=sim asks for the "
                            "stand-in that comes with Tarn.");

static int add_class(PyObject *module, PyObject **slot, const char *name, const char *doc,
                     PyObject *base, PyObject *builtin)
{
    PyObject *bases =
        base != NULL ? PyTuple_Pack(2, base, builtin) : PyTuple_Pack(1, builtin);
    if (bases == NULL)
        return -1;
    *slot = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    if (*slot == NULL)
        return -1;
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, *slot);
}

int tarn__add_errors(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    if (add_class(module, &state->TarnError, "tarn.TarnError", tarn_error_doc, NULL,
                  PyExc_RuntimeError) != 0)
        return -1;
    PyObject *base = state->TarnError;
    if (set_number(base, "status", 0) != 0 || set_number(base, "native", 0) != 0)
        return -1;
    if (add_class(module, &state->OutOfMemoryError, "tarn.OutOfMemoryError",
                  out_of_memory_doc, base, PyExc_MemoryError) != 0 ||
        add_class(module, &state->InvalidArgumentError, "tarn.InvalidArgumentError",
                  invalid_argument_doc, base, PyExc_ValueError) != 0 ||
        add_class(module, &state->NotSupportedError, "tarn.NotSupportedError",
                  not_supported_doc, base, PyExc_NotImplementedError) != 0)
        return -1;
    PyObject *bases = PyTuple_Pack(1, base);
    if (bases == NULL)
        return -1;
    state->NoDriverError =
        PyErr_NewExceptionWithDoc("tarn.NoDriverError", no_driver_doc, bases, NULL);
    Py_DECREF(bases);
    if (state->NoDriverError == NULL)
        return -1;
    return PyModule_AddObjectRef(module, "NoDriverError", state->NoDriverError);
}
