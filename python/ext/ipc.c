/* ipc.c -- tarn._tarn.IpcMemory, and the functions of tarn/ipc.h: memory of another
 * process, or memory of this one that others may open.
 *
 * An IpcMemory holds one reference to a counted pointer. Its end may wait for the device,
 * and the end of leased memory comes on the server's thread. So the owner may be released
 * from any thread; that takes the GIL while an interpreter exists.
 */
#include "arguments.h"
#include "buffer.h"
#include "error.h"
#include "gil.h"
#include "module.h"
#include "pointer.h"

#include <stdlib.h>

typedef struct ipc_memory {
    PyObject_HEAD tarn_pointer *pointer; /* one reference; NULL once it is closed */
    tarn_device_ptr address;             /* may be read after close(), too */
    size_t bytes;
    int device;
} ipc_memory;

/* --- the type --- */

/* Release one reference, without the GIL. A failure goes to sys.unraisablehook, with
 * `type` as its place; Tarn retries later. The current exception stays set. */
static void release(PyTypeObject *type, tarn_pointer *pointer)
{
    TARN__CALL;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pointer_release_checked(pointer);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise_unraisable(tarn__state_of(type), status, (PyObject *)type);
}

static bool close_memory(ipc_memory *self)
{
    tarn_pointer *pointer = self->pointer;

    if (!pointer)
        return false;
    self->pointer = NULL; /* first: another thread may come while the GIL is away */
    release(Py_TYPE(self), pointer);
    return true;
}

static void memory_dealloc(ipc_memory *self)
{
    PyTypeObject *type = Py_TYPE(self);

    close_memory(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    close_doc,
    "close($self)\n--\n\n"
    "Release the memory.\n\n"
    "The call may wait for the device. Raises ValueError if it is released already.");

static PyObject *memory_close(ipc_memory *self, PyObject *unused)
{
    (void)unused;
    if (!close_memory(self)) {
        PyErr_SetString(PyExc_ValueError, "ipc: this memory is not open");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *get_address(ipc_memory *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(self->address);
}

static PyObject *get_bytes(ipc_memory *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->bytes);
}

static PyObject *get_device(ipc_memory *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->device);
}

static PyObject *get_closed(ipc_memory *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->pointer == NULL);
}

static PyGetSetDef memory_fields[] = {
    {"address", (getter)get_address, NULL,
     "Address for the device; it stays readable after close().", NULL},
    {"bytes", (getter)get_bytes, NULL, "Size in bytes.", NULL},
    {"device", (getter)get_device, NULL, "Number of the device that uses the memory.",
     NULL},
    {"closed", (getter)get_closed, NULL, "Whether close() was called.", NULL},
    {0},
};

static PyMethodDef memory_methods[] = {
    {"close", (PyCFunction)memory_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(memory_doc, "Memory of another process that is open here, or memory of this "
                         "one that others may open.");

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (void *)memory_doc},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_fields},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "tarn._tarn.IpcMemory",
    .basicsize = sizeof(ipc_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

/* Takes over the reference, also on failure. */
static PyObject *wrap(tarn__state *state, tarn_pointer *pointer)
{
    PyTypeObject *type = (PyTypeObject *)state->IpcMemory;
    ipc_memory *self = (ipc_memory *)type->tp_alloc(type, 0);

    if (!self) {
        release(type, pointer);
        return NULL;
    }
    self->pointer = pointer;
    self->address = tarn_pointer_address(pointer);
    self->bytes = tarn_pointer_bytes(pointer);
    self->device = tarn_pointer_device(pointer);
    return (PyObject *)self;
}

/* --- memory of this process --- */

/* Called from any thread, also the server's. Once Python ends, its objects stay as they
 * are. */
static void release_owner(void *owner)
{
    struct tarn__gil_stay stay;

    if (!tarn__gil_enter(&stay))
        return;
    Py_DECREF((PyObject *)owner);
    tarn__gil_leave(&stay, TARN_OK);
}

static void release_buffer(void *kept)
{
    tarn__buffer_let_go(kept);
    free(kept);
}

/* Let the pointer of `options` keep the buffer's present block. False with an exception
 * set: no memory. */
static bool hold_buffer(tarn__buffer *buffer, tarn_pointer_options *options)
{
    struct tarn__kept_buffer *kept = malloc(sizeof *kept);

    if (!kept) {
        PyErr_NoMemory();
        return false;
    }
    tarn__buffer_keep(buffer, false, kept);
    /* Another thread may have moved the buffer since the caller read its address. */
    options->address = tarn__buffer_address(buffer);
    options->bytes = buffer->bytes;
    options->owner = kept;
    options->owner_release = release_buffer;
    return true;
}

PyDoc_STRVAR(
    ipc_hold_doc,
    "ipc_hold(address, bytes, device, owner, /)\n--\n\n"
    "Return existing device memory as an IpcMemory.\n\n"
    "The owner of the memory is kept alive until close() and the end of the last\n"
    "lease. Of a DeviceBuffer its present block is kept, even if the buffer grows.");

static PyObject *ipc_hold(PyObject *module, PyObject *arguments)
{
    tarn__state *state = tarn__state_get(module);
    tarn_pointer_options options = {.size = sizeof options,
                                    .owner_release = release_owner};
    PyObject *address, *bytes, *owner;
    tarn_pointer *pointer;
    size_t number;

    if (!PyArg_ParseTuple(arguments, "OOiO:ipc_hold", &address, &bytes, &options.device,
                          &owner) ||
        tarn__arguments_size(address, &number) != 0 ||
        tarn__arguments_size(bytes, &options.bytes) != 0)
        return NULL;
    options.address = number;
    options.owner = owner;
    if (!PyObject_TypeCheck(owner, (PyTypeObject *)state->DeviceBuffer))
        Py_INCREF(owner);
    else if (!hold_buffer((tarn__buffer *)owner, &options))
        return NULL;
    tarn_status status = tarn_pointer_create(&options, &pointer);
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        options.owner_release(options.owner);
        return NULL;
    }
    return wrap(state, pointer);
}

