/* bridge.c -- resources that are written in Python, as C code uses them.
 *
 * A class derived from DeviceMemoryResource that defines allocate() and deallocate() is a
 * resource anywhere: under an adaptor, in the registry, behind Numba. C code gets a
 * bridge: a tarn_resource that takes the GIL and calls the object.
 *
 * Each time an object is passed to C code a new bridge is made, and a bridge keeps its
 * object alive. One permanent bridge would be a cycle that no collector sees: the object
 * would hold the bridge and the bridge the object. All bridges of one object are equal.
 *
 * An exception becomes a status on its way through C and is raised again above, see
 * error.c. Blocks of a bridge are aligned to 256 bytes: allocate() takes no alignment.
 *
 * The result of allocate() is checked before C code gets it. A mistake in Python must
 * become an exception and not another array's bytes. The result has to be an aligned
 * address, of no live block, and as long as requested where the driver knows that.
 */
#include "bridge.h"
#include "arguments.h"
#include "error.h"
#include "exception.h"
#include "gil.h"
#include "resource.h"
#include "stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct bridge {
    PyObject *object;   /* a DeviceMemoryResource; strong */
    atomic_long blocks; /* blocks allocated through this bridge less blocks freed
                         * through it */
    bool is_ordered;    /* the object's attribute `supports_streams` */
};

/* --- the data of an object, with the GIL held --- */

/* The addresses of its live blocks, as a set; NULL with an exception set. Blocks of a
 * context that was reset are forgotten: their addresses are reused. */
static PyObject *live_of(PyObject *object)
{
    tarn__resource_object *self = (tarn__resource_object *)object;
    uint64_t context_generation = tarn_context_generation(self->device);

    if (self->live == NULL || self->live_generation != context_generation)
        Py_XSETREF(self->live, PySet_New(NULL));
    self->live_generation = context_generation;
    return self->live;
}

/* Record a new block: 0, or 1 where it exists already, or -1 with an exception. */
static int note_block(PyObject *object, PyObject *address)
{
    PyObject *live = live_of(object);
    int found = live != NULL ? PySet_Contains(live, address) : -1;

    return found != 0 ? found : PySet_Add(live, address);
}

/* Forget a block that is freed: 1, or 0 where it was not recorded, or -1 with an
 * exception. */
static int forget_block(PyObject *object, PyObject *address)
{
    PyObject *live = live_of(object);

    return live != NULL ? PySet_Discard(live, address) : -1;
}

/* --- the calls, with the GIL held --- */

