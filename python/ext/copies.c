/* copies.c -- copies of bytes into a DeviceBuffer and out of it.
 *
 * The first comment of buffer.c lists the places that wait.
 */
#include "arguments.h"
#include "buffer.h"
#include "error.h"
#include "module.h"
#include "stream.h"

#include <stdlib.h>

static tarn_device_ptr host_address(const void *pointer)
{
    return (tarn_device_ptr)(uintptr_t)pointer;
}

/* --- to and from the host --- */

/* A host array for all bytes: numpy's where it is installed, else a bytearray. */
static PyObject *new_host_array(size_t bytes)
{
    PyObject *numpy = PyImport_ImportModule("numpy");

    if (numpy == NULL && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    }
    if (numpy == NULL)
        return NULL;
    PyObject *array = PyObject_CallMethod(numpy, "empty", "ns", (Py_ssize_t)bytes, "u1");
    Py_DECREF(numpy);
    return array;
}

/* Copy all bytes into the writable buffer of `host`. */
static int copy_into(tarn__buffer *self, PyObject *host, tarn_stream stream, bool wait)
{
    Py_buffer view;
    int result = -1;

    if (PyObject_GetBuffer(host, &view, PyBUF_WRITABLE) != 0)
        return -1;
    if ((size_t)view.len < self->bytes)
        PyErr_Format(PyExc_ValueError, "ary has %zd bytes, %zu are required", view.len,
                     self->bytes);
    else
        result =
            tarn__buffer_transfer(self, host_address(view.buf),
                                  tarn__buffer_address(self), self->bytes, stream, wait);
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(
    copy_to_host_doc,
    "copy_to_host($self, ary=None, stream=0)\n--\n\n"
    "Copy all bytes to the host.\n\n"
    "ary: a writable buffer of at least as many bytes. After a copy on a stream other\n"
    "than the default one, synchronize the stream before you read it. None: a new\n"
    "numpy array of uint8, or a bytearray if numpy is not installed. It is complete\n"
    "on return.\n\n"
    "Returns `ary` or the new array. Raises ValueError if `ary` is too small.");

static PyObject *buffer_copy_to_host(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ary", "stream", NULL};
    tarn__buffer *self = (tarn__buffer *)object;
    PyObject *host = Py_None, *stream_object = NULL;
    tarn_stream stream;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:copy_to_host", names, &host,
                                     &stream_object) ||
        tarn__stream_from(tarn__state_of(Py_TYPE(object)), stream_object, &stream) != 0)
        return NULL;
    bool ours = host == Py_None;
    PyObject *result = ours ? new_host_array(self->bytes) : Py_NewRef(host);
    if (result == NULL || copy_into(self, result, stream, ours) == 0)
        return result;
    Py_DECREF(result);
    return NULL;
}

static PyObject *bytes_on(tarn__buffer *self, tarn_stream stream)
{
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)self->bytes);

    if (result == NULL ||
        tarn__buffer_transfer(self, host_address(PyBytes_AS_STRING(result)),
                              tarn__buffer_address(self), self->bytes, stream, true) == 0)
        return result;
    Py_DECREF(result);
    return NULL;
}

PyDoc_STRVAR(tobytes_doc, "tobytes($self, stream=0)\n--\n\n"
                          "Return a copy of all bytes, complete on return.");

static PyObject *buffer_tobytes(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", NULL};
    PyObject *stream_object = NULL;
    tarn_stream stream;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:tobytes", names, &stream_object) ||
        tarn__stream_from(tarn__state_of(Py_TYPE(object)), stream_object, &stream) != 0)
        return NULL;
    return bytes_on((tarn__buffer *)object, stream);
}

static PyObject *buffer_bytes(PyObject *object, PyObject *Py_UNUSED(none))
{
    return bytes_on((tarn__buffer *)object, TARN_STREAM_DEFAULT);
}

/* The call that makes the buffer again from `content`, which is taken over. */
static PyObject *reduced_to(PyObject *object, PyObject *content)
{
    PyObject *make_it =
        content != NULL ? PyObject_GetAttrString((PyObject *)Py_TYPE(object), "to_device")
                        : NULL;

    if (make_it == NULL) {
        Py_XDECREF(content);
        return NULL;
    }
    return Py_BuildValue("(N(N))", make_it, content);
}

