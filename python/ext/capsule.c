/* capsule.c -- C resources for other extensions, and theirs for Python.
 *
 * A capsule named "tarn_resource" holds one reference to a tarn_resource. The extension
 * that connects Tarn and RMM (tarn/_build/rmm.cpp) exchanges resources in this way.
 *
 * These functions are internal to the package (their names begin with `_`).
 */
#include "error.h"
#include "module.h"
#include "resource.h"

#define CAPSULE_NAME "tarn_resource"

static void capsule_end(PyObject *capsule)
{
    TARN__CALL;
    tarn__resource_release(NULL, PyCapsule_GetPointer(capsule, CAPSULE_NAME), capsule);
}

static PyObject *resource_capsule(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn_resource *resource = tarn__resource_from(tarn__state_get(module), object, -1);
    if (resource == NULL)
        return NULL;
    PyObject *capsule = PyCapsule_New(resource, CAPSULE_NAME, capsule_end);
    if (capsule == NULL)
        tarn__resource_release(NULL, resource, object);
    return capsule;
}

/* (self, capsule) */
static PyObject *adopt_capsule(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    PyObject *object, *capsule;

    if (!PyArg_ParseTuple(args, "O!O", state->DeviceMemoryResource, &object, &capsule))
        return NULL;
    tarn_resource *resource = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    if (resource == NULL ||
        tarn__resource_adopt(state, (tarn__resource_object *)object,
                             tarn_resource_retain(resource), NULL) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* (mr, ptr, nbytes, stream): RMM calls this, and can pass no exception on. */
static PyObject *deallocate_or_report(PyObject *Py_UNUSED(module), PyObject *const *args,
                                      Py_ssize_t count)
{
    if (count != 4) {
        PyErr_Format(PyExc_TypeError,
                     "_deallocate_or_report() takes 4 arguments, not %zd", count);
        return NULL;
    }
    PyObject *name = PyUnicode_InternFromString("deallocate");
    PyObject *result =
        name != NULL ? PyObject_VectorcallMethod(name, args, 4, NULL) : NULL;
    Py_XDECREF(name);
    if (result == NULL)
        tarn__error_write_unraisable(args[0]);
    Py_XDECREF(result);
    Py_RETURN_NONE;
}

static PyMethodDef capsule_functions[] = {
    {"_resource_capsule", resource_capsule, METH_O,
     "_resource_capsule(mr, /)\n--\n\n"
     "Return a capsule with a reference to the C resource of `mr`."},
    {"_adopt_capsule", adopt_capsule, METH_VARARGS,
     "_adopt_capsule(mr, capsule, /)\n--\n\n"
     "Give a resource object without a C resource that of a capsule."},
    {"_deallocate_or_report", (PyCFunction)(void (*)(void))deallocate_or_report,
     METH_FASTCALL,
     "_deallocate_or_report(mr, ptr, nbytes, stream, /)\n--\n\n"
     "Free a block; pass an exception to sys.unraisablehook."},
    {NULL, NULL, 0, NULL},
};

int tarn__capsule_init(PyObject *module)
{
    return PyModule_AddFunctions(module, capsule_functions);
}