static int call_deallocate_once(tarn__state *state, PyObject *object, PyObject *address,
                                size_t bytes, tarn_stream stream)
{
    PyObject *wrapped = tarn__stream_wrap(state, stream);
    if (wrapped == NULL)
        return -1;
    PyObject *result = PyObject_CallMethod(object, "deallocate", "OnO", address,
                                           (Py_ssize_t)bytes, wrapped);
    Py_DECREF(wrapped);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Forget the block first: as soon as it is returned, another thread may receive it. */
static int call_deallocate(tarn__state *state, PyObject *object, tarn_device_ptr block,
                           size_t bytes, tarn_stream stream)
{
    PyObject *address = PyLong_FromUnsignedLongLong(block);
    int noted = address != NULL ? forget_block(object, address) : -1;
    int result =
        noted >= 0 ? call_deallocate_once(state, object, address, bytes, stream) : -1;

    if (result != 0 && noted == 1) {
        PyObject *exception = tarn__exception_take();
        if (note_block(object, address) < 0)
            PyErr_Clear();
        tarn__exception_put(exception);
    }
    Py_XDECREF(address);
    return result;
}

/* Raise the error about a block of `bytes` that allocate() returned. */
static int reject(PyObject *object, PyObject *type, PyObject *returned, size_t bytes,
                  const char *why)
{
    PyErr_Format(type, "allocate() of %.200s returned %R for %zu bytes: %s",
                 Py_TYPE(object)->tp_name, returned, bytes, why);
    return -1;
}

/* The same for a block that is memory all the same: it is freed. */
static int reject_memory(tarn__state *state, PyObject *object, PyObject *address,
                         size_t bytes, tarn_stream stream, const char *why)
{
    if (call_deallocate_once(state, object, address, bytes, stream) != 0)
        tarn__error_write_unraisable(object);
    return reject(object, PyExc_ValueError, address, bytes, why);
}

/* Is such a block possible on the object's device? If not, `why` has the reason. */
static bool is_a_block(PyObject *object, tarn_device_ptr block, size_t bytes,
                       char why[static 512])
{
    int device = ((tarn__resource_object *)object)->device;
    tarn_status status;

    if (device == TARN_DEVICE_NONE)
        return true;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_check_allocation(device, block, bytes);
    Py_END_ALLOW_THREADS;
    snprintf(why, 512, "%s", tarn_error_last()->message);
    return status != TARN_INVALID_ARGUMENT;
}

/* allocate() returned this number: is it a block that C code can use? */
static int check_block(tarn__state *state, PyObject *object, PyObject *address,
                       size_t bytes, tarn_stream stream, tarn_device_ptr *out)
{
    tarn_device_ptr block = PyLong_AsUnsignedLongLong(address);
    char why[512];

    if (PyErr_Occurred()) {
        PyErr_Clear();
        return reject(object, PyExc_ValueError, address, bytes,
                      "the value is not an address");
    }
    if (block == 0)
        return reject(object, PyExc_ValueError, address, bytes, "the address is 0");
    if (block % TARN_ALIGNMENT != 0) {
        snprintf(why, sizeof why, "the address is not a multiple of %u", TARN_ALIGNMENT);
        return reject_memory(state, object, address, bytes, stream, why);
    }
    if (!is_a_block(object, block, bytes, why))
        return reject_memory(state, object, address, bytes, stream, why);
    int there = note_block(object, address);
    if (there > 0)
        return reject(object, PyExc_ValueError, address, bytes,
                      "the address belongs to a live block");
    *out = block;
    return there;
}

static int call_allocate(tarn__state *state, PyObject *object, size_t bytes,
                         tarn_stream stream, tarn_device_ptr *out)
{
    PyObject *wrapped = tarn__stream_wrap(state, stream);
    if (wrapped == NULL)
        return -1;
    PyObject *returned =
        PyObject_CallMethod(object, "allocate", "nO", (Py_ssize_t)bytes, wrapped);
    Py_DECREF(wrapped);
    if (returned == NULL)
        return -1;
    PyObject *address = PyIndex_Check(returned) ? PyNumber_Index(returned) : NULL;
    int result = -1;
    if (address != NULL)
        result = check_block(state, object, address, bytes, stream, out);
    else if (!PyErr_Occurred())
        reject(object, PyExc_TypeError, returned, bytes, "the value is not an address");
    Py_XDECREF(address);
    Py_DECREF(returned);
    return result;
}

/* --- the table --- */

static tarn_status bridge_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    struct bridge *bridge = self;
    struct tarn__gil_stay stay;
    tarn_status status = TARN_OK;

    if (alignment > TARN_ALIGNMENT)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "python: a resource written in Python cannot align %zu "
                              "bytes to %zu, the maximum is %u",
                              bytes, alignment, TARN_ALIGNMENT);
    if (bytes > PY_SSIZE_T_MAX)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "python: a resource written in Python cannot allocate %zu "
                              "bytes, the maximum is %zd",
                              bytes, PY_SSIZE_T_MAX);
    if (!tarn__gil_enter(&stay))
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "python: the interpreter is exiting, resources written in "
                              "Python can no longer be called");
    tarn__state *state = tarn__state_of(Py_TYPE(bridge->object));
    if (call_allocate(state, bridge->object, bytes, stream, out) == 0)
        atomic_fetch_add(&bridge->blocks, 1);
    else
        status = tarn__error_keep(state, "python");
    return tarn__gil_leave(&stay, status);
}

/* After exit has begun a freed block is forgotten, as everywhere in Tarn: it ends with
 * the process.
 */
static tarn_status bridge_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    struct bridge *bridge = self;
    struct tarn__gil_stay stay;
    tarn_status status = TARN_OK;

    (void)alignment;
    if (!tarn__gil_enter(&stay)) {
        atomic_fetch_sub(&bridge->blocks, 1);
        return TARN_OK;
    }
    tarn__state *state = tarn__state_of(Py_TYPE(bridge->object));
    if (call_deallocate(state, bridge->object, block, bytes, stream) == 0)
        atomic_fetch_sub(&bridge->blocks, 1);
    else
        status = tarn__error_keep(state, "python");
    return tarn__gil_leave(&stay, status);
}

static void bridge_destroy(void *self)
{
    struct bridge *bridge = self;
    struct tarn__gil_stay stay;

    if (tarn__gil_enter(&stay)) {
        Py_DECREF(bridge->object);
        tarn__gil_leave(&stay, TARN_OK);
    }
    free(bridge);
}

/* --- optional methods of an object: memory_info() and trim() --- */

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

/* Raise the error about the result of memory_info() or trim() in place of the current
 * exception: a TypeError, where that is one, or a ValueError. */
static int reject_answer(PyObject *object, const char *method, PyObject *answer,
                         const char *wanted)
{
    bool of_type = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError);

    PyErr_Format(of_type ? PyExc_TypeError : PyExc_ValueError,
                 "%s() of %.200s returned %R, not %s", method, Py_TYPE(object)->tp_name,
                 answer, wanted);
    return -1;
}

static int parse_memory_info(PyObject *pair, size_t *free_out, size_t *total_out)
{
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetNone(PyExc_TypeError);
        return -1;
    }
    if (tarn__arguments_size(PyTuple_GET_ITEM(pair, 0), free_out) != 0 ||
        tarn__arguments_size(PyTuple_GET_ITEM(pair, 1), total_out) != 0)
        return -1;
    return *free_out <= *total_out ? 0 : -1;
}

