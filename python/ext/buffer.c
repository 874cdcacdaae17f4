/* buffer.c -- tarn.DeviceBuffer: a block of device memory as a Python object.
 *
 * A buffer remembers the resource of its block and the stream of its last allocation, and
 * frees the block there. It waits where RMM does: after copies on the default stream. It
 * also waits in three more places, where without waiting no code could know when the
 * bytes are valid:
 *
 *   - It makes the host object itself (tobytes(), copy_to_host() without `ary`).
 *   - It is pickled.
 *   - It is about to read from an array whose interface names a stream.
 *
 * The block is a tarn_pointer. So a buffer without a stream (NO_STREAM) is safe on any
 * resource, and a free that fails is retried later.
 */
#include "buffer.h"
#include "arguments.h"
#include "device.h"
#include "error.h"
#include "gil.h"
#include "module.h"
#include "resource.h"
#include "stream.h"

/* --- the block --- */

static tarn_status allocate_block(tarn_resource *resource, size_t bytes,
                                  tarn_stream stream, tarn_pointer **out)
{
    tarn__gil_hold hold;

    tarn__gil_hold_begin(&hold);
    tarn_status status = tarn_pointer_allocate(resource, bytes, stream, out);
    tarn__gil_hold_end(&hold);
    return status;
}

/* Release a block on its stream, of which `stream_owner` is the object. A failure goes to
 * sys.unraisablehook, and Tarn retries later. Then the stream has to stay permanently,
 * since the driver crashes on the handle of a destroyed one. The current exception stays
 * set. */
static void free_block(tarn__state *state, tarn_pointer *pointer, PyObject *stream_owner,
                       PyObject *object)
{
    tarn__gil_hold hold;

    tarn__gil_hold_begin(&hold);
    tarn_status status = tarn_pointer_release_checked(pointer);
    tarn__gil_hold_end(&hold);
    if (status != TARN_OK) {
        Py_XINCREF(stream_owner);
        tarn__error_raise_unraisable(state, status, object);
    }
}

int tarn__buffer_transfer(tarn__buffer *self, tarn_device_ptr to, tarn_device_ptr from,
                          size_t bytes, tarn_stream stream, bool wait)
{
    struct tarn__block_use use;
    tarn_status status = TARN_OK;

    if (bytes == 0)
        return 0;
    tarn__buffer_use(self, &use);
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_memcpy_async(self->device, to, from, bytes, stream);
    if (status == TARN_OK && (wait || tarn__stream_is_default(stream)))
        status = tarn_stream_synchronize(self->device, stream);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    tarn__buffer_unuse(self, &use);
    return status == TARN_OK ? 0 : -1;
}

void tarn__buffer_use(tarn__buffer *self, struct tarn__block_use *use)
{
    use->pointer = tarn_pointer_retain(self->pointer);
    use->stream_owner = Py_NewRef(self->stream_owner);
}

/* A buffer that moved meanwhile has set a stream for the end of the block, which may be
 * destroyed by now. Where this is the last use, the block ends without a stream. */
void tarn__buffer_unuse(tarn__buffer *self, struct tarn__block_use *use)
{
    TARN__CALL;
    PyObject *type = (PyObject *)Py_TYPE(self);

    if (use->pointer != self->pointer && tarn_pointer_address(use->pointer) != 0)
        tarn_pointer_set_stream(use->pointer,
                                TARN_STREAM_NONE); /* not a foreign block's */
    free_block(tarn__state_of(Py_TYPE(self)), use->pointer, use->stream_owner, type);
    Py_DECREF(use->stream_owner);
}

void tarn__buffer_keep(tarn__buffer *self, bool other_stream,
                       struct tarn__kept_buffer *kept)
{
    kept->buffer = (tarn__buffer *)Py_NewRef(self);
    kept->other_stream = other_stream;
    tarn__buffer_use(self, &kept->use);
}

