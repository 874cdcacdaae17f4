/* guard.c -- calls on guards, for tarn.guard.
 *
 * These functions are internal to the package, as those of maker.c are.
 */
#include "error.h"
#include "module.h"
#include "resource.h"

/* The guard in `object`, or NULL for None, which means that of the process. Returns -1 with
 * an exception. */
static int guard_of(tarn__state *state, PyObject *object, tarn_resource **out)
{
    *out = object == Py_None ? NULL : tarn__resource_native(state, object);
    return object == Py_None || *out != NULL ? 0 : -1;
}

static PyObject *guard_check(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *guard;
    uint64_t reports = 0;
    tarn_status status;

    if (guard_of(state, object, &guard) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_guard_check(guard, &reports);
    Py_END_ALLOW_THREADS;
    return status == TARN_OK ? PyLong_FromUnsignedLongLong(reports)
                             : tarn__error_raise(state, status);
}

static PyObject *guard_counts(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_guard_counts counts = {.size = sizeof counts};
    tarn_resource *guard;

    if (guard_of(state, object, &guard) != 0)
        return NULL;
    tarn_status status = tarn_guard_read_counts(guard, &counts);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return Py_BuildValue(
        "(KKKKKKKK)", (unsigned long long)counts.guarded,
        (unsigned long long)counts.unguarded, (unsigned long long)counts.checks,
        (unsigned long long)counts.unchecked, (unsigned long long)counts.pending,
        (unsigned long long)counts.reports, (unsigned long long)counts.quarantined_blocks,
        (unsigned long long)counts.quarantined_bytes);
}

static PyObject *guard_enable(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    const char *text = PyUnicode_AsUTF8(object);
    tarn_guard_options options;

    if (text == NULL)
        return NULL;
    tarn_status status = tarn_guard_parse(text, &options);
    if (status == TARN_OK)
        status = tarn_guard_enable(&options);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

static PyMethodDef guard_functions[] = {
    {"_guard_check", guard_check, METH_O,
     "_guard_check(mr, /)\n--\n\n"
     "Check all blocks of a guard, or of the process's (None); return its reports."},
    {"_guard_counts", guard_counts, METH_O,
     "_guard_counts(mr, /)\n--\n\n"
     "Return the counts of a guard, or of the process's (None)."},
    {"_guard_enable", guard_enable, METH_O,
     "_guard_enable(options, /)\n--\n\n"
     "Switch guard mode on for all resources of the process."},
    {NULL, NULL, 0, NULL},
};

int tarn__guard_init(PyObject *module)
{
    return PyModule_AddFunctions(module, guard_functions);
}