/* The pointer of a Pointer or an IpcMemory, with a reference: another thread may release the
 * object's. NULL with an exception set. */
static tarn_pointer *pointer_of(tarn__state *state, PyObject *object)
{
    tarn_pointer *pointer;

    if (PyObject_TypeCheck(object, (PyTypeObject *)state->IpcMemory))
        pointer = ((ipc_memory *)object)->pointer;
    else if (PyObject_TypeCheck(object, (PyTypeObject *)state->Pointer))
        pointer = ((tarn__pointer_object *)object)->pointer;
    else {
        PyErr_Format(PyExc_TypeError, "ipc: expected a Pointer or an IpcMemory, not %s",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    if (!pointer)
        PyErr_SetString(PyExc_ValueError, "ipc: the memory is already freed");
    return tarn_pointer_retain(pointer);
}

/* End a call on a pointer of pointer_of(). False with an exception set: it failed. */
static bool end_call(tarn__state *state, tarn_pointer *pointer, tarn_status status)
{
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    release((PyTypeObject *)state->IpcMemory, pointer);
    return status == TARN_OK;
}

PyDoc_STRVAR(ipc_retain_doc,
             "ipc_retain(pointer, /)\n--\n\n"
             "Return an IpcMemory with another reference to the block of a Pointer.\n\n"
             "Raises ValueError for a freed block.");

static PyObject *ipc_retain(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_pointer *pointer = pointer_of(state, object);

    return pointer ? wrap(state, pointer) : NULL;
}

PyDoc_STRVAR(
    ipc_export_doc,
    "ipc_export(memory, served, /)\n--\n\n"
    "Return (reserved, bytes, offset, device, uuid): a handle for another process.\n\n"
    "memory: a Pointer or an IpcMemory. served: the handle names the block, and a\n"
    "lease keeps that allocated. Otherwise it names memory.\n\n"
    "Raises NotSupportedError, InvalidArgumentError, TarnError, and ValueError for\n"
    "released memory.");

static PyObject *ipc_export(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_ipc_handle handle;
    PyObject *object;
    tarn_status status;
    int served;

    if (!PyArg_ParseTuple(arguments, "Op:ipc_export", &object, &served))
        return NULL;
    tarn_pointer *pointer = pointer_of(state, object);
    if (!pointer)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_ipc_export(pointer, served ? TARN_IPC_SERVED : TARN_IPC_PLAIN, &handle);
    Py_END_ALLOW_THREADS;
    if (!end_call(state, pointer, status))
        return NULL;
    return Py_BuildValue(
        "(y#KKiy#)", (char *)handle.reserved, (Py_ssize_t)sizeof handle.reserved,
        (unsigned long long)handle.bytes, (unsigned long long)handle.offset,
        handle.device, (char *)handle.uuid, (Py_ssize_t)sizeof handle.uuid);
}

PyDoc_STRVAR(
    ipc_dma_buf_doc,
    "ipc_dma_buf(memory, over_pcie, /)\n--\n\n"
    "Return (fd, offset, size): a dma-buf descriptor, which the caller closes.\n\n"
    "memory: a Pointer or an IpcMemory. over_pcie: a mapping over PCIe.\n\n"
    "Raises NotSupportedError, InvalidArgumentError, TarnError, and ValueError for\n"
    "released memory.");

static PyObject *ipc_dma_buf(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_ipc_dma_buf made;
    PyObject *object;
    tarn_status status;
    int over_pcie;

    if (!PyArg_ParseTuple(arguments, "Op:ipc_dma_buf", &object, &over_pcie))
        return NULL;
    tarn_pointer *pointer = pointer_of(state, object);
    if (!pointer)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_ipc_export_dma_buf(pointer, over_pcie, &made);
    Py_END_ALLOW_THREADS;
    if (!end_call(state, pointer, status))
        return NULL;
    return Py_BuildValue("(inn)", made.file, (Py_ssize_t)made.offset,
                         (Py_ssize_t)made.bytes);
}

/* --- memory of another process --- */

/* Parse the tuple of ipc_export(), which came from outside. 0, or -1 with an exception.
 */
static int handle_from(PyObject *tuple, tarn_ipc_handle *out)
{
    PyObject *bytes, *offset;
    const char *reserved, *uuid;
    Py_ssize_t reserved_bytes, uuid_bytes;

    if (!PyArg_ParseTuple(tuple, "y#OOiy#;a handle has five parts", &reserved,
                          &reserved_bytes, &bytes, &offset, &out->device, &uuid,
                          &uuid_bytes) ||
        tarn__arguments_size(bytes, &out->bytes) != 0 ||
        tarn__arguments_size(offset, &out->offset) != 0)
        return -1;
    if (reserved_bytes != sizeof out->reserved || uuid_bytes != sizeof out->uuid) {
        PyErr_Format(
            PyExc_ValueError,
            "ipc: the handle has parts of %zd and %zd bytes, %zu and %zu are required",
            reserved_bytes, uuid_bytes, sizeof out->reserved, sizeof out->uuid);
        return -1;
    }
    memcpy(out->reserved, reserved, sizeof out->reserved);
    memcpy(out->uuid, uuid, sizeof out->uuid);
    return 0;
}

PyDoc_STRVAR(
    ipc_open_doc,
    "ipc_open(handle, device, copy, timeout_ms, /)\n--\n\n"
    "Open a handle of ipc_export() of another process; return an IpcMemory.\n\n"
    "device: number of the device that uses the memory; -1: the device of the memory.\n"
    "copy: copy the block in any case. timeout_ms: milliseconds to wait for the\n"
    "owner's answer.\n\n"
    "Raises InvalidArgumentError, NotSupportedError, OutOfMemoryError, TarnError, and\n"
    "ValueError for a handle of the wrong length.");

static PyObject *ipc_open(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_ipc_open_options options = {.size = sizeof options};
    tarn_ipc_handle handle;
    PyObject *tuple;
    tarn_pointer *pointer;
    tarn_status status;
    int device, copy;

    if (!PyArg_ParseTuple(arguments, "O!ipI:ipc_open", &PyTuple_Type, &tuple, &device,
                          &copy, &options.timeout_ms) ||
        handle_from(tuple, &handle) != 0)
        return NULL;
    if (device < -1 || device == INT_MAX) {
        PyErr_Format(PyExc_ValueError, "ipc: device %d does not exist", device);
        return NULL;
    }
    options.device_plus_1 = device + 1;
    options.always_copy = copy != 0;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_ipc_open(&handle, &options, &pointer);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return wrap(state, pointer);
}

/* --- fabric handles --- */

PyDoc_STRVAR(
    fabric_export_doc,
    "fabric_export(memory, /)\n--\n\n"
    "Return a fabric handle of a Pointer or an IpcMemory, as bytes.\n\n"
    "Raises NotSupportedError, InvalidArgumentError, TarnError, and ValueError for\n"
    "released memory.");

static PyObject *fabric_export(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_fabric_handle handle;
    tarn_status status;
    tarn_pointer *pointer = pointer_of(state, object);

    if (!pointer)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_fabric_export(pointer, &handle);
    Py_END_ALLOW_THREADS;
    if (!end_call(state, pointer, status))
        return NULL;
    return PyBytes_FromStringAndSize((char *)handle.bytes, sizeof handle.bytes);
}

/* Copy bytes that came from outside into `out`. 0, or -1 with an exception. */
static int bytes_from(PyObject *object, const char *what, unsigned char *out,
                      size_t length)
{
    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "ipc: a %s is bytes, not %s", what,
                     Py_TYPE(object)->tp_name);
        return -1;
    }
    if ((size_t)PyBytes_GET_SIZE(object) != length) {
        PyErr_Format(PyExc_ValueError, "ipc: a %s has %zu bytes, not %zd", what, length,
                     PyBytes_GET_SIZE(object));
        return -1;
    }
    memcpy(out, PyBytes_AS_STRING(object), length);
    return 0;
}