void tarn__buffer_let_go(struct tarn__kept_buffer *kept)
{
    struct tarn__gil_stay stay;

    if (!tarn__gil_enter(&stay)) {
        tarn_pointer_release(kept->use.pointer);
        return;
    }
    if (kept->other_stream && tarn_pointer_address(kept->use.pointer) != 0)
        tarn_pointer_set_stream(kept->use.pointer, TARN_STREAM_NONE);
    tarn__buffer_unuse(kept->buffer, &kept->use);
    Py_DECREF(kept->buffer);
    tarn__gil_leave(&stay, TARN_OK);
}

/* Set the stream on which the block ends. */
static tarn_status set_block_stream(tarn__buffer *self, tarn_stream stream)
{
    if (self->foreign != NULL)
        *self->foreign = stream;
    else if (tarn__buffer_address(self) != 0)
        return tarn_pointer_set_stream(self->pointer, stream);
    return TARN_OK;
}

/* Set the buffer's stream. The caller gets the owner of the old one, whose end may run
 * any code. Nothing changes on failure. */
static tarn_status set_stream(tarn__buffer *self, tarn_stream stream, PyObject *owner,
                              PyObject **owner_before)
{
    tarn_status status = set_block_stream(self, stream);

    if (status != TARN_OK)
        return status;
    *owner_before = self->stream_owner;
    self->stream = stream;
    self->stream_owner = Py_NewRef(owner);
    return TARN_OK;
}

tarn_stream tarn__buffer_stream(tarn__buffer *self)
{
    tarn__state *state = tarn__state_of(Py_TYPE(self));
    tarn_stream stream = self->stream;

    if (state == NULL ||
        !PyObject_TypeCheck(self->stream_owner, (PyTypeObject *)state->Stream) ||
        tarn__stream_from(state, self->stream_owner, &stream) != 0 ||
        stream == self->stream)
        return self->stream;
    /* The stream was unregistered since: if this fails, so would every operation on it.
     */
    if (set_block_stream(self, stream) == TARN_OK)
        self->stream = stream;
    return self->stream;
}

/* Make `*grown` the buffer's block, on `stream`, with the buffer's contents. `*grown` is
 * then the old block. Nothing changes on failure. */
static tarn_status move_to(tarn__buffer *self, tarn_pointer **grown, tarn_stream stream,
                           PyObject *owner, PyObject **owner_before)
{
    tarn_pointer *before = self->pointer;
    tarn_status status = TARN_OK;

    if (self->bytes > 0)
        status = tarn_memcpy_async(self->device, tarn_pointer_address(*grown),
                                   tarn__buffer_address(self), self->bytes, stream);
    if (status == TARN_OK)
        status = set_stream(self, stream, owner, owner_before);
    if (status != TARN_OK)
        return status;
    self->pointer = *grown;
    *grown = before;
    if (self->foreign != NULL) /* another use may keep that block beyond its stream */
        *self->foreign = TARN_STREAM_NONE;
    self->foreign = NULL;
    return TARN_OK;
}

/* Make sure of a capacity of at least `capacity` bytes, and set the stream. From the
 * check of the capacity to the end of the change, the GIL is held and no other code runs:
 * it may resize this very buffer. On failure nothing has changed. */
static int reserve(tarn__state *state, tarn__buffer *self, size_t capacity,
                   tarn_stream stream, PyObject *owner)
{
    TARN__CALL;
    tarn_pointer *grown = NULL;
    PyObject *owner_before = NULL;
    tarn_status status = TARN_OK;

    if (capacity > tarn_pointer_bytes(self->pointer))
        status = allocate_block(self->resource, capacity, stream, &grown);
    if (status == TARN_OK && capacity > tarn_pointer_bytes(self->pointer))
        status = move_to(self, &grown, stream, owner, &owner_before);
    else if (status == TARN_OK)
        status = set_stream(self, stream, owner, &owner_before);
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    if (grown != NULL)
        free_block(state, grown, owner, (PyObject *)Py_TYPE(self));
    Py_XDECREF(owner_before);
    return status == TARN_OK ? 0 : -1;
}

/* --- making and unmaking --- */

/* The device of the blocks of `resource`, or the current device where it has none.
 * Returns 0, or -1 with an exception set. */
