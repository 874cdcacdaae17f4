/* deferred.c -- tarn.deferred_frees() and tarn.reclaim_deferred_frees(): memory whose
 * last reference is gone and that is not returned yet.
 */
#include "error.h"
#include "module.h"

static PyStructSequence_Field fields[] = {
    {"failed", "Number of blocks whose free failed; later calls try it again."},
    {"failed_bytes", "Bytes of the blocks whose free failed."},
    {"waiting", "Number of blocks whose free waits."},
    {"waiting_bytes", "Bytes of the blocks whose free waits."},
    {NULL, NULL},
};
static PyStructSequence_Desc desc = {
    "tarn.DeferredFrees",
    "Counts of deferred frees: blocks without a reference that are not freed yet.",
    fields, 4};

PyDoc_STRVAR(
    deferred_frees_doc,
    "deferred_frees()\n--\n\n"
    "Return the counts of deferred frees, as a DeferredFrees.\n\n"
    "These are blocks that have lost their last reference and are not freed yet. The\n"
    "free failed, and sys.unraisablehook has received the error. Or it waits: for the\n"
    "end of defer_cleanup(), or for other frees that share one wait for the device.");

static PyObject *deferred_frees(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn__state *state = tarn__state_get(module);
    tarn_deferred_frees frees = {.size = sizeof frees};
    tarn_status status = tarn_pointer_deferred_frees(&frees);

    if (status != TARN_OK)
        return tarn__error_raise(state, status);
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
    "Free all blocks that deferred_frees() counts, those that wait included.\n\n"
    "Raises TarnError for the first failure, after all were tried. The blocks whose\n"
    "free failed stay counted.");

static PyObject *reclaim_deferred_frees(PyObject *module, PyObject *Py_UNUSED(none))
{
    TARN__CALL;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pointer_reclaim_deferred();
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"deferred_frees", deferred_frees, METH_NOARGS, deferred_frees_doc},
    {"reclaim_deferred_frees", reclaim_deferred_frees, METH_NOARGS, reclaim_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__deferred_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->DeferredFrees = (PyObject *)PyStructSequence_NewType(&desc);
    if (state->DeferredFrees == NULL ||
        PyModule_AddType(module, (PyTypeObject *)state->DeferredFrees) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