static int handle_bytes(PyObject *object, tarn_fabric_handle *out)
{
    return bytes_from(object, "fabric handle", out->bytes, sizeof out->bytes);
}

static int message_bytes(PyObject *object, tarn_fabric_message *out)
{
    return bytes_from(object, "message", out->bytes, sizeof out->bytes);
}

static PyObject *message_or_raise(tarn__state *state, tarn_status status,
                                  const tarn_fabric_message *message)
{
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return PyBytes_FromStringAndSize((const char *)message->bytes, sizeof message->bytes);
}

PyDoc_STRVAR(fabric_begin_doc, "fabric_begin(handle, milliseconds, /)\n--\n\n"
                               "Return the request for a lease, as bytes.\n\n"
                               "Raises InvalidArgumentError, TypeError, ValueError.");

static PyObject *fabric_begin(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn_fabric_handle handle;
    tarn_fabric_message request;
    PyObject *object;
    unsigned milliseconds;

    if (!PyArg_ParseTuple(arguments, "OI:fabric_begin", &object, &milliseconds) ||
        handle_bytes(object, &handle) != 0)
        return NULL;
    return message_or_raise(tarn__state_get(module),
                            tarn_fabric_begin(&handle, milliseconds, &request), &request);
}

PyDoc_STRVAR(fabric_renew_doc, "fabric_renew(granted, milliseconds, /)\n--\n\n"
                               "Return the request to renew a lease, as bytes.\n\n"
                               "Raises InvalidArgumentError, TypeError, ValueError.");

