/* device.c -- the current device resource of each device, from Python.
 *
 * The registry is libtarn's, one per process: a resource that Python sets serves C code
 * too, and vice versa. `registered` in the module's state only serves to return the very
 * object that Python set, with its attributes. `wrapped` has the object that was made for
 * another resource, the default one for example: the same one again at each call.
 *
 * The two change together. From the call that changes the registry until `registered` is
 * updated, the GIL is held and no other code runs, an object's end included. So anything
 * that may wait for the driver comes before that call.
 */
#include "device.h"
#include "bridge.h"
#include "error.h"
#include "module.h"
#include "resource.h"

/* The object that `objects` has for `device`, if `resource` is still the one behind it;
 * borrowed, or NULL. */
static PyObject *object_in(PyObject *objects, int device, const tarn_resource *resource)
{
    PyObject *key = PyLong_FromLong(device);
    PyObject *object = key != NULL ? PyDict_GetItemWithError(objects, key) : NULL;

    Py_XDECREF(key);
    if (object != NULL && ((tarn__resource_object *)object)->native == resource)
        return object;
    return NULL;
}

/* The object that Python set for `device`, or that was made for it; borrowed, or NULL. */
static PyObject *known_object(tarn__state *state, int device,
                              const tarn_resource *resource)
{
    PyObject *object = object_in(state->registered, device, resource);

    return object != NULL || PyErr_Occurred()
               ? object
               : object_in(state->wrapped, device, resource);
}

/* Make `object` the one for `resource` on `device`, if it holds it itself. The caller has
 * another reference. */
static int keep_wrapped(tarn__state *state, int device, PyObject *object)
{
    PyObject *key = PyLong_FromLong(device);
    PyObject *before =
        key != NULL ? Py_XNewRef(PyDict_GetItemWithError(state->wrapped, key)) : NULL;
    int result = key != NULL && !PyErr_Occurred()
                     ? PyDict_SetItem(state->wrapped, key, object)
                     : -1;

    Py_XDECREF(key);
    Py_XDECREF(before); /* last: its end may run any code */
    return result;
}

/* Take the object that was made for `device`, which is kept no longer. NULL: none. */
static PyObject *take_wrapped(tarn__state *state, int device)
{
    PyObject *key = PyLong_FromLong(device);
    PyObject *object =
        key != NULL ? Py_XNewRef(PyDict_GetItemWithError(state->wrapped, key)) : NULL;

    if (object != NULL)
        PyDict_DelItem(state->wrapped, key);
    Py_XDECREF(key);
    PyErr_Clear();
    return object;
}

/* The object returned last, if it still serves `device` (-1: the current one): no lock,
 * no dictionary. Borrowed, or NULL: take the slow path. */
static PyObject *served_object(tarn__state *state, int device)
{
    PyObject *object = state->served;

    if (object == NULL ||
        (device < 0 && tarn_driver_current_device(&device) != TARN_OK) ||
        device != state->served_device ||
        !tarn_device_resource_is(device, ((tarn__resource_object *)object)->native))
        return NULL;
    return object;
}

/* The object of `resource`, which serves `device`; takes over one reference to it. */
static PyObject *object_of(tarn__state *state, int device, tarn_resource *resource)
{
    PyObject *object = Py_XNewRef(known_object(state, device, resource));

    if (object == NULL && PyErr_Occurred()) {
        tarn__resource_release(state, resource, NULL);
        return NULL;
    }
    if (object == NULL) {
        bool is_bridge = tarn__bridge_object(resource) != NULL;
        object = tarn__resource_wrap(state, resource);
        if (object != NULL && !is_bridge && keep_wrapped(state, device, object) != 0)
            Py_CLEAR(object);
        return object;
    }
    PyObject *before = state->served;
    state->served = Py_NewRef(object);
    state->served_device = device;
    tarn__resource_drop(state, resource, object);
    Py_XDECREF(before); /* last: its end may run any code */
    return object;
}

static tarn_status find_resource(int device, tarn_resource **out)
{
    tarn_status status = TARN_OK;

    if (device < 0)
        status = tarn_driver_current_device(&device);
    return status == TARN_OK ? tarn_device_resource(device, out) : status;
}

/* The first call opens the driver, which takes a while. Later calls take 50 ns, less than
 * releasing the GIL takes, and no lock in them is held across a call of other code. */
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
    TARN__CALL;
    static bool driver_is_open; /* under the GIL */
    if (!tarn__state_is_there(state))
        return NULL;
    PyObject *served = served_object(state, device);
    if (served != NULL)
        return Py_NewRef(served);

    tarn_resource *resource = NULL;
    tarn_status status;
    if (!driver_is_open) {
        status = find_resource_without_gil(device, &resource);
        if (status != TARN_OK)
            return tarn__error_raise(state, status);
        driver_is_open = true;
        tarn__resource_release(state, resource, NULL); /* it may be another one by now */
    }
    status = find_resource(device, &resource);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return object_of(state, tarn_resource_device(resource), resource);
}

/* The new current resource for set_resource(). */
struct next {
    int device;
    tarn_resource *resource; /* retained */
    PyObject *object;        /* to be remembered; NULL: the resource finds its own */
};

/* All steps that may take long or call other code: get the resource of `object` (None:
 * the default one), and the one before, which is created if it was never used. */
