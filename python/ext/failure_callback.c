/* failure_callback.c -- how a failure callback, an adaptor of libtarn, calls Python.
 *
 * The function of the program is in the Python object, where the garbage collector sees
 * it. The adaptor has a weak reference to the object. The objects of the resources above
 * keep it alive; once it has ended, allocations fail without a call.
 */
#include "failure_callback.h"
#include "error.h"
#include "gil.h"

#include <tarn/adaptor.h>

/* Return 1 if the object answers yes, 0 for no, -1 with an exception set. */
static int ask(PyObject *object, size_t bytes)
{
    PyObject *answer =
        PyObject_CallMethod(object, "_ask", "K", (unsigned long long)bytes);
    int result = answer != NULL ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return result;
}

static tarn_status ask_python(void *data, size_t bytes, bool *again_out)
{
    struct tarn__gil_stay stay;
    tarn_status status = TARN_OK;

    if (!tarn__gil_enter(&stay))
        return TARN_OK; /* exit has begun: no Python code can run */
    PyObject *object = PyObject_CallNoArgs(data);
    if (object != NULL && object != Py_None) {
        int answer = ask(object, bytes);
        *again_out = answer > 0;
        if (answer < 0)
            status = tarn__error_keep(tarn__state_of(Py_TYPE(object)), "python");
    }
    Py_XDECREF(object);
    return tarn__gil_leave(&stay, status);
}

static void forget(void *data)
{
    struct tarn__gil_stay stay;

    if (tarn__gil_enter(&stay)) {
        Py_DECREF((PyObject *)data);
        tarn__gil_leave(&stay, TARN_OK);
    }
}

tarn_status tarn__failure_callback_create(tarn_resource *upstream, PyObject *object,
                                          tarn_resource **out)
{
    PyObject *weak = PyWeakref_NewRef(object, NULL);

    if (weak == NULL)
        return tarn__error_keep(NULL, "python");
    tarn_status status =
        tarn_failure_callback_create(upstream, ask_python, weak, forget, out);
    if (status != TARN_OK)
        Py_DECREF(weak);
    return status;
}
