/* dlpack_import.c -- DeviceBuffer.from_dlpack(): arrays of other libraries, uncopied.
 *
 * The bytes stay the producer's. The buffer keeps them until it ends: then it waits for
 * its stream, and calls the producer's deleter. The producer cannot know that stream.
 *
 * A producer may be faulty or hostile. So the tensor is checked: its version, device,
 * shape, strides and size, and that the driver knows the memory. A capsule is taken over
 * last, in one step, so that a failure leaves it unused.
 */
#include "arguments.h"
#include "buffer.h"
#include "device.h"
#include "dlpack.h"
#include "error.h"
#include "gil.h"
#include "module.h"
#include "resource.h"
#include "stream.h"

#include <stdlib.h>

/* --- the producer's object --- */

/* What the end of a buffer needs. */
struct taken {
    tarn_stream stream; /* the buffer's last; set by buffer.c */
    int device;
    struct tarn__dlpack_managed *managed; /* one of them; both NULL: not taken over */
    struct tarn__dlpack_versioned *versioned;
};

static void call_deleter(const struct taken *taken)
{
    if (taken->managed != NULL && taken->managed->deleter != NULL)
        taken->managed->deleter(taken->managed);
    if (taken->versioned != NULL && taken->versioned->deleter != NULL)
        taken->versioned->deleter(taken->versioned);
}

/* Wait for the work of the buffer's stream. Without a stream any may work on the bytes. A
 * device that fails uses nothing any more. */
static void wait_for_work(const struct taken *taken)
{
    if (taken->stream == TARN_STREAM_NONE)
        tarn_driver_synchronize(taken->device);
    else
        tarn_stream_synchronize(taken->device, taken->stream);
}

/* A tarn_finalizer. The deleter may be Python's, so it is called with the GIL. */
static void end_taken(void *data, tarn_device_ptr address, size_t bytes)
{
    struct taken *taken = data;
    struct tarn__gil_stay stay;

    if (address != 0 && bytes > 0 && (taken->managed != NULL || taken->versioned != NULL))
        wait_for_work(taken);
    if (tarn__gil_enter(&stay)) {
        call_deleter(taken);
        tarn__gil_leave(&stay, TARN_OK);
    } else {
        call_deleter(taken);
    }
    free(taken);
}

/* --- checks --- */

/* Count the bytes of a tensor: 0, or -1 with an exception set. */
static int count_bytes(const struct tarn__dlpack_tensor *tensor, size_t *out)
{
    size_t bits = (size_t)tensor->dtype.bits * tensor->dtype.lanes;
    size_t bytes = bits / 8;

    if (bits == 0 || bits % 8 != 0) {
        PyErr_Format(PyExc_BufferError, "dlpack: elements of %zu bits are not bytes",
                     bits);
        return -1;
    }
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0 ||
            __builtin_mul_overflow(bytes, (size_t)tensor->shape[i], &bytes) ||
            bytes > PY_SSIZE_T_MAX) {
            PyErr_Format(PyExc_BufferError, "dlpack: dimension %d has %lld elements", i,
                         (long long)tensor->shape[i]);
            return -1;
        }
    }
    *out = bytes;
    return 0;
}

/* Return true if the elements lie one behind the other, in the order of C. */
static bool is_contiguous(const struct tarn__dlpack_tensor *tensor)
{
    int64_t stride = 1;

    if (tensor->strides == NULL)
        return true;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] == 0)
            return true;
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->shape[i]; /* no overflow: the bytes were counted */
    }
    return true;
}

/* Find the address and the size: 0, or -1 with an exception set. */
static int check_layout(const struct tarn__dlpack_tensor *tensor,
                        tarn_device_ptr *address_out, size_t *bytes_out)
{
    enum { DIMENSIONS_MAX = 64 };
    tarn_device_ptr address = (uintptr_t)tensor->data;

    if (tensor->ndim < 0 || tensor->ndim > DIMENSIONS_MAX ||
        (tensor->ndim > 0 && tensor->shape == NULL)) {
        PyErr_Format(PyExc_BufferError, "dlpack: %d dimensions with the shape at %p",
                     (int)tensor->ndim, (void *)tensor->shape);
        return -1;
    }
    if (count_bytes(tensor, bytes_out) != 0)
        return -1;
    if (*bytes_out > 0 && !is_contiguous(tensor)) {
        PyErr_SetString(PyExc_BufferError, "dlpack: the array is not contiguous");
        return -1;
    }
    if (*bytes_out == 0)
        address = 0;
    else if (address == 0 ||
             __builtin_add_overflow(address, tensor->byte_offset, &address) ||
             address > UINTPTR_MAX - *bytes_out) {
        PyErr_Format(PyExc_BufferError,
                     "dlpack: %zu bytes at %p with the offset %llu are no memory",
                     *bytes_out, tensor->data, (unsigned long long)tensor->byte_offset);
        return -1;
    }
    *address_out = address;
    return 0;
}

