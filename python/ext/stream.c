/* stream.c -- tarn.Stream, and the other objects that are accepted as streams.
 *
 * A Stream is a handle and, where there is one, the object that keeps the handle valid. A
 * stream of Tarn's own destroys its handle; one made from another library's object holds
 * that object. The handle of a destroyed stream crashes the driver, so an object that
 * stores a handle (a DeviceBuffer) stores the Stream.
 *
 * A registered one (Stream.register()) holds the Stream that it names. It unregisters its
 * value when it ends, so that this always happens before the stream is destroyed. After
 * unregister() it behaves as the Stream that it named, so that buffers on it can still be
 * freed.
 */
#include "stream.h"
#include "arguments.h"
#include "error.h"
#include "module.h"

typedef struct stream_object {
    PyObject ob_base;
    tarn_stream value;      /* see current() */
    PyObject *owner;        /* keeps the handle valid; NULL: none is needed */
    int device;             /* device of a stream of our own; -1: `value` is not ours */
    bool registered;        /* `value` has to be unregistered */
    bool was_registered;    /* made by register(), and perhaps unregistered since */
    unsigned announcements; /* capturing() that have been entered and not left */
} stream_object;

/* --- objects accepted as streams --- */

static int from_integer(PyObject *object, tarn_stream *out)
{
    size_t handle;

    if (tarn__arguments_size(object, &handle) != 0)
        return -1;
    *out = (tarn_stream)handle;
    return 0;
}

/* The pair (version, handle) of the CUDA stream protocol. `method` is its method. */
static int from_protocol(PyObject *method, tarn_stream *out)
{
    PyObject *pair =
        PyCallable_Check(method) ? PyObject_CallNoArgs(method) : Py_NewRef(method);
    PyObject *version, *handle;
    int result = -1;

    if (pair == NULL)
        return -1;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_Format(PyExc_TypeError,
                     "__cuda_stream__ returned %R, not (version, handle)", pair);
    } else {
        version = PyTuple_GET_ITEM(pair, 0);
        handle = PyTuple_GET_ITEM(pair, 1);
        if (PyLong_Check(version) && PyLong_AsLong(version) == 0)
            result = from_integer(handle, out);
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_NotImplementedError,
                         "__cuda_stream__ has the unknown version: '%R', only 0 is "
                         "supported",
                         version);
    }
    Py_DECREF(pair);
    return result;
}

static bool is_of_cupy(PyObject *object)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    const char *name =
        module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool is =
        name != NULL && (strcmp(name, "cupy") == 0 || strncmp(name, "cupy.", 5) == 0);

    Py_XDECREF(module);
    PyErr_Clear();
    return is;
}

/* The handle of a stream of a PyTorch before 2.10 or of a CuPy before 14: an int under
 * another name. NULL: it has none, or an exception is set. New reference. */
static PyObject *older_handle(PyObject *object)
{
    PyObject *handle =
        PyObject_GetAttrString(object, is_of_cupy(object) ? "ptr" : "cuda_stream");

    if (handle != NULL && !PyLong_Check(handle))
        Py_CLEAR(handle);
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return handle;
}

static int from_older(PyObject *object, tarn_stream *out)
{
    PyObject *handle = older_handle(object);

    if (handle == NULL && PyErr_Occurred())
        return -1;
    if (object == Py_None) {
        PyErr_SetString(PyExc_TypeError,
                        "stream argument cannot be None, DEFAULT_STREAM is the default "
                        "stream");
        return -1;
    }
    if (handle == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "%R is not a stream: neither a tarn.Stream nor an int (a handle) "
                     "nor an object with __cuda_stream__",
                     object);
        return -1;
    }
    int result = from_integer(handle, out);
    Py_DECREF(handle);
    return result;
}

/* The value to use for a Stream. One that is not registered, and was made from a Stream,
 * has that Stream's; any other has its own. */
