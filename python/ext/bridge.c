/* bridge.c -- resources that are written in Python, as C code sees them.
 *
 * A class derived from DeviceMemoryResource that defines allocate() and deallocate() is a
 * resource anywhere: under an adaptor, in the registry, behind Numba. C code gets a
 * bridge: a tarn_resource that takes the GIL and calls the object.
 *
 * Each time an object is handed to C code a new bridge is made, and a bridge keeps its
 * object alive. One bridge for ever would be a cycle that no collector sees: the object
 * would hold the bridge and the bridge the object. All bridges of one object are equal.
 *
 * An exception becomes a status on its way through C and comes out again above, see
 * error.c. Blocks of a bridge are aligned to 256 bytes: allocate() takes no alignment.
 */
#include "state.h"

#include <stdatomic.h>
#include <stdlib.h>

struct bridge {
    PyObject *object;   /* a DeviceMemoryResource; strong */
    atomic_long blocks; /* handed out through this bridge less given back through it */
};

#if PY_VERSION_HEX < 0x030d0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

bool tarn__interpreter_is_gone(void)
{
    return !Py_IsInitialized() ||
           (Py_IsFinalizing() && PyGILState_GetThisThreadState() == NULL);
}

/* --- the calls, with the GIL held --- */

static int call_deallocate(tarn__state *state, PyObject *object, tarn_device_ptr block,
                           size_t bytes, tarn_stream stream)
{
    PyObject *wrapped = tarn__stream_wrap(state, stream);
    if (wrapped == NULL)
        return -1;
    PyObject *result =
        PyObject_CallMethod(object, "deallocate", "KnO", (unsigned long long)block,
                            (Py_ssize_t)bytes, wrapped);
    Py_DECREF(wrapped);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* allocate() returned `address`: is that a block that C code can use? */
static int check_block(tarn__state *state, PyObject *object, unsigned long long address,
                       size_t bytes, tarn_stream stream)
{
    if (address != 0 && address % TARN_ALIGNMENT == 0)
        return 0;
    if (address != 0 && call_deallocate(state, object, address, bytes, stream) != 0)
        return -1;
    PyErr_Format(PyExc_ValueError,
                 "allocate() of %.200s returned %llu for %zu bytes, not a multiple of %u",
                 Py_TYPE(object)->tp_name, address, bytes, TARN_ALIGNMENT);
    return -1;
}

static int call_allocate(tarn__state *state, PyObject *object, size_t bytes,
                         tarn_stream stream, tarn_device_ptr *out)
{
    PyObject *wrapped = tarn__stream_wrap(state, stream);
    if (wrapped == NULL)
        return -1;
    PyObject *result =
        PyObject_CallMethod(object, "allocate", "nO", (Py_ssize_t)bytes, wrapped);
    Py_DECREF(wrapped);
    PyObject *number = result != NULL ? PyNumber_Index(result) : NULL;
    Py_XDECREF(result);
    if (number == NULL)
        return -1;
    unsigned long long address = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred() || check_block(state, object, address, bytes, stream) != 0)
        return -1;
    *out = address;
    return 0;
}

/* --- the table --- */

static tarn_status bridge_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    struct bridge *bridge = self;
    tarn_status status = TARN_OK;

    if (tarn__interpreter_is_gone())
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "python: the interpreter is gone, and with it a resource "
                              "that is written in Python");
    if (alignment > TARN_ALIGNMENT || bytes > PY_SSIZE_T_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "python: no resource written in Python gives %zu bytes "
                              "aligned to %zu; the limit is %u",
                              bytes, alignment, TARN_ALIGNMENT);

    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *before = tarn__exception_take();
    tarn__state *state = tarn__state_of(Py_TYPE(bridge->object));
    if (call_allocate(state, bridge->object, bytes, stream, out) == 0)
        atomic_fetch_add(&bridge->blocks, 1);
    else
        status = tarn__error_keep(state, "python");
    tarn__exception_put(before);
    PyGILState_Release(gil);
    return status;
}

/* At exit what is given back is forgotten, as everywhere in Tarn: it goes with the
 * process.
 */
static tarn_status bridge_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    struct bridge *bridge = self;
    tarn_status status = TARN_OK;

    (void)alignment;
    if (tarn__interpreter_is_gone()) {
        atomic_fetch_sub(&bridge->blocks, 1);
        return TARN_OK;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *before = tarn__exception_take();
    tarn__state *state = tarn__state_of(Py_TYPE(bridge->object));
    if (call_deallocate(state, bridge->object, block, bytes, stream) == 0)
        atomic_fetch_sub(&bridge->blocks, 1);
    else
        status = tarn__error_keep(state, "python");
    tarn__exception_put(before);
    PyGILState_Release(gil);
    return status;
}

static void bridge_destroy(void *self)
{
    struct bridge *bridge = self;

    if (!tarn__interpreter_is_gone()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        PyObject *before = tarn__exception_take();
        Py_DECREF(bridge->object);
        tarn__exception_put(before);
        PyGILState_Release(gil);
    }
    free(bridge);
}

/* --- what an object may define as well: memory_info() and trim() --- */

/* Call the method `name` with a number (NULL: with nothing) where the object has one:
 * 1 with the result, 0 where it has none, -1 with an exception set. */