static bool is_of_cuda(int type)
{
    return type == TARN__DLPACK_CUDA || type == TARN__DLPACK_CUDA_HOST ||
           type == TARN__DLPACK_CUDA_MANAGED;
}

/* Ask the driver about the memory: 0 with its kind, or -1 with an exception set. */
static int check_memory(tarn__state *state, int device, tarn_device_ptr address,
                        size_t bytes, tarn_pointer_kind *out)
{
    static const tarn_pointer_kind kinds[] = {[TARN_MEMORY_DEVICE] = TARN_POINTER_DEVICE,
                                              [TARN_MEMORY_HOST] = TARN_POINTER_PINNED,
                                              [TARN_MEMORY_MANAGED] =
                                                  TARN_POINTER_MANAGED};
    tarn_memory_type type = TARN_MEMORY_UNKNOWN;
    int owner = device;
    tarn_status status = tarn_driver_memory_type(device, address, &type, &owner);

    if (status == TARN_OK && type == TARN_MEMORY_UNKNOWN)
        status = tarn_error_set(TARN_INVALID_ARGUMENT,
                                "dlpack: the driver knows no memory at 0x%llx, where %zu "
                                "bytes of device %d should be",
                                address, bytes, device);
    if (status == TARN_OK)
        status = tarn_driver_check_allocation(device, address, bytes);
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        return -1;
    }
    *out = kinds[type];
    return 0;
}

/* --- the capsule --- */

/* A tensor in a capsule that no consumer has taken over yet. */
struct found {
    bool is_versioned;
    void *object; /* the managed tensor */
    const struct tarn__dlpack_tensor *tensor;
    bool read_only;
};

static int find_versioned(struct found *out)
{
    struct tarn__dlpack_versioned *versioned = out->object;

    if (versioned->version.major != TARN__DLPACK_MAJOR) {
        PyErr_Format(PyExc_BufferError, "dlpack: the tensor has version %u.%u, not 1",
                     (unsigned)versioned->version.major,
                     (unsigned)versioned->version.minor);
        return -1;
    }
    out->tensor = &versioned->tensor;
    out->read_only = versioned->flags & TARN__DLPACK_READ_ONLY;
    return 0;
}

/* The name of a capsule before and after a consumer has taken its tensor over. */
static const char *name_of(const struct found *found, bool used)
{
    if (found->is_versioned)
        return used ? TARN__DLPACK_USED_VERSIONED_NAME : TARN__DLPACK_VERSIONED_NAME;
    return used ? TARN__DLPACK_USED_NAME : TARN__DLPACK_NAME;
}

/* Find the tensor of a capsule: 0, or -1 with an exception set. */
static int find(PyObject *capsule, struct found *out)
{
    *out = (struct found){.is_versioned =
                              PyCapsule_IsValid(capsule, TARN__DLPACK_VERSIONED_NAME)};
    if (!PyCapsule_IsValid(capsule, name_of(out, false))) {
        PyErr_Format(
            PyExc_BufferError,
            "dlpack: __dlpack__() returned %R, not an unused capsule of a tensor",
            capsule);
        return -1;
    }
    out->object = PyCapsule_GetPointer(capsule, name_of(out, false));
    if (out->is_versioned)
        return find_versioned(out);
    out->tensor = &((struct tarn__dlpack_managed *)out->object)->tensor;
    return 0;
}

/* Take the tensor over, unless code that ran meanwhile has done so. 0, or -1 with an
 * exception set. */
static int take(PyObject *capsule, const struct found *found, struct taken *taken)
{
    if (!PyCapsule_IsValid(capsule, name_of(found, false)) ||
        PyCapsule_GetPointer(capsule, name_of(found, false)) != found->object) {
        PyErr_SetString(PyExc_BufferError, "dlpack: the capsule was used by other code");
        return -1;
    }
    if (PyCapsule_SetName(capsule, name_of(found, true)) != 0)
        return -1;
    if (found->is_versioned)
        taken->versioned = found->object;
    else
        taken->managed = found->object;
    return 0;
}

/* --- the request to the producer --- */