static tarn_stream current(tarn__state *state, PyObject *object)
{
    const stream_object *stream = (const stream_object *)object;

    while (!stream->registered && stream->owner != NULL && state != NULL &&
           state->Stream != NULL &&
           PyObject_TypeCheck(stream->owner, (PyTypeObject *)state->Stream))
        stream = (const stream_object *)stream->owner;
    return stream->value;
}

static tarn_stream current_of(PyObject *object)
{
    return current(tarn__state_of(Py_TYPE(object)), object);
}

int tarn__stream_from(tarn__state *state, PyObject *object, tarn_stream *out)
{
    if (object == NULL) {
        *out = TARN_STREAM_DEFAULT;
        return 0;
    }
    if (!tarn__state_is_there(state))
        return -1;
    if (PyObject_TypeCheck(object, (PyTypeObject *)state->Stream)) {
        *out = current(state, object);
        return 0;
    }
    if (PyIndex_Check(object))
        return from_integer(object, out);

    PyObject *method = PyObject_GetAttrString(object, "__cuda_stream__");
    if (method == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return from_older(object, out);
    }
    int result = from_protocol(method, out);
    Py_DECREF(method);
    return result;
}

static PyObject *make(PyTypeObject *type, tarn_stream value, int device, PyObject *owner)
{
    stream_object *self = (stream_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->value = value;
    self->device = device;
    self->owner = Py_XNewRef(owner);
    return (PyObject *)self;
}

PyObject *tarn__stream_wrap(tarn__state *state, tarn_stream stream)
{
    if (!tarn__state_is_there(state))
        return NULL;
    if (stream == TARN_STREAM_DEFAULT)
        return Py_NewRef(state->default_stream);
    if (stream == TARN_STREAM_LEGACY)
        return Py_NewRef(state->legacy_stream);
    if (stream == TARN_STREAM_PER_THREAD)
        return Py_NewRef(state->per_thread_stream);
    if (stream == TARN_STREAM_NONE)
        return Py_NewRef(state->no_stream);
    return make((PyTypeObject *)state->Stream, stream, -1, NULL);
}

/* --- the type --- */

PyDoc_STRVAR(
    stream_doc,
    "Stream(obj=None, flags=None)\n--\n\n"
    "A CUDA stream.\n\n"
    "Without `obj` it is a new stream on the current device, destroyed with the\n"
    "object. `flags` is a CudaStreamFlags: 0, or 1 for a stream that does not wait\n"
    "for the default stream. With `obj` it is the stream of an int (a CUstream), a\n"
    "Stream, or an object with __cuda_stream__ (version 0); `obj` is kept alive.\n\n"
    "Raises TypeError if `obj` is no stream. Raises ValueError for other flags, and for\n"
    "flags with an `obj`. Raises NoDriverError, and TarnError if a driver call fails.");

/* CudaStreamFlags: 0 or 1. */
static int flags_from(PyObject *object, bool *non_blocking_out)
{
    long flags = object != Py_None ? PyLong_AsLong(object) : 0;

    if (flags == -1 && PyErr_Occurred())
        return -1;
    if (flags != 0 && flags != 1) {
        PyErr_Format(PyExc_ValueError, "the flags of a stream are 0 or 1, not %ld",
                     flags);
        return -1;
    }
    *non_blocking_out = flags == 1;
    return 0;
}

static PyObject *new_of_our_own(PyTypeObject *type, tarn__state *state, PyObject *flags)
{
    bool non_blocking = false;
    tarn_stream value;
    tarn_status status;
    int device;

    if (flags_from(flags, &non_blocking) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_current_device(&device);
    if (status == TARN_OK)
        status = tarn_stream_create(device, non_blocking, &value);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    PyObject *self = make(type, value, device, NULL);
    if (self == NULL)
        tarn_stream_destroy(device, value);
    return self;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"obj", "flags", NULL};
    tarn__state *state = tarn__state_of(type);
    PyObject *object = Py_None, *flags = Py_None;
    tarn_stream value;

    if (!tarn__state_is_there(state) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Stream", names, &object, &flags))
        return NULL;
    if (object == Py_None)
        return new_of_our_own(type, state, flags);
    if (flags != Py_None) {
        PyErr_SetString(PyExc_ValueError,
                        "flags may only be specified when obj is None, for a new "
                        "stream");
        return NULL;
    }
    if (PyObject_TypeCheck(object, (PyTypeObject *)state->Stream))
        value = ((stream_object *)object)->value; /* current() reads `object` */
    else if (tarn__stream_from(state, object, &value) != 0)
        return NULL;
    return make(type, value, -1, object);
}

static int stream_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((stream_object *)self)->owner);
    return 0;
}