static int find_device(tarn__state *state, const tarn_resource *resource, int *out)
{
    *out = tarn_resource_device(resource);
    if (*out >= 0)
        return 0;
    tarn_status status = tarn_driver_current_device(out);
    if (status == TARN_OK)
        return 0;
    tarn__error_raise(state, status);
    return -1;
}

/* The object comes last. So code that runs before, or the `__del__` of a class derived in
 * Python, never sees an incomplete one. */
tarn__buffer *tarn__buffer_over(PyTypeObject *type, tarn_pointer *pointer, int device,
                                tarn_resource *resource, PyObject *mr, tarn_stream stream,
                                PyObject *owner)
{
    tarn__state *state = tarn__state_of(type);
    tarn__buffer *self = pointer != NULL ? (tarn__buffer *)type->tp_alloc(type, 0) : NULL;

    if (self == NULL) {
        if (pointer != NULL)
            free_block(state, pointer, owner, (PyObject *)type);
        tarn__resource_drop(state, resource, mr);
        Py_DECREF(mr);
        return NULL;
    }
    self->pointer = pointer;
    self->bytes = tarn_pointer_bytes(pointer);
    self->resource = resource;
    self->mr = mr;
    self->stream = stream;
    self->stream_owner = Py_NewRef(owner);
    self->device = device;
    return self;
}

/* Allocate a block of `resource`, `bytes` long, and an object around it. Takes over the
 * references to `resource` and `mr`. */
static tarn__buffer *make_over(PyTypeObject *type, tarn_resource *resource, PyObject *mr,
                               size_t bytes, tarn_stream stream, PyObject *owner)
{
    tarn__state *state = tarn__state_of(type);
    tarn_pointer *pointer = NULL;
    int device = TARN_DEVICE_NONE;

    if (find_device(state, resource, &device) == 0) {
        tarn_status status = allocate_block(resource, bytes, stream, &pointer);
        if (status != TARN_OK)
            tarn__error_raise(state, status);
    }
    return tarn__buffer_over(type, pointer, device, resource, mr, stream, owner);
}

/* `mr` NULL or None is the current device resource, `from` 0 is no copy. */
static PyObject *make(PyTypeObject *type, tarn_device_ptr from, size_t bytes,
                      PyObject *stream_object, PyObject *mr)
{
    TARN__CALL;
    tarn__state *state = tarn__state_of(type);
    tarn_stream stream;

    if (tarn__stream_from(state, stream_object, &stream) != 0 ||
        !tarn__state_is_there(state))
        return NULL;
    mr = mr != NULL && mr != Py_None ? Py_NewRef(mr) : tarn__device_resource(state, -1);
    tarn_resource *resource = mr != NULL ? tarn__resource_from(state, mr, -1) : NULL;
    if (resource == NULL) { /* `mr` may be anything */
        Py_XDECREF(mr);
        return NULL;
    }
    tarn__buffer *self =
        make_over(type, resource, mr, bytes, stream,
                  stream_object != NULL ? stream_object : state->default_stream);
    if (self == NULL || from == 0 ||
        tarn__buffer_transfer(self, tarn__buffer_address(self), from, bytes, stream,
                              false) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

PyDoc_STRVAR(
    buffer_doc,
    "DeviceBuffer(*, ptr=0, size=0, stream=0, mr=None)\n--\n\n"
    "A block of device memory as an object.\n\n"
    "size: bytes. ptr: address of host or device memory whose first `size` bytes are\n"
    "copied; 0: no copy. stream: the stream of the allocation, of the copy and of the\n"
    "free. mr: the resource, which the buffer keeps alive; None: the current device\n"
    "resource.\n\n"
    "The buffer synchronizes the default stream after a copy on it. On another stream\n"
    "the source has to stay unchanged until the copy is done. Pass the object that\n"
    "owns the stream, not its number: the buffer keeps it alive, and frees the block\n"
    "on it.\n\n"
    "Raises OutOfMemoryError, NoDriverError, TypeError for a stream that is None, and\n"
    "OverflowError for a negative size.");

/* The arguments as passed; NULL: not given. */
static PyObject *make_from(PyTypeObject *type, PyObject *pointer, PyObject *size,
                           PyObject *stream, PyObject *mr)
{
    size_t from = 0, bytes = 0;

    if ((pointer != NULL && tarn__arguments_size(pointer, &from) != 0) ||
        (size != NULL && tarn__arguments_size(size, &bytes) != 0))
        return NULL;
    return make(type, from, bytes, stream, mr);
}

static PyObject *buffer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ptr", "size", "stream", "mr", NULL};
    PyObject *pointer = NULL, *size = NULL, *stream = NULL, *mr = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:DeviceBuffer", names, &pointer,
                                     &size, &stream, &mr))
        return NULL;
    return make_from(type, pointer, size, stream, mr);
}