/* Read (type, number) from __dlpack_device__(): 0, or -1 with an exception set. */
static int ask_device(PyObject *producer, int *type_out, int *device_out)
{
    PyObject *pair = PyObject_CallMethod(producer, "__dlpack_device__", NULL);
    PyObject *tuple = pair != NULL ? PySequence_Tuple(pair) : NULL;
    int result = -1;

    if (tuple != NULL &&
        PyArg_ParseTuple(tuple, "ii:__dlpack_device__", type_out, device_out)) {
        if (is_of_cuda(*type_out))
            result = 0;
        else
            PyErr_Format(PyExc_BufferError,
                         "dlpack: the array is on a device of type %d, not CUDA's",
                         *type_out);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(pair);
    return result;
}

/* The number of a stream for __dlpack__(). Memory of the host has none: None. */
static PyObject *number_of(tarn_stream stream, int type)
{
    if (type == TARN__DLPACK_CUDA_HOST)
        Py_RETURN_NONE;
    if (tarn__stream_is_default(stream))
        return PyLong_FromLong(1);
    return PyLong_FromVoidPtr(tarn_stream_handle(stream));
}

/* Call __dlpack__(). Producers of before DLPack 1 do not know `max_version`. */
static PyObject *ask_capsule(PyObject *producer, tarn_stream stream, int type)
{
    PyObject *method = PyObject_GetAttrString(producer, "__dlpack__");
    PyObject *none = PyTuple_New(0), *number = number_of(stream, type);
    PyObject *newer = number != NULL
                          ? Py_BuildValue("{sOs(ii)}", "stream", number, "max_version",
                                          TARN__DLPACK_MAJOR, TARN__DLPACK_MINOR)
                          : NULL;
    PyObject *older = number != NULL ? Py_BuildValue("{sO}", "stream", number) : NULL;
    PyObject *capsule = NULL;

    if (method != NULL && none != NULL && newer != NULL && older != NULL) {
        capsule = PyObject_Call(method, none, newer);
        if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_Call(method, none, older);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(number);
    Py_XDECREF(newer);
    Py_XDECREF(older);
    return capsule;
}

/* --- the buffer --- */

/* Create the pointer over the tensor of a capsule. It calls no deleter before take(). */
static tarn_pointer *pointer_over(tarn__state *state, const struct found *found,
                                  int device, tarn_stream stream, struct taken **out)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = TARN_POINTER_DEVICE,
                                    .device = device,
                                    .finalizer = end_taken};
    tarn_pointer *pointer = NULL;

    if (check_layout(found->tensor, &options.address, &options.bytes) != 0 ||
        (options.bytes > 0 &&
         check_memory(state, device, options.address, options.bytes, &options.kind) != 0))
        return NULL;
    struct taken *taken = calloc(1, sizeof *taken);
    if (taken == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    taken->stream = stream;
    taken->device = device;
    options.finalizer_data = taken;
    tarn_status status = tarn_pointer_create(&options, &pointer);
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        free(taken);
        return NULL;
    }
    *out = taken;
    return pointer;
}

/* The resource for later blocks: `mr`, or the current one of the device. */
static tarn_resource *resource_for(tarn__state *state, PyObject *mr, int device,
                                   PyObject **object_out)
{
    PyObject *object =
        mr != Py_None ? Py_NewRef(mr) : tarn__device_resource(state, device);
    tarn_resource *resource =
        object != NULL ? tarn__resource_from(state, object, device) : NULL;

    if (resource != NULL && tarn_resource_device(resource) != TARN_DEVICE_NONE &&
        tarn_resource_device(resource) != device) {
        tarn__error_raise(state, tarn_error_set(TARN_INVALID_ARGUMENT,
                                                "dlpack: the array is on device %d, and "
                                                "`mr` is of device %d",
                                                device, tarn_resource_device(resource)));
        tarn__resource_drop(state, resource, object);
        resource = NULL;
    }
    if (resource == NULL)
        Py_CLEAR(object);
    *object_out = object;
    return resource;
}

/* The arguments of from_dlpack(), and what the producer said. */
struct request {
    PyObject *stream_object, *mr; /* borrowed */
    tarn_stream stream;
    int copies;
    int type, device;
};

/* Check that the tensor is where the producer said, and writable. */
static int check_tensor(const struct found *found, const struct request *request)
{
    const struct tarn__dlpack_device *device = &found->tensor->device;

    if (device->type == request->type && device->id == request->device &&
        (!found->read_only || request->copies))
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "dlpack: the tensor is%s on device (%d, %d), not writable on (%d, %d)",
                 found->read_only ? " read-only and" : "", (int)device->type,
                 (int)device->id, request->type, request->device);
    return -1;
}