/* Unregister the value, or destroy a stream of our own. */
static tarn_status release_stream(const stream_object *stream)
{
    return stream->registered ? tarn_stream_unregister(stream->value)
                              : tarn_stream_destroy(stream->device, stream->value);
}

/* No tp_clear: an object in a cycle with a stream may still need its handle to free
 * memory; the other objects of the cycle break it. */
static void stream_dealloc(PyObject *self)
{
    TARN__CALL;
    stream_object *stream = (stream_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    tarn_status status = TARN_OK;

    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, stream_dealloc);
    if (stream->registered || (stream->device >= 0 && !stream->was_registered)) {
        Py_BEGIN_ALLOW_THREADS;
        status = release_stream(stream);
        Py_END_ALLOW_THREADS;
    }
    tarn__state *state = tarn__state_of(type);
    if (status != TARN_OK && state != NULL)
        tarn__error_raise_unraisable(state, status, (PyObject *)type);
    Py_CLEAR(stream->owner);
    type->tp_free(self);
    Py_DECREF(type);
    Py_TRASHCAN_END;
}

PyDoc_STRVAR(
    register_doc,
    "register($self)\n--\n\n"
    "Register the stream, so that a pool need not query the driver at every call.\n\n"
    "Returns a new Stream for the same CUstream, which keeps this one alive. It is\n"
    "unregistered with the object, by unregister(), or at the end of a with\n"
    "statement.\n\n"
    "The caller announces each capture, with capturing() or announce_capture(),\n"
    "before the stream begins or joins it, and again when it has ended.\n\n"
    "Raises InvalidArgumentError for a per-thread or a registered stream, TarnError\n"
    "while the stream captures.");

static PyObject *stream_register(PyObject *self, PyObject *Py_UNUSED(none))
{
    stream_object *stream = (stream_object *)self;
    tarn_stream raw = current_of(self), value;
    tarn_status status = TARN_OK;
    int device = stream->device;

    Py_BEGIN_ALLOW_THREADS;
    if (device < 0)
        status = tarn_driver_current_device(&device);
    if (status == TARN_OK)
        status = tarn_stream_register(device, raw, &value);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    PyObject *registered = make(Py_TYPE(self), value, device, self);
    if (registered == NULL) {
        tarn_stream_unregister(value);
        return NULL;
    }
    ((stream_object *)registered)->registered = true;
    ((stream_object *)registered)->was_registered = true;
    return registered;
}

/* `what` is not possible for a stream that register() did not return. */
static PyObject *raise_not_open(PyObject *self, const char *what)
{
    return tarn__error_raise(
        tarn__state_of(Py_TYPE(self)),
        tarn_error_set(TARN_INVALID_ARGUMENT,
                       "stream: cannot %s %p: it is not a registered stream", what,
                       (void *)current_of(self)));
}

PyDoc_STRVAR(
    unregister_doc,
    "unregister($self)\n--\n\n"
    "Unregister a registered stream.\n\n"
    "From then on the object is the raw stream, also for the buffers on it. Other\n"
    "streams can reuse memory that was freed on it once its work is done. A second\n"
    "call does nothing. No other thread may be using the stream.\n\n"
    "Raises InvalidArgumentError for a stream that register() did not return.");