/* The bytes after all work queued on the buffer's own stream. */
static PyObject *buffer_reduce(PyObject *object, PyObject *Py_UNUSED(none))
{
    tarn__buffer *self = (tarn__buffer *)object;

    return reduced_to(object, bytes_on(self, tarn__buffer_stream(self)));
}

/* Does a class derived in Python define __reduce__() itself? -1 with an exception set. */
static int reduces_itself(tarn__state *state, PyObject *object)
{
    PyObject *own = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__reduce__");
    /* No second look-up after a failed one: it would clear the exception. */
    PyObject *ours =
        own != NULL ? PyObject_GetAttrString(state->DeviceBuffer, "__reduce__") : NULL;
    int result = own != NULL && ours != NULL ? own != ours : -1;

    Py_XDECREF(own);
    Py_XDECREF(ours);
    return result;
}

enum { FIRST_PROTOCOL_WITH_BUFFERS = 5 };

/* From protocol 5 on, pickle can pass the bytes beside the stream, without another copy.
 */
static PyObject *buffer_reduce_ex(PyObject *object, PyObject *protocol)
{
    tarn__buffer *self = (tarn__buffer *)object;
    long number = PyLong_AsLong(protocol);
    int itself = number == -1 && PyErr_Occurred()
                     ? -1
                     : reduces_itself(tarn__state_of(Py_TYPE(object)), object);

    if (itself < 0)
        return NULL;
    if (itself || number < FIRST_PROTOCOL_WITH_BUFFERS)
        return PyObject_CallMethod(object, "__reduce__", NULL);
    PyObject *bytes = bytes_on(self, tarn__buffer_stream(self));
    PyObject *content = bytes != NULL ? PyPickleBuffer_FromObject(bytes) : NULL;
    Py_XDECREF(bytes);
    return reduced_to(object, content);
}

PyDoc_STRVAR(
    copy_from_host_doc,
    "copy_from_host($self, ary, stream=0)\n--\n\n"
    "Copy the bytes of a host object to the beginning of the buffer.\n\n"
    "ary: any object with a contiguous buffer. On a stream other than the default one\n"
    "it has to stay unchanged until the stream is synchronized.\n\n"
    "Raises ValueError if `ary` has more bytes than the buffer.");

static PyObject *buffer_copy_from_host(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ary", "stream", NULL};
    tarn__buffer *self = (tarn__buffer *)object;
    PyObject *stream_object = NULL;
    tarn_stream stream;
    Py_buffer host;
    int result = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|O:copy_from_host", names, &host,
                                     &stream_object))
        return NULL;
    if (tarn__stream_from(tarn__state_of(Py_TYPE(object)), stream_object, &stream) == 0) {
        if ((size_t)host.len > self->bytes)
            PyErr_Format(PyExc_ValueError,
                         "ary has %zd bytes, more than the %zu of the buffer", host.len,
                         self->bytes);
        else
            result = tarn__buffer_transfer(self, tarn__buffer_address(self),
                                           host_address(host.buf), (size_t)host.len,
                                           stream, false);
    }
    PyBuffer_Release(&host);
    if (result != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- from other device arrays --- */

/* The required properties of a __cuda_array_interface__: one dimension, no gaps. */
struct array {
    tarn_device_ptr address;
    size_t bytes;
    tarn_stream stream;     /* its work has to finish first; TARN_STREAM_NONE: no work is
                         * pending */
    PyObject *stream_owner; /* keeps `stream` valid; NULL, or owned */
};

/* Bytes of one item: the number at the end of a typestr such as "<f8". 0: none there. */
static size_t item_bytes(PyObject *typestr)
{
    const char *text =
        typestr != NULL && PyUnicode_Check(typestr) ? PyUnicode_AsUTF8(typestr) : NULL;
    PyErr_Clear();
    if (text == NULL || text[0] == '\0' || text[1] == '\0' || !Py_ISDIGIT(text[2]))
        return 0;
    return (size_t)strtoul(text + 2, NULL, 10);
}

/* Is there a gap between items? `strides` is None or a tuple. -1 with an exception set.
 */
static int has_gaps(PyObject *strides, size_t item)
{
    if (strides == NULL || strides == Py_None)
        return 0;
    if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != 1)
        return 1;
    Py_ssize_t stride = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, 0));
    if (stride == -1 && PyErr_Occurred())
        return -1;
    return (size_t)stride != item;
}