/* The same call as a tuple and a dict, for arguments that buffer_call() cannot handle. */
static PyObject *call_slowly(PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    PyObject *tuple = PyTuple_New(count), *dict = PyDict_New(), *self = NULL;
    bool failed = tuple == NULL || dict == NULL;

    for (Py_ssize_t i = 0; i < count && !failed; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < named && !failed; i++)
        failed = PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[count + i]) != 0;
    if (!failed)
        self = buffer_new(type, tuple, dict);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return self;
}

/* DeviceBuffer(...) without a tuple and a dict, and with names compared by address: names
 * in Python code are interned. Parsing was half of a buffer's cost. Classes derived from
 * it use buffer_new(). */
static PyObject *buffer_call(PyObject *type, PyObject *const *args, size_t count_and_flag,
                             PyObject *names)
{
    const tarn__state *state = tarn__state_of((PyTypeObject *)type);
    Py_ssize_t count = PyVectorcall_NARGS(count_and_flag);
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    PyObject *pointer = NULL, *size = NULL, *stream = NULL, *mr = NULL;
    bool known = count == 0;

    if (!tarn__state_is_there(state))
        return NULL;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value = args[count + i];
        if (name == state->name_size)
            size = value;
        else if (name == state->name_stream)
            stream = value;
        else if (name == state->name_mr)
            mr = value;
        else if (name == state->name_ptr)
            pointer = value;
        else
            known = false;
    }
    if (!known)
        return call_slowly((PyTypeObject *)type, args, count, names);
    return make_from((PyTypeObject *)type, pointer, size, stream, mr);
}

static int buffer_traverse(PyObject *object, visitproc visit, void *arg)
{
    tarn__buffer *self = (tarn__buffer *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->mr);
    Py_VISIT(self->stream_owner);
    return 0;
}

/* No tp_clear: freeing the block needs its resource and its stream. The other objects of
 * a cycle break it. */
static void buffer_dealloc(PyObject *object)
{
    TARN__CALL;
    tarn__buffer *self = (tarn__buffer *)object;
    PyTypeObject *type = Py_TYPE(object);
    tarn__state *state = tarn__state_of(type);

    PyObject_GC_UnTrack(object);
    tarn__buffer_stream(self);
    free_block(state, self->pointer, self->stream_owner, (PyObject *)type);
    tarn__resource_drop(state, self->resource, self->mr);
    Py_CLEAR(self->mr);
    Py_CLEAR(self->stream_owner);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    to_device_doc,
    "to_device($type, b, stream=0, mr=None)\n--\n\n"
    "Return a new buffer with a copy of the bytes of `b`.\n\n"
    "b: any object with a contiguous buffer. On a stream other than the default one\n"
    "it has to stay unchanged until the stream is synchronized. Raises as\n"
    "DeviceBuffer().");

static PyObject *buffer_to_device(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"b", "stream", "mr", NULL};
    PyObject *stream = NULL, *mr = NULL;
    Py_buffer host;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|OO:to_device", names, &host,
                                     &stream, &mr))
        return NULL;
    PyObject *self =
        make((PyTypeObject *)type, (uintptr_t)host.buf, (size_t)host.len, stream, mr);
    PyBuffer_Release(&host);
    return self;
}