static PyObject *fabric_renew(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn_fabric_message granted, request;
    PyObject *object;
    unsigned milliseconds;

    if (!PyArg_ParseTuple(arguments, "OI:fabric_renew", &object, &milliseconds) ||
        message_bytes(object, &granted) != 0)
        return NULL;
    return message_or_raise(tarn__state_get(module),
                            tarn_fabric_renew(&granted, milliseconds, &request),
                            &request);
}

PyDoc_STRVAR(fabric_end_doc, "fabric_end(granted, /)\n--\n\n"
                             "Return the request to end a lease, as bytes.\n\n"
                             "Raises InvalidArgumentError, TypeError, ValueError.");

static PyObject *fabric_end(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn_fabric_message granted, request;

    if (message_bytes(object, &granted) != 0)
        return NULL;
    return message_or_raise(tarn__state_get(module), tarn_fabric_end(&granted, &request),
                            &request);
}

PyDoc_STRVAR(fabric_answer_doc,
             "fabric_answer(request, /)\n--\n\n"
             "Return the reply to a request of an importer, as bytes.\n\n"
             "Raises InvalidArgumentError, TypeError, ValueError, TarnError.");

/* The end of a lease can return the block, which waits for the device. */
static PyObject *fabric_answer(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn_fabric_message request, reply;
    tarn_status status;

    if (message_bytes(object, &request) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_fabric_answer(&request, &reply);
    Py_END_ALLOW_THREADS;
    return message_or_raise(tarn__state_get(module), status, &reply);
}

PyDoc_STRVAR(fabric_check_doc,
             "fabric_check(reply, /)\n--\n\n"
             "Return the time of the lease that a reply grants, in milliseconds.\n\n"
             "It is 0 if the lease has ended. Raises TarnError if the owner rejects it,\n"
             "InvalidArgumentError, TypeError, ValueError.");

static PyObject *fabric_check(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn_fabric_message reply;
    unsigned milliseconds = 0;

    if (message_bytes(object, &reply) != 0)
        return NULL;
    tarn_status status = tarn_fabric_check(&reply, &milliseconds);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    return PyLong_FromUnsignedLong(milliseconds);
}

PyDoc_STRVAR(
    fabric_open_doc,
    "fabric_open(handle, granted, device, /)\n--\n\n"
    "Open a fabric handle of another process; return an IpcMemory.\n\n"
    "granted: the reply that granted a lease, or None. device: number of the device\n"
    "that uses the memory.\n\n"
    "Raises InvalidArgumentError, NotSupportedError, OutOfMemoryError, TarnError,\n"
    "TypeError, ValueError.");

static PyObject *fabric_open(PyObject *module, PyObject *arguments)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_fabric_handle handle;
    tarn_fabric_message granted;
    PyObject *object, *grant;
    tarn_pointer *pointer;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(arguments, "OOi:fabric_open", &object, &grant, &device) ||
        handle_bytes(object, &handle) != 0 ||
        (grant != Py_None && message_bytes(grant, &granted) != 0))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status =
        tarn_fabric_open(&handle, grant == Py_None ? NULL : &granted, device, &pointer);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return wrap(state, pointer);
}

