/* state.c -- the module's state, and how a method finds it. */
#include "state.h"

tarn__state *tarn__state_get(PyObject *module)
{
    return PyModule_GetState(module);
}

/* Of the newest module, while that exists. */
static tarn__state *last_state;

void tarn__state_begin(tarn__state *state)
{
    last_state = state;
}

void tarn__state_end(const tarn__state *state)
{
    if (last_state == state)
        last_state = NULL;
}

/* The garbage collector clears a class, its reference to the module included, before it
 * frees the last objects of it. That happens with a cycle through the class, and always
 * at exit. */
tarn__state *tarn__state_of(PyTypeObject *type)
{
    PyObject *module =
        type->tp_mro != NULL ? PyType_GetModuleByDef(type, &tarn__module) : NULL;

    if (module != NULL)
        return tarn__state_get(module);
    PyErr_Clear();
    return last_state;
}

int tarn__state_add_type(PyObject *module, PyType_Spec *spec, PyObject *bases,
                         PyObject **slot)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
    if (type == NULL)
        return -1;
    *slot = type;
    return PyModule_AddType(module, (PyTypeObject *)type);
}

bool tarn__state_is_there(const tarn__state *state)
{
    if (state != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "tarn: the interpreter is exiting, the module can no longer be used");
    return false;
}

int tarn__state_add_methods(PyObject *type, PyMethodDef *methods)
{
    for (PyMethodDef *method = methods; method->ml_name != NULL; method++) {
        PyObject *descriptor = method->ml_flags & METH_CLASS
                                   ? PyDescr_NewClassMethod((PyTypeObject *)type, method)
                                   : PyDescr_NewMethod((PyTypeObject *)type, method);
        if (descriptor == NULL)
            return -1;
        int result = PyObject_SetAttrString(type, method->ml_name, descriptor);
        Py_DECREF(descriptor);
        if (result != 0)
            return -1;
    }
    return 0;
}