PyDoc_STRVAR(copy_doc, "copy($self)\n--\n\n"
                       "Return a new buffer with the same bytes, resource and stream.");

static PyObject *buffer_copy(PyObject *object, PyObject *Py_UNUSED(none))
{
    tarn__buffer *self = (tarn__buffer *)object;
    struct tarn__block_use use;

    tarn__buffer_use(self, &use);
    PyObject *copy = make(Py_TYPE(object), tarn__buffer_address(self), self->bytes,
                          use.stream_owner, self->mr);
    tarn__buffer_unuse(self, &use);
    return copy;
}

/* --- size --- */

/* Parse (size, stream), make room for `size` bytes on that stream. */
static int parse_and_reserve(PyObject *object, PyObject *args, PyObject *kwargs,
                             const char *format, char **names, size_t *bytes_out)
{
    tarn__buffer *self = (tarn__buffer *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *size, *stream_object = NULL;
    tarn_stream stream;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &size,
                                     &stream_object) ||
        tarn__arguments_size(size, bytes_out) != 0 ||
        tarn__stream_from(state, stream_object, &stream) != 0)
        return -1;
    PyObject *owner = stream_object != NULL ? stream_object : state->default_stream;
    return reserve(state, self, *bytes_out, stream, owner);
}

PyDoc_STRVAR(
    reserve_doc,
    "reserve($self, new_capacity, stream=0)\n--\n\n"
    "Increase the capacity to at least `new_capacity` bytes; the size stays.\n\n"
    "A new block is allocated if necessary. The copy into it is queued on `stream`,\n"
    "which becomes the stream of the buffer. The copy does not wait for work on the\n"
    "buffer's old stream: the caller orders the two. Raises OutOfMemoryError; then\n"
    "nothing has changed.");

static PyObject *buffer_reserve(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"new_capacity", "stream", NULL};
    size_t bytes;

    if (parse_and_reserve(object, args, kwargs, "O|O:reserve", names, &bytes) != 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    resize_doc,
    "resize($self, new_size, stream=0)\n--\n\n"
    "Change the size to `new_size` bytes.\n\n"
    "Up to the capacity the block stays. Above it the buffer gets a new block, and\n"
    "the copy into it is queued on `stream`, which becomes the stream of the buffer.\n"
    "The copy does not wait for work on the buffer's old stream: the caller orders\n"
    "the two.\n\n"
    "Arrays made of __cuda_array_interface__ before then have the old address: do not\n"
    "use them any more.\n\n"
    "Raises OutOfMemoryError; then nothing has changed.");

static PyObject *buffer_resize(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"new_size", "stream", NULL};
    size_t bytes;

    if (parse_and_reserve(object, args, kwargs, "O|O:resize", names, &bytes) != 0)
        return NULL;
    ((tarn__buffer *)object)->bytes = bytes; /* no capacity ever shrinks */
    Py_RETURN_NONE;
}

static PyObject *buffer_capacity(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(tarn_pointer_bytes(((tarn__buffer *)object)->pointer));
}

static PyObject *buffer_sizeof(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(((tarn__buffer *)object)->bytes);
}

static Py_ssize_t buffer_length(PyObject *object)
{
    return (Py_ssize_t)((tarn__buffer *)object)->bytes;
}

/* --- attributes --- */

static PyObject *buffer_size(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(((tarn__buffer *)object)->bytes);
}

static PyObject *buffer_ptr(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(tarn__buffer_address((tarn__buffer *)object));
}

static PyObject *buffer_mr(PyObject *object, void *Py_UNUSED(closure))
{
    return Py_NewRef(((tarn__buffer *)object)->mr);
}

static PyObject *buffer_stream(PyObject *object, void *Py_UNUSED(closure))
{
    tarn__buffer *self = (tarn__buffer *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));

    if (!tarn__state_is_there(state))
        return NULL;
    PyObject *owner = Py_NewRef(self->stream_owner); /* it may change the stream */
    if (PyObject_TypeCheck(owner, (PyTypeObject *)state->Stream))
        return owner;
    PyObject *stream = PyObject_CallOneArg(state->Stream, owner);
    Py_DECREF(owner);
    return stream;
}