static int prepare(tarn__state *state, PyObject *object, struct next *next)
{
    tarn_resource *previous = NULL;
    tarn_status status = TARN_OK;

    if (object != Py_None) {
        next->resource = tarn__resource_from(state, object, next->device);
        if (next->resource == NULL)
            return -1;
        if (tarn__bridge_object(next->resource) == NULL)
            next->object = object;
    }
    Py_BEGIN_ALLOW_THREADS;
    if (next->resource == NULL)
        status = tarn_cuda_create(next->device, &next->resource);
    if (status == TARN_OK)
        status = tarn_device_resource(next->device, &previous);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        tarn__resource_release(state, next->resource, object);
        return -1;
    }
    tarn__resource_release(state, previous, NULL); /* the registry has its own */
    return 0;
}

/* Set `registered` for the device to `object` (NULL: remove it); the caller gets the old
 * one. 0, or -1 with an exception set and nothing changed. */
static int remember(tarn__state *state, int device, PyObject *object, PyObject **before)
{
    PyObject *key = PyLong_FromLong(device);
    int result = -1;

    if (key == NULL)
        return -1;
    *before = Py_XNewRef(PyDict_GetItemWithError(state->registered, key));
    if (object != NULL)
        result = PyDict_SetItem(state->registered, key, object);
    else if (*before != NULL)
        result = PyDict_DelItem(state->registered, key);
    else if (!PyErr_Occurred())
        result = 0;
    if (result != 0)
        Py_CLEAR(*before);
    Py_DECREF(key);
    return result;
}

/* The object of `resource`, which served until now, where `registered` had `before` and
 * `wrapped` had `wrapped`. Takes over one reference to it. */
static PyObject *object_before(tarn__state *state, tarn_resource *resource,
                               PyObject *before, PyObject *wrapped)
{
    if (before == NULL || ((tarn__resource_object *)before)->native != resource)
        before = wrapped;
    if (before == NULL || ((tarn__resource_object *)before)->native != resource)
        return tarn__resource_wrap(state, resource);
    tarn__resource_drop(state, resource, before);
    return Py_NewRef(before);
}

static PyObject *set_resource(tarn__state *state, int device, PyObject *object)
{
    TARN__CALL;
    struct next next = {.device = device};
    tarn_resource *previous = NULL;
    PyObject *before = NULL, *result = NULL;

    if (!tarn__state_is_there(state) || prepare(state, object, &next) != 0)
        return NULL;
    if (remember(state, device, next.object, &before) == 0) {
        PyObject *served = state->served, *unused = NULL;
        tarn_status status = tarn_device_set_resource(device, next.resource, &previous);
        if (status == TARN_OK) {
            PyObject *wrapped = take_wrapped(state, device);
            state->served = NULL;
            result = object_before(state, previous, before, wrapped);
            Py_XDECREF(served);
            Py_XDECREF(wrapped);
        } else {
            remember(state, device, before, &unused); /* as it was */
            tarn__error_raise(state, status);
            Py_XDECREF(unused);
        }
    }
    tarn__resource_release(state, next.resource, object);
    Py_XDECREF(before);
    return result;
}

PyDoc_STRVAR(get_current_doc,
             "get_current_device_resource()\n--\n\n"
             "Return the current device resource of the current device.\n\n"
             "It is a CudaMemoryResource if none was set. Raises NoDriverError.");

static PyObject *get_current(PyObject *module, PyObject *Py_UNUSED(none))
{
    return tarn__device_resource(tarn__state_get(module), -1);
}

/* A device number from Python: not negative, since negative means the current device
 * here. */
static int check_device(int device)
{
    if (device >= 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "device %d does not exist", device);
    return -1;
}

PyDoc_STRVAR(get_per_device_doc,
             "get_per_device_resource(device)\n--\n\n"
             "Return the current device resource of a device.\n\n"
             "device: number of the device.\n\n"
             "Raises InvalidArgumentError if there is no such device, ValueError for a\n"
             "negative number, and NoDriverError.");

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
    "Make a resource the current device resource of the current device.\n\n"
    "mr: the resource, which the registry keeps alive; None: the default one. Live\n"
    "blocks return to the resource that they came from.\n\n"
    "Returns the previous resource. Raises InvalidArgumentError for a resource of\n"
    "another device, TypeError for an object that is no resource, and NoDriverError.");

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
        return tarn__error_raise(state, status);
    return set_resource(state, device, object);
}

PyDoc_STRVAR(
    set_per_device_doc,
    "set_per_device_resource(device, mr)\n--\n\n"
    "Make a resource the current device resource of a device.\n\n"
    "device: number of the device. mr: as in set_current_device_resource().\n\n"
    "Returns the previous resource. Raises InvalidArgumentError for a resource of\n"
    "another device, TypeError for an object that is no resource, ValueError for a\n"
    "negative number, and NoDriverError.");

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

PyDoc_STRVAR(
    was_set_doc,
    "_resource_was_set(device, /)\n--\n\n"
    "Return True if Python code has set a C resource for a device, also the default\n"
    "one.");

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

int tarn__device_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->registered = PyDict_New();
    state->wrapped = PyDict_New();
    if (state->registered == NULL || state->wrapped == NULL)
        return -1;
    return PyModule_AddFunctions(module, device_functions);
}
