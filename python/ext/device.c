/* device.c -- which resource is in charge of a device, from Python.
 *
 * The registry is libtarn's, one a process: what Python sets serves C code too, and the
 * other way round. `registered` in the module's state is only there so that the very
 * object that Python set comes back, with its attributes.
 */
#include "state.h"

/* The object that Python set for `device`, if `resource` is still what it stands for;
 * borrowed, or NULL. */
static PyObject *registered_object(tarn__state *state, int device,
                                   const tarn_resource *resource)
{
    PyObject *key = PyLong_FromLong(device);
    PyObject *object =
        key != NULL ? PyDict_GetItemWithError(state->registered, key) : NULL;

    Py_XDECREF(key);
    if (object != NULL && ((tarn__resource_object *)object)->native == resource)
        return object;
    return NULL;
}

/* What was asked for last, if it still serves `device` (-1: the current one): no lock, no
 * dictionary. Borrowed, or NULL: ask as if there were none. */
static PyObject *served_object(tarn__state *state, int device)
{
    PyObject *object = state->served;

    if (object == NULL ||
        (device < 0 && tarn_driver_current_device(&device) != TARN_OK) ||
        device != state->served_device ||
        !tarn_device_serves_from(device, ((tarn__resource_object *)object)->native))
        return NULL;
    return object;
}

/* Takes over one reference to `resource`. */
static PyObject *object_of(tarn__state *state, int device, tarn_resource *resource)
{
    PyObject *object = registered_object(state, device, resource);

    if (object == NULL)
        return PyErr_Occurred() ? NULL : tarn__resource_wrap(state, resource);
    Py_XSETREF(state->served, Py_NewRef(object));
    state->served_device = device;
    Py_INCREF(object);
    tarn__resource_drop(state, resource, object);
    return object;
}

static tarn_status find_resource(int device, tarn_resource **out)
{
    tarn_status status = TARN_OK;

    if (device < 0)
        status = tarn_driver_current_device(&device);
    return status == TARN_OK ? tarn_device_resource(device, out) : status;
}

/* The first time opens the driver, which takes a while. After that it is a matter of 50 ns,
 * less than letting go of the GIL takes, and no lock in it is held across a call of
 * anybody's code. */
static tarn_status find_resource_without_gil(int device, tarn_resource **out)
{
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = find_resource(device, out);
    Py_END_ALLOW_THREADS;
    return status;
}

PyObject *tarn__device_resource(tarn__state *state, int device)
{
    static bool driver_is_open; /* under the GIL */
    PyObject *served = served_object(state, device);
    if (served != NULL)
        return Py_NewRef(served);

    tarn_resource *resource = NULL;
    tarn_status status = driver_is_open ? find_resource(device, &resource)
                                        : find_resource_without_gil(device, &resource);

    if (status != TARN_OK)
        return tarn__raise(state, status);
    driver_is_open = true;
    return object_of(state, tarn_resource_device(resource), resource);
}

/* Remember what Python set; NULL forgets. */
static int remember(tarn__state *state, int device, PyObject *object)
{
    PyObject *key = PyLong_FromLong(device);
    int result = -1;

    if (key == NULL)
        return -1;
    Py_CLEAR(state->served);
    if (object != NULL)
        result = PyDict_SetItem(state->registered, key, object);
    else if (PyDict_Contains(state->registered, key) == 1)
        result = PyDict_DelItem(state->registered, key);
    else if (!PyErr_Occurred())
        result = 0;
    Py_DECREF(key);
    return result;
}