/* The entries of a __cuda_array_interface__ that are read; each one NULL or owned.
 * Reading a number may run code that changes the dict. */
struct interface {
    PyObject *data, *shape, *typestr, *strides, *stream;
};

static void interface_clear(struct interface *interface)
{
    Py_CLEAR(interface->data);
    Py_CLEAR(interface->shape);
    Py_CLEAR(interface->typestr);
    Py_CLEAR(interface->strides);
    Py_CLEAR(interface->stream);
}

/* An entry that cannot be looked up is not one that is missing: without its stream an array
 * would be copied before it is written. */
static int read_entry(PyObject *dict, const char *name, PyObject **out)
{
    PyObject *key = PyUnicode_FromString(name);

    if (key == NULL)
        return -1;
    *out = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    Py_DECREF(key);
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

static int read_entries(PyObject *dict, struct interface *out)
{
    if (read_entry(dict, "data", &out->data) == 0 &&
        read_entry(dict, "shape", &out->shape) == 0 &&
        read_entry(dict, "typestr", &out->typestr) == 0 &&
        read_entry(dict, "strides", &out->strides) == 0 &&
        read_entry(dict, "stream", &out->stream) == 0)
        return 0;
    interface_clear(out);
    return -1;
}

static int interface_of(PyObject *object, struct interface *out)
{
    PyObject *dict = PyObject_GetAttrString(object, "__cuda_array_interface__");

    if (dict == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    if (dict == NULL || !PyDict_Check(dict)) {
        Py_XDECREF(dict);
        PyErr_Format(PyExc_ValueError, "%R has no __cuda_array_interface__", object);
        return -1;
    }
    *out = (struct interface){NULL};
    int result = read_entries(dict, out);
    Py_DECREF(dict);
    return result;
}

static int array_bytes(const struct interface *interface, size_t *out)
{
    size_t item = item_bytes(interface->typestr), items;

    if (interface->shape == NULL || !PyTuple_Check(interface->shape) ||
        PyTuple_GET_SIZE(interface->shape) != 1 || item == 0) {
        PyErr_SetString(PyExc_ValueError, "only one-dimensional arrays can be copied");
        return -1;
    }
    if (tarn__arguments_size(PyTuple_GET_ITEM(interface->shape, 0), &items) != 0)
        return -1;
    int gaps = has_gaps(interface->strides, item);
    if (gaps == 1)
        PyErr_SetString(PyExc_ValueError, "only contiguous arrays can be copied");
    if (gaps != 0)
        return -1;
    if (items > SIZE_MAX / item) {
        PyErr_SetString(PyExc_ValueError, "the array exceeds the address space");
        return -1;
    }
    *out = items * item;
    return 0;
}

static int array_address(const struct interface *interface, tarn_device_ptr *out)
{
    size_t address;

    if (interface->data == NULL || !PyTuple_Check(interface->data) ||
        PyTuple_GET_SIZE(interface->data) < 1) {
        PyErr_SetString(PyExc_ValueError, "__cuda_array_interface__ has no data");
        return -1;
    }
    if (tarn__arguments_size(PyTuple_GET_ITEM(interface->data, 0), &address) != 0)
        return -1;
    *out = address;
    return 0;
}

static int array_from(tarn__state *state, PyObject *object, struct array *out)
{
    struct interface interface;

    if (interface_of(object, &interface) != 0)
        return -1;
    out->stream = TARN_STREAM_NONE;
    int result = array_address(&interface, &out->address);
    if (result == 0)
        result = array_bytes(&interface, &out->bytes);
    if (result == 0 && interface.stream != NULL && interface.stream != Py_None)
        result = tarn__stream_from(state, interface.stream, &out->stream);
    out->stream_owner = result == 0 ? Py_XNewRef(interface.stream) : NULL;
    interface_clear(&interface);
    return result;
}

/* Wait for the work of the array's stream, unless the copy is queued behind it anyway. */
static tarn_status wait_for_array(const tarn__buffer *self, const struct array *array,
                                  tarn_stream stream)
{
    tarn_status status;

    if (array->bytes == 0 || array->stream == TARN_STREAM_NONE || array->stream == stream)
        return TARN_OK;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_stream_synchronize(self->device, array->stream);
    Py_END_ALLOW_THREADS;
    return status;
}

static int queue_copy(tarn__state *state, tarn__buffer *self, const struct array *array,
                      tarn_stream stream)
{
    struct tarn__block_use use;
    tarn_status status;

    tarn__buffer_use(self, &use);
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_memcpy_async(self->device, tarn_pointer_address(use.pointer),
                               array->address, array->bytes, stream);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    tarn__buffer_unuse(self, &use);
    return status == TARN_OK ? 0 : -1;
}

static int copy_array(tarn__state *state, tarn__buffer *self, const struct array *array,
                      tarn_stream stream)
{
    tarn_status status = wait_for_array(self, array, stream);

    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        return -1;
    }
    if (array->bytes > self->bytes) {
        PyErr_Format(PyExc_ValueError,
                     "the array has %zu bytes, more than the %zu of the buffer",
                     array->bytes, self->bytes);
        return -1;
    }
    return array->bytes > 0 ? queue_copy(state, self, array, stream) : 0;
}

PyDoc_STRVAR(
    copy_from_device_doc,
    "copy_from_device($self, cuda_ary, stream=0)\n--\n\n"
    "Queue a copy of a device array to the beginning of the buffer.\n\n"
    "cuda_ary: an object with __cuda_array_interface__, of one dimension and without\n"
    "gaps. If it names a stream, the call waits for that stream first. It does not\n"
    "wait for the copy.\n\n"
    "Raises ValueError if the array has more bytes than the buffer, or another shape.");

static PyObject *buffer_copy_from_device(PyObject *object, PyObject *args,
                                         PyObject *kwargs)
{
    static char *names[] = {"cuda_ary", "stream", NULL};
    tarn__buffer *self = (tarn__buffer *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *source, *stream_object = NULL;
    struct tarn__block_use use;
    tarn_stream stream;
    struct array array;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:copy_from_device", names, &source,
                                     &stream_object) ||
        tarn__stream_from(state, stream_object, &stream) != 0 ||
        array_from(state, source, &array) != 0)
        return NULL;
    /* For arrays of other libraries, their owners keep the memory alive. */
    bool is_ours = PyObject_TypeCheck(source, (PyTypeObject *)state->DeviceBuffer);
    if (is_ours)
        tarn__buffer_use((tarn__buffer *)source, &use);
    int result = copy_array(state, self, &array, stream);
    if (is_ours)
        tarn__buffer_unuse((tarn__buffer *)source, &use);
    Py_XDECREF(array.stream_owner);
    if (result != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- where managed memory is --- */

static int queue_prefetch(tarn__state *state, tarn__buffer *self, int device,
                          tarn_stream stream)
{
    struct tarn__block_use use;
    tarn_status status;

    tarn__buffer_use(self, &use);
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_prefetch_async(self->device, tarn_pointer_address(use.pointer),
                                 self->bytes, device, stream);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    tarn__buffer_unuse(self, &use);
    return status == TARN_OK ? 0 : -1;
}

PyDoc_STRVAR(
    prefetch_doc,
    "prefetch($self, device=None, stream=None)\n--\n\n"
    "Queue the migration of managed memory to a device.\n\n"
    "device: number of the device, -1 for the host; None: the current device. stream:\n"
    "None is the buffer's own stream. Memory that is not managed stays where it is.\n\n"
    "Raises InvalidArgumentError if the device does not exist.");

static PyObject *buffer_prefetch(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "stream", NULL};
    tarn__buffer *self = (tarn__buffer *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *device_object = Py_None, *stream_object = Py_None;
    tarn_stream stream = tarn__buffer_stream(self);
    int device;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:prefetch", names, &device_object,
                                     &stream_object) ||
        (stream_object != Py_None &&
         tarn__stream_from(state, stream_object, &stream) != 0))
        return NULL;
    if (device_object == Py_None) {
        tarn_status status = tarn_driver_current_device(&device);
        if (status != TARN_OK)
            return tarn__error_raise(state, status);
    } else if (!PyArg_Parse(device_object, "i;device", &device)) {
        return NULL;
    }
    if (queue_prefetch(state, self, device, stream) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- copies between addresses --- */

/* (to, from, bytes, stream): a copy as cuMemcpyAsync on the current device; on the default
 * stream it is complete on return. */
static PyObject *copy_addresses(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    PyObject *to_object, *from_object, *bytes_object, *stream_object;
    size_t to, from, bytes;
    tarn_stream stream;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(args, "OOOO", &to_object, &from_object, &bytes_object,
                          &stream_object) ||
        tarn__arguments_size(to_object, &to) != 0 ||
        tarn__arguments_size(from_object, &from) != 0 ||
        tarn__arguments_size(bytes_object, &bytes) != 0 ||
        tarn__stream_from(state, stream_object, &stream) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_current_device(&device);
    if (status == TARN_OK)
        status = tarn_memcpy_async(device, to, from, bytes, stream);
    if (status == TARN_OK && tarn__stream_is_default(stream))
        status = tarn_stream_synchronize(device, stream);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

/* (to, buffer, stream) or (buffer, from, stream): a copy between device memory and the
 * contiguous buffer of a host object. */
static PyObject *copy_host(PyObject *module, PyObject *args, bool to_host)
{
    PyObject *first, *second, *stream, *result = NULL;
    Py_buffer view;

    if (!PyArg_ParseTuple(args, "OOO", &first, &second, &stream) ||
        PyObject_GetBuffer(to_host ? first : second, &view,
                           to_host ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
        return NULL;
    PyObject *host = PyLong_FromVoidPtr(view.buf);
    PyObject *call = host == NULL ? NULL
                     : to_host ? Py_BuildValue("(OOnO)", host, second, view.len, stream)
                               : Py_BuildValue("(OOnO)", first, host, view.len, stream);
    if (call != NULL)
        result = copy_addresses(module, call);
    Py_XDECREF(call);
    Py_XDECREF(host);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *copy_to_host_object(PyObject *module, PyObject *args)
{
    return copy_host(module, args, true);
}

static PyObject *copy_from_host_object(PyObject *module, PyObject *args)
{
    return copy_host(module, args, false);
}

static PyMethodDef functions[] = {
    {"_copy", copy_addresses, METH_VARARGS,
     "_copy(to, src, nbytes, stream, /)\n--\n\n"
     "Queue a copy between two addresses on the current device."},
    {"_copy_to_host", copy_to_host_object, METH_VARARGS,
     "_copy_to_host(ary, src, stream, /)\n--\n\n"
     "Queue a copy from an address into a writable host object."},
    {"_copy_from_host", copy_from_host_object, METH_VARARGS,
     "_copy_from_host(to, ary, stream, /)\n--\n\n"
     "Queue a copy of a host object to an address."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef copies[] = {
    {"copy_to_host", TARN__WITH_KEYWORDS(buffer_copy_to_host),
     METH_VARARGS | METH_KEYWORDS, copy_to_host_doc},
    {"copy_from_host", TARN__WITH_KEYWORDS(buffer_copy_from_host),
     METH_VARARGS | METH_KEYWORDS, copy_from_host_doc},
    {"copy_from_device", TARN__WITH_KEYWORDS(buffer_copy_from_device),
     METH_VARARGS | METH_KEYWORDS, copy_from_device_doc},
    {"tobytes", TARN__WITH_KEYWORDS(buffer_tobytes), METH_VARARGS | METH_KEYWORDS,
     tobytes_doc},
    {"__bytes__", buffer_bytes, METH_NOARGS,
     "__bytes__($self)\n--\n\n"
     "Return a copy of all bytes, as tobytes()."},
    {"prefetch", TARN__WITH_KEYWORDS(buffer_prefetch), METH_VARARGS | METH_KEYWORDS,
     prefetch_doc},
    {"__reduce_ex__", buffer_reduce_ex, METH_O,
     "__reduce_ex__($self, protocol, /)\n--\n\n"
     "Return the bytes for pickle; from protocol 5 on as a PickleBuffer."},
    {"__reduce__", buffer_reduce, METH_NOARGS,
     "__reduce__($self)\n--\n\n"
     "Return the bytes for pickle, after the work of the buffer's stream."},
    {NULL, NULL, 0, NULL},
};

int tarn__copies_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) != 0)
        return -1;
    return tarn__state_add_methods(tarn__state_get(module)->DeviceBuffer, copies);
}