/* Return the buffer over the tensor of `capsule`. No other code may run between the look
 * at the tensor and its last use: it could end the tensor. */
static PyObject *share(PyTypeObject *type, PyObject *capsule,
                       const struct request *request)
{
    tarn__state *state = tarn__state_of(type);
    tarn_pointer *pointer = NULL;
    struct taken *taken = NULL;
    struct found found;
    PyObject *mr = NULL;
    tarn_resource *resource = resource_for(state, request->mr, request->device, &mr);

    if (resource == NULL)
        return NULL;
    if (find(capsule, &found) == 0 && check_tensor(&found, request) == 0)
        pointer = pointer_over(state, &found, request->device, request->stream, &taken);
    tarn__buffer *self = tarn__buffer_over(type, pointer, request->device, resource, mr,
                                           request->stream, request->stream_object);
    if (self == NULL)
        return NULL;
    self->foreign = &taken->stream;
    if (take(capsule, &found, taken) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* Wait until the host's view is that of the stream: a buffer without a stream has no
 * pending work. 0, or -1 with an exception set. */
static int settle(tarn__state *state, const struct request *request)
{
    tarn_status status = TARN_OK;

    if (request->stream != TARN_STREAM_NONE)
        return 0;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_stream_synchronize(request->device, TARN_STREAM_LEGACY);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    return status == TARN_OK ? 0 : -1;
}

static int parse_request(PyTypeObject *type, PyObject *args, PyObject *kwargs,
                         PyObject **producer_out, struct request *out)
{
    static char *names[] = {"x", "stream", "mr", "copy", NULL};
    tarn__state *state = tarn__state_of(type);

    *out = (struct request){.mr = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOp:from_dlpack", names,
                                     producer_out, &out->stream_object, &out->mr,
                                     &out->copies) ||
        !tarn__state_is_there(state) ||
        tarn__stream_from(state, out->stream_object, &out->stream) != 0)
        return -1;
    if (out->stream_object == NULL)
        out->stream_object = state->default_stream;
    if (PyObject_HasAttrString(*producer_out, "__dlpack__") &&
        PyObject_HasAttrString(*producer_out, "__dlpack_device__"))
        return ask_device(*producer_out, &out->type, &out->device);
    PyErr_Format(PyExc_TypeError, "dlpack: %.200s has no __dlpack__()",
                 Py_TYPE(*producer_out)->tp_name);
    return -1;
}

PyDoc_STRVAR(
    from_dlpack_doc,
    "from_dlpack($type, x, *, stream=0, mr=None, copy=False)\n--\n\n"
    "Return a buffer over the memory of an array of another library.\n\n"
    "x: an object with __dlpack__(), such as an array of CuPy, PyTorch or JAX; it has "
    "to\n"
    "be contiguous and in CUDA's memory. stream: the stream of the buffer, which waits\n"
    "for the work of the producer. mr: the resource for blocks to which the buffer "
    "grows;\n"
    "None: the current one of the device. copy: return a copy from `mr` instead.\n\n"
    "The memory stays the producer's. At the end of the buffer Tarn waits for the\n"
    "buffer's stream and then releases the array.\n\n"
    "Raises BufferError if the array cannot be shared, and InvalidArgumentError if the\n"
    "driver does not know the memory.");

static PyObject *from_dlpack(PyObject *type, PyObject *args, PyObject *kwargs)
{
    TARN__CALL;
    PyObject *producer, *self = NULL, *copy = NULL;
    struct request request;

    if (parse_request((PyTypeObject *)type, args, kwargs, &producer, &request) != 0)
        return NULL;
    PyObject *capsule = ask_capsule(producer, request.stream, request.type);
    if (capsule != NULL && settle(tarn__state_of((PyTypeObject *)type), &request) == 0)
        self = share((PyTypeObject *)type, capsule, &request);
    Py_XDECREF(capsule);
    if (self == NULL || !request.copies)
        return self;
    /* The end of `self` waits for the copy, which is queued on its stream. */
    copy = PyObject_CallMethod(tarn__state_of((PyTypeObject *)type)->DeviceBuffer, "copy",
                               "O", self);
    Py_DECREF(self);
    return copy;
}

static PyMethodDef methods[] = {
    {"from_dlpack", TARN__WITH_KEYWORDS(from_dlpack),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, from_dlpack_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__dlpack_import_init(PyObject *module)
{
    return tarn__state_add_methods(tarn__state_get(module)->DeviceBuffer, methods);
}