static PyObject *stream_unregister(PyObject *self, PyObject *Py_UNUSED(none))
{
    TARN__CALL;
    stream_object *stream = (stream_object *)self;
    tarn_status status;

    if (!stream->was_registered)
        return raise_not_open(self, "unregister");
    if (!stream->registered)
        Py_RETURN_NONE;
    stream->registered = false; /* first: another thread may come while the GIL is away */
    stream->announcements = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_stream_unregister(stream->value);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

static PyObject *stream_enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return ((stream_object *)self)->registered ? Py_NewRef(self)
                                               : raise_not_open(self, "enter");
}

static PyObject *stream_exit(PyObject *self, PyObject *Py_UNUSED(args))
{
    PyObject *closed = stream_unregister(self, NULL);

    if (closed == NULL)
        return NULL;
    Py_DECREF(closed);
    Py_RETURN_FALSE;
}

/* --- captures --- */

static int announce(PyObject *self, bool captures)
{
    tarn_stream stream = current_of(self);
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_stream_announce_capture(stream, captures);
    Py_END_ALLOW_THREADS;
    if (status == TARN_OK)
        return 0;
    tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    return -1;
}

int tarn__stream_begin_announcement(PyObject *self)
{
    if (announce(self, true) != 0)
        return -1;
    ((stream_object *)self)->announcements++;
    return 0;
}

int tarn__stream_end_announcement(PyObject *self)
{
    stream_object *stream = (stream_object *)self;

    if (stream->announcements == 0 || --stream->announcements > 0)
        return 0;
    return announce(self, false);
}

PyDoc_STRVAR(
    announce_doc,
    "announce_capture($self, capturing, /)\n--\n\n"
    "Announce that a registered stream is about to capture, or that the capture has\n"
    "ended.\n\n"
    "Call it with True before the stream begins or joins a capture, and with False\n"
    "after the end. capturing() does both.\n\n"
    "Raises InvalidArgumentError for a stream that is not registered; TarnError for\n"
    "False while the stream captures, and then the announcement remains.");

