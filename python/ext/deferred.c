/* deferred.c -- tarn.deferred_frees() and tarn.reclaim_deferred_frees(): memory whose
 * last reference is gone and that is not returned yet.
 */
#include "state.h"

static PyStructSequence_Field fields[] = {
    {"failed", "blocks whose free failed; it is tried again by later calls"},
    {"failed_bytes", "their bytes"},
    {"waiting", "blocks whose free waits, e.g. for the end of deferred cleanup"},
    {"waiting_bytes", "their bytes"},
    {NULL, NULL},
};
static PyStructSequence_Desc desc = {
    "tarn.DeferredFrees", "Frees that are not done, of blocks without references.",
    fields, 4};

PyDoc_STRVAR(
    deferred_frees_doc,
    "deferred_frees()\n--\n\n"
    "How much memory has no references and is not back where it came from, as\n"
    "a DeferredFrees: its free failed, which sys.unraisablehook got a report of, or it\n"
    "waits for the end of defer_cleanup() or for other frees.");

static PyObject *deferred_frees(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn__state *state = tarn__state_get(module);
    tarn_deferred_frees frees = {.size = sizeof frees};
    tarn_status status = tarn_pointer_deferred_frees(&frees);

    if (status != TARN_OK)
        return tarn__raise(state, status);
    const size_t values[] = {frees.failed_count, frees.failed_bytes, frees.waiting_count,
                             frees.waiting_bytes};
    PyObject *tuple = PyStructSequence_New((PyTypeObject *)state->DeferredFrees);
    for (int i = 0; tuple != NULL && i < 4; i++) {
        PyObject *number = PyLong_FromSize_t(values[i]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyStructSequence_SetItem(tuple, i, number);
    }
    return tuple;
}

PyDoc_STRVAR(
    reclaim_doc,
    "reclaim_deferred_frees()\n--\n\n"
    "Free now what deferred_frees() counts, what waits as well. Raises the first\n"
    "failure, once everything was tried; what failed stays counted.");

static PyObject *reclaim_deferred_frees(PyObject *module, PyObject *Py_UNUSED(none))
{
    TARN__CALL;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pointer_reclaim_deferred();
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"deferred_frees", deferred_frees, METH_NOARGS, deferred_frees_doc},
    {"reclaim_deferred_frees", reclaim_deferred_frees, METH_NOARGS, reclaim_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__add_deferred(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->DeferredFrees = (PyObject *)PyStructSequence_NewType(&desc);
    if (state->DeferredFrees == NULL ||
        PyModule_AddType(module, (PyTypeObject *)state->DeferredFrees) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