/* --- reports --- */

static PyObject *lease_list(const tarn_ipc_lease *leases, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list && i < count; i++) {
        PyObject *one = Py_BuildValue(
            "(iKKK)", leases[i].process, (unsigned long long)leases[i].since_ns,
            leases[i].address, (unsigned long long)leases[i].bytes);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, one);
    }
    return list;
}

PyDoc_STRVAR(
    ipc_leases_doc,
    "ipc_leases()\n--\n\n"
    "Return the leases of other processes, as (process, since_ns, address, bytes).");

static PyObject *ipc_leases(PyObject *module, PyObject *unused)
{
    size_t capacity, count = 0;

    (void)module;
    (void)unused;
    tarn_ipc_leases(NULL, 0, &capacity);
    tarn_ipc_lease *leases = PyMem_Calloc(capacity + 1, sizeof *leases);
    if (!leases)
        return PyErr_NoMemory();
    tarn_ipc_leases(leases, capacity, &count);
    PyObject *list = lease_list(leases, Py_MIN(count, capacity));
    PyMem_Free(leases);
    return list;
}

PyDoc_STRVAR(ipc_counts_doc, "ipc_counts()\n--\n\n"
                             "Return the numbers of tarn_ipc_counts, by name.");

static PyObject *ipc_counts(PyObject *module, PyObject *unused)
{
    tarn_ipc_counts counts;

    (void)module;
    (void)unused;
    tarn_ipc_get_counts(&counts);
    return Py_BuildValue(
        "{s:n,s:n,s:n,s:n,s:n,s:n,s:K,s:K}", "segments", (Py_ssize_t)counts.segments,
        "served", (Py_ssize_t)counts.served, "leases", (Py_ssize_t)counts.leases,
        "connections", (Py_ssize_t)counts.connections, "mapped",
        (Py_ssize_t)counts.mapped, "descriptors", (Py_ssize_t)counts.descriptors,
        "requests", (unsigned long long)counts.requests, "rejected",
        (unsigned long long)counts.rejected);
}

static PyMethodDef functions[] = {
    {"ipc_hold", ipc_hold, METH_VARARGS, ipc_hold_doc},
    {"ipc_retain", ipc_retain, METH_O, ipc_retain_doc},
    {"ipc_export", ipc_export, METH_VARARGS, ipc_export_doc},
    {"ipc_dma_buf", ipc_dma_buf, METH_VARARGS, ipc_dma_buf_doc},
    {"ipc_open", ipc_open, METH_VARARGS, ipc_open_doc},
    {"fabric_export", fabric_export, METH_O, fabric_export_doc},
    {"fabric_begin", fabric_begin, METH_VARARGS, fabric_begin_doc},
    {"fabric_renew", fabric_renew, METH_VARARGS, fabric_renew_doc},
    {"fabric_end", fabric_end, METH_O, fabric_end_doc},
    {"fabric_answer", fabric_answer, METH_O, fabric_answer_doc},
    {"fabric_check", fabric_check, METH_O, fabric_check_doc},
    {"fabric_open", fabric_open, METH_VARARGS, fabric_open_doc},
    {"ipc_leases", ipc_leases, METH_NOARGS, ipc_leases_doc},
    {"ipc_counts", ipc_counts, METH_NOARGS, ipc_counts_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__ipc_init(PyObject *module)
{
    if (tarn__state_add_type(module, &memory_spec, NULL,
                             &tarn__state_get(module)->IpcMemory) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
