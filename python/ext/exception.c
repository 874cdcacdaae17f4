/* exception.c -- the current exception, as one object, in all versions of Python. */
#include "exception.h"

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
