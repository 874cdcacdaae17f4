/* oom_callback.c -- out-of-memory callbacks: how a pool short of memory calls Python.
 *
 * A C pool has at most 8 callbacks, and any number of Python objects. So all objects of a
 * C pool share one registration, which has one C callback. It refers to the objects
 * weakly: the functions to call are in each object's own list, where the garbage
 * collector sees them. A capsule owns the registration. Each object holds the capsule,
 * and the last one's end removes the C callback.
 */
#include "error.h"
#include "exception.h"
#include "gil.h"
#include "module.h"
#include "pool.h"
#include "resource.h"

struct registration {
    struct registration *next; /* in `registrations` */
    tarn_resource *pool;       /* retained */
    PyObject *capsule;         /* owns this struct; borrowed */
    PyObject *objects;         /* list of weak references to the pool's objects */
    bool has_ended;            /* the capsule is being destroyed */
};

/* One for each C pool that has callbacks. The GIL guards the list, and all of its
 * members. */
static struct registration *registrations;

static const char capsule_name[] = "tarn._tarn.oom_callbacks";

/* --- the calls --- */

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

static bool call_objects(const struct registration *registration, size_t bytes,
                         unsigned attempt)
{
    PyObject *objects =
        PyList_GetSlice(registration->objects, 0, PyList_GET_SIZE(registration->objects));
    bool any = false;

    for (Py_ssize_t i = 0; objects != NULL && i < PyList_GET_SIZE(objects); i++)
        any |= call_list(PyList_GET_ITEM(objects, i), bytes, attempt);
    if (objects == NULL)
        tarn__error_write_unraisable(registration->capsule);
    Py_XDECREF(objects);
    return any;
}

/* The C callback. While it waits for the GIL, the last object can end on another thread.
 * That thread then waits for this call, and the capsule has no reference left. */
static bool call_callbacks(void *data, tarn_resource *pool, size_t bytes,
                           unsigned attempt)
{
    struct registration *registration = data;
    struct tarn__gil_stay stay;
    bool again = false;

    (void)pool;
    if (!tarn__gil_enter(&stay))
        return false;
    if (!registration->has_ended) {
        PyObject *capsule = Py_NewRef(registration->capsule);
        again = call_objects(registration, bytes, attempt);
        Py_DECREF(capsule);
    }
    tarn__gil_leave(&stay, TARN_OK);
    return again;
}

/* --- the registrations --- */

/* The destructor of a capsule. The removal waits for other threads that are in
 * call_callbacks(), and these may wait for the GIL. */
static void end_registration(PyObject *capsule)
{
    PyObject *raised = tarn__exception_take();
    struct registration *registration = PyCapsule_GetPointer(capsule, capsule_name);
    struct registration **link = &registrations;

    while (*link != NULL && *link != registration)
        link = &(*link)->next;
    if (*link != NULL)
        *link = registration->next;
    registration->has_ended = true;
    Py_BEGIN_ALLOW_THREADS;
    tarn_pool_remove_oom_callback(registration->pool, call_callbacks, registration);
    Py_END_ALLOW_THREADS;
    tarn__resource_release(tarn__state_of(Py_TYPE(capsule)), registration->pool, NULL);
    Py_XDECREF(registration->objects);
    PyMem_Free(registration);
    tarn__exception_put(raised);
}

/* Return the capsule of a new registration of this pool, without a C callback yet. */
static PyObject *new_registration(tarn_resource *pool)
{
    struct registration *made = PyMem_Calloc(1, sizeof *made);
    PyObject *objects = made != NULL ? PyList_New(0) : PyErr_NoMemory();

    if (objects != NULL)
        made->capsule = PyCapsule_New(made, capsule_name, end_registration);
    if (objects == NULL || made->capsule == NULL) {
        Py_XDECREF(objects);
        PyMem_Free(made);
        return NULL;
    }
    made->objects = objects;
    made->pool = tarn_resource_retain(pool);
    return made->capsule;
}

/* Return the capsule of the registration of this pool: the present one, or a new one. New
 * reference. */
static PyObject *registration_of(tarn__state *state, tarn_resource *pool)
{
    for (struct registration *i = registrations; i != NULL; i = i->next)
        if (i->pool == pool)
            return Py_NewRef(i->capsule);
    PyObject *capsule = new_registration(pool);
    if (capsule == NULL)
        return NULL;
    struct registration *made = PyCapsule_GetPointer(capsule, capsule_name);
    tarn_status status = tarn_pool_add_oom_callback(pool, call_callbacks, made);
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        Py_DECREF(capsule);
        return NULL;
    }
    made->next = registrations;
    registrations = made;
    return capsule;
}

/* Add a weak reference to `object`, and drop those to objects that have ended. */
static int add_object(PyObject *objects, PyObject *object)
{
    PyObject *weak = PyWeakref_NewRef(object, NULL);
    int result = weak != NULL ? PyList_Append(objects, weak) : -1;

    Py_XDECREF(weak);
    for (Py_ssize_t i = PyList_GET_SIZE(objects); result == 0 && i-- > 0;) {
        PyObject *there = PyObject_CallNoArgs(PyList_GET_ITEM(objects, i));
        if (there == NULL || (there == Py_None && PySequence_DelItem(objects, i) != 0))
            result = -1;
        Py_XDECREF(there);
    }
    return result;
}

/* (self): from now on the callables in the list self._callbacks are called. */
static PyObject *begin_oom_callbacks(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool = tarn__pool_of(state, object);
    PyObject *capsule = pool != NULL ? registration_of(state, pool) : NULL;

    if (capsule == NULL)
        return NULL;
    const struct registration *registration = PyCapsule_GetPointer(capsule, capsule_name);
    if (add_object(registration->objects, object) != 0)
        Py_CLEAR(capsule);
    return capsule;
}

static PyMethodDef oom_callback_functions[] = {
    {"_pool_begin_oom_callbacks", begin_oom_callbacks, METH_O,
     "_pool_begin_oom_callbacks(mr, /)\n--\n\n"
     "Have the pool call the callables in the list `mr._callbacks`.\n\n"
     "It does so while the returned object and `mr` exist."},
    {NULL, NULL, 0, NULL},
};

int tarn__oom_callback_init(PyObject *module)
{
    return PyModule_AddFunctions(module, oom_callback_functions);
}