static PyObject *set_resource(tarn__state *state, int device, PyObject *object)
{
    tarn_resource *resource = NULL, *previous = NULL;
    tarn_status status;

    if (object != Py_None) {
        resource = tarn__resource_from(state, object, device);
        if (resource == NULL)
            return NULL;
    }
    /* A bridge knows its object itself. */
    bool known = resource == NULL || tarn__bridge_object(resource) != NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_device_set_resource(device, resource, &previous);
    Py_END_ALLOW_THREADS;
    tarn__resource_release(state, resource, object);
    if (status != TARN_OK)
        return tarn__raise(state, status);
    PyObject *result = object_of(state, device, previous);
    if (result == NULL || remember(state, device, known ? NULL : object) != 0) {
        Py_XDECREF(result);
        return NULL;
    }
    return result;
}

PyDoc_STRVAR(
    get_current_doc,
    "get_current_device_resource()\n--\n\n"
    "The resource in charge of the current device; a CudaMemoryResource where none\n"
    "was set.\n\nRaises NoDriverError.");

static PyObject *get_current(PyObject *module, PyObject *Py_UNUSED(none))
{
    return tarn__device_resource(tarn__state_get(module), -1);
}

/* A device number from Python: not negative, which stands for the current one here. */
static int check_device(int device)
{
    if (device >= 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "there is no device %d", device);
    return -1;
}

PyDoc_STRVAR(get_per_device_doc,
             "get_per_device_resource(device)\n--\n\n"
             "The resource in charge of device number `device`.\n\n"
             "Raises InvalidArgumentError if there is no such device.");

static PyObject *get_per_device(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    int device;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i:get_per_device_resource", names,
                                     &device) ||
        check_device(device) != 0)
        return NULL;
    return tarn__device_resource(tarn__state_get(module), device);
}

PyDoc_STRVAR(
    set_current_doc,
    "set_current_device_resource(mr)\n--\n\n"
    "Put `mr` (None: the default) in charge of the current device; returns what was\n"
    "before. Blocks that are out go back to where they came from.\n\n"
    "Raises InvalidArgumentError for a resource of another device.");

static PyObject *set_current(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mr", NULL};
    tarn__state *state = tarn__state_get(module);
    PyObject *object;
    int device;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:set_current_device_resource", names,
                                     &object))
        return NULL;
    tarn_status status = tarn_driver_current_device(&device);
    if (status != TARN_OK)
        return tarn__raise(state, status);
    return set_resource(state, device, object);
}

PyDoc_STRVAR(
    set_per_device_doc,
    "set_per_device_resource(device, mr)\n--\n\n"
    "Put `mr` (None: the default) in charge of device number `device`; returns what\n"
    "was before.\n\n"
    "Raises InvalidArgumentError for a resource of another device.");

static PyObject *set_per_device(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "mr", NULL};
    PyObject *object;
    int device;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iO:set_per_device_resource", names,
                                     &device, &object) ||
        check_device(device) != 0)
        return NULL;
    return set_resource(tarn__state_get(module), device, object);
}

PyDoc_STRVAR(was_set_doc, "_resource_was_set(device)\n--\n\n"
                          "Has Python code put a resource of C's in charge of it, be it "
                          "the default?");

static PyObject *was_set(PyObject *module, PyObject *device)
{
    int found = PyDict_Contains(tarn__state_get(module)->registered, device);

    return found < 0 ? NULL : PyBool_FromLong(found);
}

static PyMethodDef device_functions[] = {
    {"get_current_device_resource", get_current, METH_NOARGS, get_current_doc},
    {"get_per_device_resource", (PyCFunction)(void (*)(void))get_per_device,
     METH_VARARGS | METH_KEYWORDS, get_per_device_doc},
    {"set_current_device_resource", (PyCFunction)(void (*)(void))set_current,
     METH_VARARGS | METH_KEYWORDS, set_current_doc},
    {"set_per_device_resource", (PyCFunction)(void (*)(void))set_per_device,
     METH_VARARGS | METH_KEYWORDS, set_per_device_doc},
    {"_resource_was_set", was_set, METH_O, was_set_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__add_device(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->registered = PyDict_New();
    if (state->registered == NULL)
        return -1;
    return PyModule_AddFunctions(module, device_functions);
}
