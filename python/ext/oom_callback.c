/* oom_callback.c -- out-of-memory callbacks: how a pool short of memory calls Python.
 *
 * The C pool has one callback for each Python object whose class registers callbacks.
 * That callback refers to the object weakly: the functions to call are in the object's
 * own list, where the garbage collector sees them. The C pool may outlive the object, and
 * a thread may be about to call back when the object ends. So the callback's few bytes
 * are never freed. Once the object is gone it returns false.
 */
#include "error.h"
#include "gil.h"
#include "module.h"
#include "pool.h"

/* Did this callback free something? An exception cannot be raised here, and counts as no.
 */
static bool call_one(PyObject *callback, size_t bytes, unsigned attempt)
{
    PyObject *result = PyObject_CallFunction(callback, "nI", (Py_ssize_t)bytes, attempt);
    int yes = result != NULL ? PyObject_IsTrue(result) : 0;

    Py_XDECREF(result);
    if (PyErr_Occurred())
        tarn__error_write_unraisable(callback);
    return yes > 0;
}

/* Is this object in the list? It is compared by identity, as equality may run any code.
 */
static bool is_in(PyObject *list, const PyObject *callback)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (PyList_GET_ITEM(list, i) == callback)
            return true;
    return false;
}

/* Call each callback that is in the list at first, unless an earlier callback or another
 * thread has removed it since. */
static bool call_all(PyObject *list, size_t bytes, unsigned attempt)
{
    PyObject *all = PyList_GetSlice(list, 0, PyList_GET_SIZE(list));
    bool any = false;

    for (Py_ssize_t i = 0; all != NULL && i < PyList_GET_SIZE(all); i++)
        if (is_in(list, PyList_GET_ITEM(all, i)))
            any |= call_one(PyList_GET_ITEM(all, i), bytes, attempt);
    Py_XDECREF(all);
    return any;
}

static bool call_list(PyObject *weak, size_t bytes, unsigned attempt)
{
    PyObject *object = PyObject_CallNoArgs(weak), *list = NULL;
    bool any = false;

    if (object != NULL && object != Py_None)
        list = PyObject_GetAttrString(object, "_callbacks");
    if (list != NULL && PyList_Check(list))
        any = call_all(list, bytes, attempt);
    if (PyErr_Occurred())
        tarn__error_write_unraisable(weak);
    Py_XDECREF(list);
    Py_XDECREF(object);
    return any;
}

static bool call_callbacks(void *data, tarn_resource *pool, size_t bytes,
                           unsigned attempt)
{
    struct tarn__gil_stay stay;

    (void)pool;
    if (!tarn__gil_enter(&stay))
        return false;
    bool again = call_list(data, bytes, attempt);
    tarn__gil_leave(&stay, TARN_OK);
    return again;
}

/* (self): from now on the callables in the list self._callbacks are called. */
static PyObject *begin_oom_callbacks(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool = tarn__pool_of(state, object);
    PyObject *weak = pool != NULL ? PyWeakref_NewRef(object, NULL) : NULL;

    if (weak == NULL)
        return NULL;
    tarn_status status = tarn_pool_add_oom_callback(pool, call_callbacks, weak);
    if (status != TARN_OK) {
        Py_DECREF(weak);
        return tarn__error_raise(state, status);
    }
    Py_RETURN_NONE; /* the pool keeps `weak` permanently */
}

static PyMethodDef oom_callback_functions[] = {
    {"_pool_begin_oom_callbacks", begin_oom_callbacks, METH_O,
     "_pool_begin_oom_callbacks(mr, /)\n--\n\n"
     "Have the pool call the callables in the list `mr._callbacks`."},
    {NULL, NULL, 0, NULL},
};

int tarn__oom_callback_init(PyObject *module)
{
    return PyModule_AddFunctions(module, oom_callback_functions);
}