/* The object's own numbers; those of its native or upstream resource, where it has one.
 */
static int query_memory_info(PyObject *object, size_t *free_out, size_t *total_out)
{
    PyObject *pair = NULL;
    int found = call_optional(object, "memory_info", NULL, &pair);

    if (found == 1 && parse_memory_info(pair, free_out, total_out) != 0)
        found = reject_answer(object, "memory_info", pair,
                              "(free, total) with 0 <= free <= total in bytes");
    Py_XDECREF(pair);
    return found;
}

static tarn_status info_beneath(const struct bridge *bridge, tarn_stream stream,
                                size_t *free_out, size_t *total_out)
{
    tarn_resource *native = ((tarn__resource_object *)bridge->object)->native;

    if (native == NULL)
        return tarn_error_set(
            TARN_NOT_SUPPORTED,
            "python: this resource written in Python does not support memory_info");
    return tarn_resource_memory_info(native, stream, free_out, total_out);
}

static tarn_status bridge_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                      size_t *total_out)
{
    struct bridge *bridge = self;
    size_t free_bytes = 0, total_bytes = 0;
    struct tarn__gil_stay stay;
    tarn_status status = TARN_OK;

    if (!tarn__gil_enter(&stay))
        return info_beneath(bridge, stream, free_out, total_out);
    int found = query_memory_info(bridge->object, &free_bytes, &total_bytes);
    if (found < 0)
        status = tarn__error_keep(tarn__state_of(Py_TYPE(bridge->object)), "python");
    tarn__gil_leave(&stay, status);
    if (found == 0)
        return info_beneath(bridge, stream, free_out, total_out);
    if (status == TARN_OK) {
        *free_out = free_bytes;
        *total_out = total_bytes;
    }
    return status;
}

static int call_trim(PyObject *object, size_t keep_bytes, size_t *released_out)
{
    PyObject *number = NULL;
    int found = call_optional(object, "trim", &keep_bytes, &number);

    if (found == 1 && tarn__arguments_size(number, released_out) != 0)
        found = reject_answer(object, "trim", number, "a number of bytes");
    Py_XDECREF(number);
    return found;
}

static tarn_status bridge_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct bridge *bridge = self;
    tarn_resource *native = ((tarn__resource_object *)bridge->object)->native;
    struct tarn__gil_stay stay;
    tarn_status status = TARN_OK;

    if (!tarn__gil_enter(&stay))
        return TARN_OK;
    if (keep_bytes > PY_SSIZE_T_MAX)
        keep_bytes = PY_SSIZE_T_MAX;
    int found = call_trim(bridge->object, keep_bytes, released_out);
    if (found < 0)
        status = tarn__error_keep(tarn__state_of(Py_TYPE(bridge->object)), "python");
    tarn__gil_leave(&stay, status);
    if (found == 0 && native != NULL)
        return tarn_resource_trim(native, keep_bytes, released_out);
    return status;
}

static bool bridge_supports_streams(const void *self)
{
    return ((const struct bridge *)self)->is_ordered;
}

static bool bridge_is_equal(const void *self, const void *other)
{
    const struct bridge *left = self, *right = other;
    return left->object == right->object;
}

/* Blocks may be freed through another bridge of the same object, so a negative count is
 * none. */
static size_t bridge_live_blocks(const void *self)
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
    .supports_streams = bridge_supports_streams,
    .trim = bridge_trim,
    .live_blocks = bridge_live_blocks,
};

/* The truth of the attribute `supports_streams`, 0 without one; -1 with an exception set.
 */
static int is_ordered(PyObject *object)
{
    PyObject *value = PyObject_GetAttrString(object, "supports_streams");

    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return 0;
    }
    int result = value != NULL ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return result;
}

tarn_resource *tarn__bridge_create(tarn__state *state, PyObject *object, int device)
{
    int ordered = is_ordered(object);
    struct bridge *bridge = ordered >= 0 ? malloc(sizeof *bridge) : NULL;
    tarn_resource *resource = NULL;

    if (bridge == NULL) {
        if (ordered >= 0)
            PyErr_NoMemory();
        return NULL;
    }
    bridge->is_ordered = ordered;
    bridge->object = Py_NewRef(object);
    atomic_init(&bridge->blocks, 0);
    /* The resource that its methods call through super(), and an adaptor's upstream. */
    tarn_resource *beneath = ((tarn__resource_object *)object)->native;
    tarn_status status = tarn_resource_create_with_upstream(&bridge_ops, bridge, device,
                                                            beneath, &resource);
    if (status == TARN_OK)
        return resource;
    tarn__error_raise(state, status);
    Py_DECREF(object); /* not the last: the caller has one */
    free(bridge);
    return NULL;
}

PyObject *tarn__bridge_object(const tarn_resource *resource)
{
    struct bridge *bridge = tarn_resource_self(resource, &bridge_ops);
    return bridge != NULL ? bridge->object : NULL;
}
