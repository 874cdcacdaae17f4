/* dlpack_export.c -- DeviceBuffer.__dlpack__(): buffers for other libraries, uncopied.
 *
 * A consumer names the stream on which it will use the bytes. That stream waits for the
 * buffer's stream, on the device. The consumer's object keeps the buffer and its block,
 * also where the buffer is resized meanwhile.
 *
 * The consumer may end the object on any thread, without the GIL, and while its stream
 * still works. So a block that another stream than the buffer's has used is freed without
 * a stream: the memory is reused once the work of all streams is done.
 */
#include "buffer.h"
#include "dlpack.h"
#include "error.h"
#include "module.h"
#include "stream.h"

#include <stdlib.h>

/* --- the object of a consumer --- */

struct shared {
    union {
        struct tarn__dlpack_managed managed;
        struct tarn__dlpack_versioned versioned;
    } as;
    int64_t shape[1], strides[1];
    struct tarn__kept_buffer kept;
};

static void delete_shared(struct shared *shared)
{
    tarn__buffer_let_go(&shared->kept);
    free(shared);
}

static void delete_managed(struct tarn__dlpack_managed *self)
{
    delete_shared(self->context);
}

static void delete_versioned(struct tarn__dlpack_versioned *self)
{
    delete_shared(self->context);
}

/* A consumer that has taken the object over has renamed the capsule. */
static void capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, TARN__DLPACK_NAME) ||
        PyCapsule_IsValid(capsule, TARN__DLPACK_VERSIONED_NAME))
        delete_shared(PyCapsule_GetContext(capsule));
}

/* --- the device --- */

/* The device of a buffer in DLPack's terms: 0, or -1 with an exception set. */
static int device_of(tarn__state *state, tarn__buffer *self,
                     struct tarn__dlpack_device *out)
{
    static const int types[] = {[TARN_MEMORY_DEVICE] = TARN__DLPACK_CUDA,
                                [TARN_MEMORY_HOST] = TARN__DLPACK_CUDA_HOST,
                                [TARN_MEMORY_MANAGED] = TARN__DLPACK_CUDA_MANAGED};
    tarn_memory_type type = TARN_MEMORY_DEVICE;
    int device = self->device;

    if (tarn__buffer_address(self) != 0) {
        tarn_status status = tarn_driver_memory_type(
            self->device, tarn__buffer_address(self), &type, &device);
        if (status != TARN_OK) {
            tarn__error_raise(state, status);
            return -1;
        }
    }
    if (type == TARN_MEMORY_UNKNOWN) {
        PyErr_Format(PyExc_BufferError,
                     "dlpack: %zu bytes of %.200s are neither CUDA's memory nor pinned",
                     self->bytes, Py_TYPE(self->mr)->tp_name);
        return -1;
    }
    *out = (struct tarn__dlpack_device){.type = types[type], .id = device};
    return 0;
}

PyDoc_STRVAR(device_doc,
             "__dlpack_device__($self)\n--\n\n"
             "Return the device as (type, number): type 2 is device memory, 3 pinned\n"
             "memory of the host, 13 managed memory.");

static PyObject *buffer_dlpack_device(PyObject *object, PyObject *Py_UNUSED(none))
{
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    struct tarn__dlpack_device device;

    if (!tarn__state_is_there(state) ||
        device_of(state, (tarn__buffer *)object, &device) != 0)
        return NULL;
    return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

/* --- arguments --- */

/* Read a pair of numbers; None leaves `out` as it is. 0, or -1 with an exception set. */
static int parse_pair(PyObject *object, const char *name, long out[2])
{
    if (object == Py_None)
        return 0;
    if (PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 2) {
        for (int i = 0; i < 2; i++) {
            out[i] = PyLong_AsLong(PyTuple_GET_ITEM(object, i));
            if (out[i] == -1 && PyErr_Occurred())
                return -1;
        }
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "dlpack: %s is None or a pair of numbers, not %R", name,
                 object);
    return -1;
}

/* The stream that a consumer names as a number. `*waits` is false for -1: the consumer
 * waits itself. 0, or -1 with an exception set. */
static int parse_stream(PyObject *object, tarn_stream *out, bool *waits)
{
    long long number = 1;

    if (object != Py_None) {
        if (!PyLong_Check(object)) {
            PyErr_Format(PyExc_TypeError, "dlpack: a stream is None or a number, not %R",
                         object);
            return -1;
        }
        number = PyLong_AsLongLong(object);
        if (number == -1 && PyErr_Occurred())
            return -1;
    }
    if (number == 0 || number < -1) {
        PyErr_Format(
            PyExc_ValueError,
            "dlpack: %lld is not a stream: 1 is the legacy default stream, 2 the "
            "per-thread default stream, -1 none",
            number);
        return -1;
    }
    *waits = number != -1;
    *out = (tarn_stream)(uintptr_t)(number == -1 ? 1 : number);
    return 0;
}

/* The arguments of __dlpack__(). */
struct request {
    tarn_stream stream;
    bool waits;      /* the stream has to wait for the buffer's */
    bool host_waits; /* the host may read the memory, and no stream is named */
    bool versioned;
    bool copies;
    struct tarn__dlpack_device device;
};

/* Check that the buffer can be exported to a device: 0, or -1 with an exception set. */
static int check_device(PyObject *wanted, const struct tarn__dlpack_device *own)
{
    long device[2] = {own->type, own->id};

    if (parse_pair(wanted, "dl_device", device) != 0)
        return -1;
    if (device[0] == own->type && device[1] == own->id)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "dlpack: the buffer is on device (%d, %d), and not on (%ld, %ld)",
                 (int)own->type, (int)own->id, device[0], device[1]);
    return -1;
}