static PyObject *stream_announce(PyObject *self, PyObject *capturing)
{
    int captures = PyObject_IsTrue(capturing);

    if (captures < 0 || announce(self, captures) != 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    synchronize_doc,
    "synchronize($self)\n--\n\n"
    "Wait for all work that is queued on the stream.\n\n"
    "The call releases the GIL. Raises TarnError if the driver reports an error.");

static PyObject *stream_synchronize(PyObject *self, PyObject *Py_UNUSED(none))
{
    stream_object *stream = (stream_object *)self;
    tarn_status status = TARN_OK;
    tarn_stream value = current_of(self);
    int device = stream->device;

    Py_BEGIN_ALLOW_THREADS;
    if (device < 0)
        status = tarn_driver_current_device(&device);
    if (status == TARN_OK)
        status = tarn_stream_synchronize(device, value);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(is_default_doc,
             "is_default($self)\n--\n\n"
             "Return True for the default stream (handle 0 or 1) and for NO_STREAM.");

static PyObject *stream_is_default(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(tarn__stream_is_default(current_of(self)));
}

PyDoc_STRVAR(protocol_doc, "__cuda_stream__($self)\n--\n\n"
                           "Return (0, handle): the CUDA stream protocol, version 0.");

static PyObject *stream_protocol(PyObject *self, PyObject *Py_UNUSED(none))
{
    void *handle = tarn_stream_handle(current_of(self));
    return Py_BuildValue("(iN)", 0, PyLong_FromVoidPtr(handle));
}

static PyObject *stream_handle(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(tarn_stream_handle(current_of(self)));
}

static PyObject *stream_is_registered(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((stream_object *)self)->registered);
}

/* The number that identifies a stream, whatever value names it. */
static uintptr_t number_of(tarn_stream stream)
{
    return stream == TARN_STREAM_NONE ? UINTPTR_MAX
                                      : (uintptr_t)tarn_stream_handle(stream);
}

static PyObject *stream_repr(PyObject *self)
{
    tarn_stream value = current_of(self);
    uintptr_t number = number_of(value);
    const char *registered = ((stream_object *)self)->registered ? " (registered)" : "";

    if (value == TARN_STREAM_NONE)
        return PyUnicode_FromString("<tarn.Stream: no stream>");
    if (number == 0) /* %p prints a special text for it */
        return PyUnicode_FromFormat("<tarn.Stream 0x0%s>", registered);
    return PyUnicode_FromFormat("<tarn.Stream %p%s>", (void *)number, registered);
}

static PyObject *stream_compare(PyObject *self, PyObject *other, int how)
{
    tarn__state *state = tarn__state_of(Py_TYPE(self));

    if (!tarn__state_is_there(state))
        return NULL;
    if ((how != Py_EQ && how != Py_NE) ||
        !PyObject_TypeCheck(other, (PyTypeObject *)state->Stream))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = number_of(current(state, self)) == number_of(current(state, other));
    return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *self)
{
    Py_hash_t hash = (Py_hash_t)(number_of(current_of(self)) >> 4);
    return hash == -1 ? -2 : hash;
}

static PyMethodDef stream_methods[] = {
    {"register", stream_register, METH_NOARGS, register_doc},
    {"unregister", stream_unregister, METH_NOARGS, unregister_doc},
    {"__enter__", stream_enter, METH_NOARGS,
     "__enter__($self)\n--\n\n"
     "Return the registered stream; InvalidArgumentError for another one."},
    {"__exit__", stream_exit, METH_VARARGS,
     "__exit__($self, *args)\n--\n\n"
     "Unregister the stream."},
    {"announce_capture", stream_announce, METH_O, announce_doc},
    {"synchronize", stream_synchronize, METH_NOARGS, synchronize_doc},
    {"is_default", stream_is_default, METH_NOARGS, is_default_doc},
    {"__cuda_stream__", stream_protocol, METH_NOARGS, protocol_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_attributes[] = {
    {"handle", stream_handle, NULL, "The CUstream, an int; 0 for NO_STREAM.", NULL},
    {"is_registered", stream_is_registered, NULL,
     "Whether register() returned it and it is still registered.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_doc, (void *)stream_doc},   {Py_tp_new, stream_new},
    {Py_tp_dealloc, stream_dealloc},   {Py_tp_traverse, stream_traverse},
    {Py_tp_repr, stream_repr},         {Py_tp_richcompare, stream_compare},
    {Py_tp_hash, stream_hash},         {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_attributes}, {0, NULL},
};

static PyType_Spec stream_spec = {
    .name = "tarn.Stream",
    .basicsize = sizeof(stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = stream_slots,
};

static int add_named(PyObject *module, const char *name, tarn_stream value,
                     PyObject **slot)
{
    tarn__state *state = tarn__state_get(module);

    *slot = make((PyTypeObject *)state->Stream, value, -1, NULL);
    if (*slot == NULL)
        return -1;
    return PyModule_AddObjectRef(module, name, *slot);
}

int tarn__stream_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    if (tarn__state_add_type(module, &stream_spec, NULL, &state->Stream) != 0)
        return -1;
    if (add_named(module, "DEFAULT_STREAM", TARN_STREAM_DEFAULT,
                  &state->default_stream) != 0 ||
        add_named(module, "LEGACY_DEFAULT_STREAM", TARN_STREAM_LEGACY,
                  &state->legacy_stream) != 0 ||
        add_named(module, "PER_THREAD_DEFAULT_STREAM", TARN_STREAM_PER_THREAD,
                  &state->per_thread_stream) != 0)
        return -1;
    return add_named(module, "NO_STREAM", TARN_STREAM_NONE, &state->no_stream);
}
