/* ipc.c -- tarn._tarn.IpcMemory, and the functions of tarn/ipc.h: memory of another
 * process, or memory of this one that others may open.
 *
 * An IpcMemory holds one reference to a counted pointer. Its end may wait for the device,
 * and the end of leased memory comes on the server's thread. So the owner may be released
 * from any thread; that takes the GIL while an interpreter exists.
 */
#include "arguments.h"
#include "error.h"
#include "gil.h"
#include "module.h"
#include "pointer.h"

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

PyDoc_STRVAR(
    ipc_hold_doc,
    "ipc_hold(address, bytes, device, owner, /)\n--\n\n"
    "Return existing device memory as an IpcMemory.\n\n"
    "The owner of the memory is kept alive until close() and the end of the last\n"
    "lease.");

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
    tarn_status status = tarn_pointer_create(&options, &pointer);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_INCREF(owner);
    return wrap(state, pointer);
}

/* The pointer of a Pointer or an IpcMemory; NULL with an exception set. Borrowed. */
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
    return pointer;
}

PyDoc_STRVAR(ipc_retain_doc,
             "ipc_retain(pointer, /)\n--\n\n"
             "Return an IpcMemory with another reference to the block of a Pointer.\n\n"
             "Raises ValueError for a freed block.");

static PyObject *ipc_retain(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_pointer *pointer = pointer_of(state, object);

    return pointer ? wrap(state, tarn_pointer_retain(pointer)) : NULL;
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
    tarn_pointer_retain(pointer); /* another thread may release it */
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_ipc_export(pointer, served ? TARN_IPC_SERVED : TARN_IPC_PLAIN, &handle);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    release((PyTypeObject *)state->IpcMemory, pointer);
    if (status != TARN_OK)
        return NULL;
    return Py_BuildValue(
        "(y#KKiy#)", (char *)handle.reserved, (Py_ssize_t)sizeof handle.reserved,
        (unsigned long long)handle.bytes, (unsigned long long)handle.offset,
        handle.device, (char *)handle.uuid, (Py_ssize_t)sizeof handle.uuid);
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
    PyObject *list = lease_list(leases, count < capacity ? count : capacity);
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
    {"ipc_open", ipc_open, METH_VARARGS, ipc_open_doc},
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