static int parse_request(PyObject *object, PyObject *args, PyObject *kwargs,
                         struct request *out)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    long maximum[2] = {0, 0};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
                                     &version, &device, &copy) ||
        !tarn__state_is_there(state) ||
        parse_stream(stream, &out->stream, &out->waits) != 0 ||
        parse_pair(version, "max_version", maximum) != 0 ||
        device_of(state, (tarn__buffer *)object, &out->device) != 0 ||
        check_device(device, &out->device) != 0)
        return -1;
    int copies = PyObject_IsTrue(copy);
    if (copies < 0)
        return -1;
    out->copies = copies;
    out->versioned = maximum[0] >= TARN__DLPACK_MAJOR;
    out->host_waits = stream == Py_None && out->device.type != TARN__DLPACK_CUDA;
    return 0;
}

/* --- the export --- */

/* Order the consumer's work after that of the buffer's stream. 0, or -1 with an exception
 * set. */
static int order(tarn__state *state, const struct request *request, int device,
                 tarn_stream stream)
{
    tarn_status status = TARN_OK;

    if (stream == TARN_STREAM_NONE || !request->waits)
        return 0;
    Py_BEGIN_ALLOW_THREADS;
    if (request->host_waits)
        status = tarn_stream_synchronize(device, stream);
    else
        status = tarn_stream_wait(device, request->stream, stream);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    return status == TARN_OK ? 0 : -1;
}

static void fill(struct shared *shared, const struct request *request)
{
    struct tarn__dlpack_tensor tensor = {
        .data = (void *)(uintptr_t)tarn_pointer_address(shared->kept.use.pointer),
        .device = request->device,
        .ndim = 1,
        .dtype = {.code = TARN__DLPACK_UINT, .bits = 8, .lanes = 1},
        .shape = shared->shape,
        .strides = shared->strides};

    shared->shape[0] = (int64_t)shared->kept.buffer->bytes;
    shared->strides[0] = 1;
    if (request->versioned)
        shared->as.versioned = (struct tarn__dlpack_versioned){
            .version = {TARN__DLPACK_MAJOR, TARN__DLPACK_MINOR},
            .context = shared,
            .deleter = delete_versioned,
            .flags = request->copies ? TARN__DLPACK_COPIED : 0,
            .tensor = tensor};
    else
        shared->as.managed = (struct tarn__dlpack_managed){
            .tensor = tensor, .context = shared, .deleter = delete_managed};
}

static bool is_same_stream(tarn_stream left, tarn_stream right)
{
    return (tarn__stream_is_default(left) && tarn__stream_is_default(right)) ||
           tarn_stream_handle(left) == tarn_stream_handle(right);
}

/* Return the capsule for `self`, whose stream the consumer's waits for already. */
static PyObject *capsule_of(tarn__buffer *self, const struct request *request)
{
    struct shared *shared = malloc(sizeof *shared);

    if (shared == NULL)
        return PyErr_NoMemory();
    bool other_stream =
        !request->waits || !is_same_stream(request->stream, tarn__buffer_stream(self));
    tarn__buffer_keep(self, other_stream, &shared->kept);
    fill(shared, request);
    PyObject *capsule = PyCapsule_New(
        &shared->as, request->versioned ? TARN__DLPACK_VERSIONED_NAME : TARN__DLPACK_NAME,
        NULL);
    if (capsule == NULL || PyCapsule_SetContext(capsule, shared) != 0 ||
        PyCapsule_SetDestructor(capsule, capsule_end) != 0) {
        Py_XDECREF(capsule); /* it has no destructor yet */
        delete_shared(shared);
        return NULL;
    }
    return capsule;
}

PyDoc_STRVAR(
    dlpack_doc,
    "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n"
    "--\n\n"
    "Return a DLPack capsule of the buffer as an array of bytes; libraries call it.\n\n"
    "stream: the number of the stream that will use the bytes, and that waits for the\n"
    "buffer's stream: 1 or None is the legacy default stream, 2 the per-thread default\n"
    "stream, another number a CUstream. -1: the caller waits. max_version: (1, 0) or\n"
    "newer requests the capsule of DLPack 1. copy: True exports a copy.\n\n"
    "Raises ValueError for another number, BufferError if the bytes are not on\n"
    "`dl_device`, and InvalidArgumentError for a stream of another device.");

static PyObject *buffer_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    TARN__CALL;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *exported, *capsule = NULL;
    struct request request;

    if (parse_request(object, args, kwargs, &request) != 0)
        return NULL;
    if (request
            .copies) /* not that of a class derived in Python, which returns anything */
        exported = PyObject_CallMethod(state->DeviceBuffer, "copy", "O", object);
    else
        exported = Py_NewRef(object);
    if (exported == NULL)
        return NULL;
    tarn__buffer *buffer = (tarn__buffer *)exported;
    if (order(state, &request, buffer->device, tarn__buffer_stream(buffer)) == 0)
        capsule = capsule_of(buffer, &request);
    Py_DECREF(exported);
    return capsule;
}

static PyMethodDef methods[] = {
    {"__dlpack__", TARN__WITH_KEYWORDS(buffer_dlpack), METH_VARARGS | METH_KEYWORDS,
     dlpack_doc},
    {"__dlpack_device__", buffer_dlpack_device, METH_NOARGS, device_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__dlpack_export_init(PyObject *module)
{
    return tarn__state_add_methods(tarn__state_get(module)->DeviceBuffer, methods);
}