static int call_optional(PyObject *object, const char *name, const size_t *argument,
                         PyObject **out)
{
    PyObject *method = PyObject_GetAttrString(object, name);

    if (method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return 0;
    }
    if (method != NULL && argument != NULL)
        *out = PyObject_CallFunction(method, "n", (Py_ssize_t)*argument);
    else if (method != NULL)
        *out = PyObject_CallNoArgs(method);
    int result = method != NULL && *out != NULL ? 1 : -1;
    Py_XDECREF(method);
    return result;
}

/* The object's own numbers; those of what is beneath it, where it has something. */
static int ask_memory_info(PyObject *object, Py_ssize_t *free_out, Py_ssize_t *total_out)
{
    PyObject *pair = NULL;
    int found = call_optional(object, "memory_info", NULL, &pair);

    if (found == 1 && (!PyTuple_Check(pair) ||
                       !PyArg_ParseTuple(pair, "nn:memory_info", free_out, total_out))) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "memory_info() gives %R, not (free, total)",
                         pair);
        found = -1;
    }
    Py_XDECREF(pair);
    return found;
}

static tarn_status info_beneath(const struct bridge *bridge, tarn_stream stream,
                                size_t *free_out, size_t *total_out)
{
    tarn_resource *native = ((tarn__resource_object *)bridge->object)->native;

    if (native == NULL)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "python: a resource that is written in Python does not "
                              "say how much memory it has");
    return tarn_resource_memory_info(native, stream, free_out, total_out);
}

static tarn_status bridge_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                      size_t *total_out)
{
    struct bridge *bridge = self;
    Py_ssize_t free_bytes = 0, total_bytes = 0;
    tarn_status status = TARN_OK;

    if (tarn__interpreter_is_gone())
        return info_beneath(bridge, stream, free_out, total_out);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *before = tarn__exception_take();
    int found = ask_memory_info(bridge->object, &free_bytes, &total_bytes);
    if (found < 0)
        status = tarn__error_keep(tarn__state_of(Py_TYPE(bridge->object)), "python");
    tarn__exception_put(before);
    PyGILState_Release(gil);
    if (found == 0)
        return info_beneath(bridge, stream, free_out, total_out);
    if (status == TARN_OK) {
        *free_out = (size_t)free_bytes;
        *total_out = (size_t)total_bytes;
    }
    return status;
}

static int ask_trim(PyObject *object, size_t keep_bytes, size_t *released_out)
{
    PyObject *number = NULL;
    int found = call_optional(object, "trim", &keep_bytes, &number);

    if (found == 1 && tarn__size_from(number, released_out) != 0)
        found = -1;
    Py_XDECREF(number);
    return found;
}

static tarn_status bridge_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct bridge *bridge = self;
    tarn_resource *native = ((tarn__resource_object *)bridge->object)->native;
    tarn_status status = TARN_OK;

    if (tarn__interpreter_is_gone())
        return TARN_OK;
    if (keep_bytes > PY_SSIZE_T_MAX)
        keep_bytes = PY_SSIZE_T_MAX;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *before = tarn__exception_take();
    int found = ask_trim(bridge->object, keep_bytes, released_out);
    if (found < 0)
        status = tarn__error_keep(tarn__state_of(Py_TYPE(bridge->object)), "python");
    tarn__exception_put(before);
    PyGILState_Release(gil);
    if (found == 0 && native != NULL)
        return tarn_resource_trim(native, keep_bytes, released_out);
    return status;
}

static bool bridge_is_equal(const void *self, const void *other)
{
    const struct bridge *left = self, *right = other;
    return left->object == right->object;
}

/* Blocks may come back through another bridge of the same object, so less than none is
 * none. */
static size_t bridge_blocks_out(const void *self)
{
    long blocks = atomic_load(&((struct bridge *)(uintptr_t)self)->blocks);
    return blocks > 0 ? (size_t)blocks : 0;
}

static const tarn_resource_ops bridge_ops = {
    .size = sizeof(tarn_resource_ops),
    .name = "python",
    .allocate = bridge_allocate,
    .deallocate = bridge_deallocate,
    .destroy = bridge_destroy,
    .memory_info = bridge_memory_info,
    .is_equal = bridge_is_equal,
    .trim = bridge_trim,
    .blocks_out = bridge_blocks_out,
};

tarn_resource *tarn__bridge_create(tarn__state *state, PyObject *object, int device)
{
    struct bridge *bridge = malloc(sizeof *bridge);
    tarn_resource *resource = NULL;

    if (bridge == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    bridge->object = Py_NewRef(object);
    atomic_init(&bridge->blocks, 0);
    /* What its methods call through super(), and an adaptor's upstream. */
    tarn_resource *beneath = ((tarn__resource_object *)object)->native;
    tarn_status status =
        tarn_resource_create_over(&bridge_ops, bridge, device, beneath, &resource);
    if (status == TARN_OK)
        return resource;
    Py_DECREF(bridge->object);
    free(bridge);
    tarn__raise(state, status);
    return NULL;
}

PyObject *tarn__bridge_object(const tarn_resource *resource)
{
    struct bridge *bridge = tarn_resource_self(resource, &bridge_ops);
    return bridge != NULL ? bridge->object : NULL;
}