/* The stream on which a consumer has to wait; None where no work is pending. */
static PyObject *interface_stream(tarn_stream stream)
{
    if (tarn__stream_is_default(stream))
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(tarn_stream_handle(stream));
}

static PyObject *buffer_interface(PyObject *object, void *Py_UNUSED(closure))
{
    tarn__buffer *self = (tarn__buffer *)object;

    return Py_BuildValue(
        "{s(KO)s(N)sOsssisN}", "data", (unsigned long long)tarn__buffer_address(self),
        Py_False, "shape", PyLong_FromSize_t(self->bytes), "strides", Py_None, "typestr",
        "|u1", "version", 3, "stream", interface_stream(tarn__buffer_stream(self)));
}

static PyObject *buffer_repr(PyObject *object)
{
    tarn__buffer *self = (tarn__buffer *)object;
    char address[32]; /* %p prints a special text for 0 */

    snprintf(address, sizeof address, "0x%llx",
             (unsigned long long)tarn__buffer_address(self));
    return PyUnicode_FromFormat("<tarn.DeviceBuffer of %zu bytes at %s on device %d>",
                                self->bytes, address, self->device);
}

static PyMethodDef buffer_methods[] = {
    {"to_device", TARN__WITH_KEYWORDS(buffer_to_device),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, to_device_doc},
    {"copy", buffer_copy, METH_NOARGS, copy_doc},
    {"__copy__", buffer_copy, METH_NOARGS,
     "__copy__($self)\n--\n\n"
     "Return a new buffer with the same bytes, resource and stream."},
    {"__sizeof__", buffer_sizeof, METH_NOARGS,
     "__sizeof__($self)\n--\n\n"
     "Return the bytes of the buffer."},
    {"reserve", TARN__WITH_KEYWORDS(buffer_reserve), METH_VARARGS | METH_KEYWORDS,
     reserve_doc},
    {"resize", TARN__WITH_KEYWORDS(buffer_resize), METH_VARARGS | METH_KEYWORDS,
     resize_doc},
    {"capacity", buffer_capacity, METH_NOARGS,
     "capacity($self)\n--\n\n"
     "Return the bytes that fit without another allocation."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef buffer_attributes[] = {
    {"size", buffer_size, NULL, "Size in bytes.", NULL},
    {"nbytes", buffer_size, NULL, "Size in bytes, the same as size.", NULL},
    {"ptr", buffer_ptr, NULL, "Address on the device, an int; 0 for 0 bytes.", NULL},
    {"mr", buffer_mr, NULL,
     "The resource that the block came from; the buffer keeps it alive.", NULL},
    {"stream", buffer_stream, NULL, "The Stream on which the block is freed.", NULL},
    {"__cuda_array_interface__", buffer_interface, NULL,
     "The buffer as an array of bytes, version 3 of the interface.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, (void *)buffer_doc},
    {Py_tp_new, buffer_new},
    {Py_tp_dealloc, buffer_dealloc},
    {Py_tp_traverse, buffer_traverse},
    {Py_tp_repr, buffer_repr},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_attributes},
    {Py_sq_length, buffer_length},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "tarn.DeviceBuffer",
    .basicsize = sizeof(tarn__buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = buffer_slots,
};

int tarn__buffer_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->name_ptr = PyUnicode_InternFromString("ptr");
    state->name_size = PyUnicode_InternFromString("size");
    state->name_stream = PyUnicode_InternFromString("stream");
    state->name_mr = PyUnicode_InternFromString("mr");
    if (!state->name_ptr || !state->name_size || !state->name_stream || !state->name_mr ||
        tarn__state_add_type(module, &buffer_spec, NULL, &state->DeviceBuffer) != 0)
        return -1;
    ((PyTypeObject *)state->DeviceBuffer)->tp_vectorcall = buffer_call;
    return 0;
}
