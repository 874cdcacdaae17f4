/* manager.c -- tarn._tarn.Manager: Tarn's manager for one device, as Numba calls it.
 *
 * It is the process's manager (tarn_memory_manager()), which serves from the device's
 * current resource unless TARN_MEMORY_MANAGER names another manager. Each call sets the
 * place in the user's program for the loggers beneath, and releases the GIL. It then
 * writes a row into the log of the process. It serves device, mapped, pinned and managed
 * memory.
 */
#include "manager.h"
#include "arguments.h"
#include "error.h"
#include "gil.h"
#include "log_observer.h"
#include "log_site.h"
#include "memory_info.h"
#include "module.h"
#include "pointer.h"
#include "stream.h"

#include <string.h>

static tarn__state *state_of(tarn__manager_object *self)
{
    return tarn__state_of(Py_TYPE(self));
}

/* --- allocating --------------------------------------------------------------------- */

/* One request to the manager, for any kind of memory. */
struct request {
    tarn_pointer_kind kind;
    bool pin; /* lock the memory at `host` instead of allocating */
    size_t bytes;
    tarn_stream stream;
    unsigned flags; /* of tarn_host_flags */
    bool attach_global;
    void *host;
    PyObject *owner;    /* borrowed; the Pointer will own it */
    PyTypeObject *type; /* of the object; NULL: Pointer */
};

static tarn_status perform_request(tarn_manager *manager, const struct request *request,
                                   tarn_pointer **out)
{
    if (request->pin)
        return tarn_manager_mempin(manager, request->host, request->bytes, request->flags,
                                   NULL, NULL, out);
    if (request->kind == TARN_POINTER_DEVICE)
        return tarn_manager_memalloc(manager, request->bytes, request->stream, out);
    if (request->kind == TARN_POINTER_MANAGED)
        return tarn_manager_memallocmanaged(manager, request->bytes,
                                            request->attach_global, out);
    return tarn_manager_memhostalloc(manager, request->bytes, request->flags, out);
}

/* Call the manager, and log the result. Without the GIL. */
static tarn_status perform_logged(tarn__manager_object *self,
                                  const struct request *request,
                                  struct tarn__log_call *call, tarn_pointer **out)
{
    tarn_site before = tarn_site_set(call->site);
    struct tarn__hook_probe hook_probe;

    tarn__memory_info_probe_begin(&hook_probe);
    bool served = tarn__log_observer_serve_manager(true);
    call->start_ns = tarn__log_call_now();
    tarn_status status = perform_request(self->manager, request, out);
    call->end_ns = tarn__log_call_now();
    tarn__log_observer_serve_manager(served);
    /* For other kinds than device memory no notification is guaranteed. */
    bool may_have_changed =
        tarn__memory_info_probe_end(&hook_probe) || request->kind != TARN_POINTER_DEVICE;
    if (status == TARN_OK)
        call->address = tarn_pointer_address(*out);
    else
        call->action = TARN_ACTION_ALLOCATE_FAILURE;
    if (status == TARN_OK && call->address == 0 && tarn_pointer_host(*out))
        call->address = (uint64_t)(uintptr_t)tarn_pointer_host(*out);
    tarn__memory_info_update(self, may_have_changed, call);
    tarn__log_add(call);
    tarn_site_set(before);
    return status;
}

static tarn_status allocate_logged(tarn__manager_object *self,
                                   const struct request *request, tarn_pointer **out)
{
    struct tarn__log_call call = {.action = TARN_ACTION_ALLOCATE,
                                  .device = self->device,
                                  .stream = (uint64_t)(uintptr_t)request->stream,
                                  .bytes = request->bytes,
                                  .of_manager = true,
                                  .site = tarn__log_site(false)};
    tarn_status status;

    call.stack = tarn__log_site_stack(&call.site);
    Py_BEGIN_ALLOW_THREADS;
    status = perform_logged(self, request, &call, out);
    Py_END_ALLOW_THREADS;
    return status;
}

/* Device memory is mostly available immediately. */
static tarn_status perform_holding_gil(tarn_manager *manager,
                                       const struct request *request, tarn_pointer **out)
{
    tarn__gil_hold hold;

    tarn__gil_hold_begin(&hold);
    tarn_status status =
        tarn_manager_memalloc(manager, request->bytes, request->stream, out);
    tarn__gil_hold_end(&hold);
    return status;
}

static tarn_status perform_without_gil(tarn_manager *manager,
                                       const struct request *request, tarn_pointer **out)
{
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = perform_request(manager, request, out);
    Py_END_ALLOW_THREADS;
    return status;
}

static PyObject *allocate(tarn__manager_object *self, const struct request *request)
{
    TARN__CALL;
    tarn__state *state = state_of(self);
    tarn_pointer *pointer;
    tarn_status status;

    if (!tarn__state_is_there(state))
        return NULL;
    if (self->logging && request->bytes > 0)
        status = allocate_logged(self, request, &pointer);
    else if (request->kind == TARN_POINTER_DEVICE)
        status = perform_holding_gil(self->manager, request, &pointer);
    else
        status = perform_without_gil(self->manager, request, &pointer);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    PyTypeObject *type = request->type ? request->type : (PyTypeObject *)state->Pointer;
    return tarn__pointer_wrap(type, self, pointer, request->stream, request->owner);
}

PyObject *tarn__manager_memalloc(tarn__manager_object *self, PyTypeObject *type,
                                 size_t bytes, PyObject *stream)
{
    struct request request = {.kind = TARN_POINTER_DEVICE,
                              .bytes = bytes,
                              .stream = self->stream,
                              .owner = stream, /* the block is freed on it */
                              .type = type};

    if (stream && tarn__stream_from(state_of(self), stream, &request.stream) != 0)
        return NULL;
    return allocate(self, &request);
}

PyDoc_STRVAR(
    memalloc_doc,
    "memalloc($self, bytes, stream=None, /)\n--\n\n"
    "Allocate device memory from the device's current resource.\n\n"
    "Without a stream no work of any stream is pending behind the memory, unless\n"
    "single_stream is set. With a stream the block is allocated and freed in its\n"
    "order, and keeps the stream object alive.\n\n"
    "Returns a Pointer. Raises OutOfMemoryError, or TarnError if a driver call fails.");

static PyObject *manager_memalloc(tarn__manager_object *self, PyObject *const *arguments,
                                  Py_ssize_t count)
{
    size_t bytes;

    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "memalloc(bytes, stream=None)");
        return NULL;
    }
    if (tarn__arguments_size(arguments[0], &bytes) != 0)
        return NULL;
    bool on_stream = count == 2 && arguments[1] != Py_None;
    return tarn__manager_memalloc(self, NULL, bytes, on_stream ? arguments[1] : NULL);
}

PyDoc_STRVAR(
    memhostalloc_doc,
    "memhostalloc($self, bytes, mapped=False, portable=False, wc=False)\n--\n\n"
    "Allocate page-locked host memory.\n\n"
    "mapped: also map it into the device. portable: page-locked for all contexts. wc:\n"
    "write-combined. Returns a Pointer. Raises OutOfMemoryError, or TarnError if a\n"
    "driver call fails.");

static PyObject *manager_memhostalloc(tarn__manager_object *self, PyObject *arguments,
                                      PyObject *keywords)
{
    static char *names[] = {"bytes", "mapped", "portable", "wc", NULL};
    int mapped = 0, portable = 0, write_combined = 0;
    PyObject *bytes;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|ppp:memhostalloc", names,
                                     &bytes, &mapped, &portable, &write_combined))
        return NULL;
    struct request request = {.kind = mapped ? TARN_POINTER_MAPPED : TARN_POINTER_PINNED,
                              .stream = TARN_STREAM_NONE,
                              .flags = (mapped ? TARN_HOST_MAPPED : 0u) |
                                       (portable ? TARN_HOST_PORTABLE : 0u) |
                                       (write_combined ? TARN_HOST_WRITE_COMBINED : 0u)};
    return tarn__arguments_size(bytes, &request.bytes) == 0 ? allocate(self, &request)
                                                            : NULL;
}

PyDoc_STRVAR(
    mempin_doc,
    "mempin($self, owner, address, bytes, mapped=False)\n--\n\n"
    "Page-lock existing host memory.\n\n"
    "`owner` is kept alive until the memory is unlocked. mapped: also map it into the\n"
    "device. Returns a Pointer. Raises TarnError if the driver cannot lock it.");

static PyObject *manager_mempin(tarn__manager_object *self, PyObject *arguments,
                                PyObject *keywords)
{
    static char *names[] = {"owner", "address", "bytes", "mapped", NULL};
    PyObject *owner, *address, *bytes;
    int mapped = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|p:mempin", names, &owner,
                                     &address, &bytes, &mapped))
        return NULL;
    struct request request = {.kind = mapped ? TARN_POINTER_MAPPED : TARN_POINTER_PINNED,
                              .pin = true,
                              .stream = TARN_STREAM_NONE,
                              .flags = mapped ? TARN_HOST_MAPPED : 0u,
                              .host = PyLong_AsVoidPtr(address),
                              .owner = owner};
    if (PyErr_Occurred() || tarn__arguments_size(bytes, &request.bytes) != 0)
        return NULL;
    return allocate(self, &request);
}

PyDoc_STRVAR(memallocmanaged_doc,
             "memallocmanaged($self, bytes, attach_global=True)\n--\n\n"
             "Allocate managed memory, which host and device can use.\n\n"
             "attach_global: as in cuMemAllocManaged. Returns a Pointer. Raises\n"
             "OutOfMemoryError, NotSupportedError, or TarnError if a driver call fails.");

static PyObject *manager_memallocmanaged(tarn__manager_object *self, PyObject *arguments,
                                         PyObject *keywords)
{
    static char *names[] = {"bytes", "attach_global", NULL};
    int attach_global = 1;
    PyObject *bytes;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|p:memallocmanaged", names,
                                     &bytes, &attach_global))
        return NULL;
    struct request request = {.kind = TARN_POINTER_MANAGED,
                              .stream = TARN_STREAM_NONE,
                              .attach_global = attach_global != 0};
    return tarn__arguments_size(bytes, &request.bytes) == 0 ? allocate(self, &request)
                                                            : NULL;
}

/* --- the other operations ----------------------------------------------------------- */

PyDoc_STRVAR(
    get_ipc_handle_doc,
    "get_ipc_handle($self, pointer, /)\n--\n\n"
    "Return (handle, bytes, offset) for another process.\n\n"
    "handle: 64 bytes that name an allocation. bytes: size of the block. offset:\n"
    "offset of the block in the allocation, in bytes.\n\n"
    "Raises NotSupportedError for memory without handles, ValueError for a freed\n"
    "block.");

static PyObject *manager_get_ipc_handle(tarn__manager_object *self, PyObject *argument)
{
    TARN__CALL;
    tarn__state *state = state_of(self);
    tarn_ipc_handle handle;
    tarn_status status;

    if (!tarn__state_is_there(state))
        return NULL;
    if (!PyObject_TypeCheck(argument, (PyTypeObject *)state->Pointer)) {
        PyErr_Format(PyExc_TypeError, "get_ipc_handle() takes a Pointer, not %s",
                     Py_TYPE(argument)->tp_name);
        return NULL;
    }
    tarn_pointer *pointer = ((tarn__pointer_object *)argument)->pointer;
    if (!pointer) {
        PyErr_SetString(PyExc_ValueError, "get_ipc_handle(): the block is already freed");
        return NULL;
    }
    tarn_pointer_retain(pointer); /* another thread may release it */
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_manager_get_ipc_handle(self->manager, pointer, &handle);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    tarn__pointer_release((PyTypeObject *)state->Pointer, pointer);
    if (status != TARN_OK)
        return NULL;
    return Py_BuildValue(
        "(y#KK)", (char *)handle.reserved, (Py_ssize_t)sizeof handle.reserved,
        (unsigned long long)handle.bytes, (unsigned long long)handle.offset);
}

PyDoc_STRVAR(
    get_memory_info_doc,
    "get_memory_info($self)\n--\n\n"
    "Return (free, total) in bytes.\n\n"
    "They come from the current resource. If that reports none, they come from the\n"
    "driver.");

static PyObject *manager_get_memory_info(tarn__manager_object *self, PyObject *unused)
{
    TARN__CALL;
    size_t free_bytes, total_bytes;
    tarn_status status;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_manager_get_memory_info(self->manager, &free_bytes, &total_bytes);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state_of(self), status);
    return Py_BuildValue("(KK)", (unsigned long long)free_bytes,
                         (unsigned long long)total_bytes);
}

/* Call an operation without arguments and results. */
static PyObject *plain(tarn__manager_object *self, tarn_status (*call)(tarn_manager *))
{
    TARN__CALL;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = call(self->manager);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state_of(self), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(initialize_doc,
             "initialize($self)\n--\n\n"
             "Prepare the manager for use; repeated calls have no effect.");

static PyObject *manager_initialize(tarn__manager_object *self, PyObject *unused)
{
    (void)unused;
    return plain(self, tarn_manager_initialize);
}

PyDoc_STRVAR(
    reset_doc,
    "reset($self)\n--\n\n"
    "Free all blocks but pinned ones.\n\n"
    "Pinned blocks are ordinary memory for the host, where an access to freed memory\n"
    "ends the process. The call may come before initialize(), and with no context\n"
    "current.");

/* The newest block that reset() frees. It is searched anew each time: during a free the
 * GIL is released and the list may change. */
static tarn__pointer_object *next_to_reset(tarn__manager_object *self)
{
    tarn__pointer_object *pointer = self->newest;
    while (pointer && pointer->kind == TARN_POINTER_PINNED)
        pointer = pointer->older;
    return pointer;
}

static PyObject *manager_reset(tarn__manager_object *self, PyObject *unused)
{
    tarn__pointer_object *pointer;

    (void)unused;
    while ((pointer = next_to_reset(self)) != NULL) {
        Py_INCREF(pointer);
        tarn__pointer_end(pointer);
        Py_DECREF(pointer);
    }
    return plain(self, tarn_manager_reset);
}

PyDoc_STRVAR(defer_begin_doc, "defer_cleanup_begin($self)\n--\n\n"
                              "Defer expensive cleanup from now on; it nests.");

static PyObject *manager_defer_begin(tarn__manager_object *self, PyObject *unused)
{
    (void)unused;
    return plain(self, tarn_manager_defer_cleanup_begin);
}

PyDoc_STRVAR(defer_end_doc,
             "defer_cleanup_end($self)\n--\n\n"
             "End deferred cleanup; the last end does the cleanup that waited.");

static PyObject *manager_defer_end(tarn__manager_object *self, PyObject *unused)
{
    (void)unused;
    return plain(self, tarn_manager_defer_cleanup_end);
}

/* --- the type ----------------------------------------------------------------------- */

static PyObject *manager_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    TARN__CALL;
    static char *names[] = {"device", "logging", NULL};
    int device = 0, logging = 1;
    tarn_manager *manager;
    tarn_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "i|p:Manager", names, &device,
                                     &logging))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_memory_manager(device, &manager);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(type), status);
    tarn__manager_object *self = (tarn__manager_object *)type->tp_alloc(type, 0);
    if (!self) {
        tarn_manager_release(manager);
        return NULL;
    }
    self->manager = manager;
    self->device = device;
    self->logging = logging != 0;
    self->stream = TARN_STREAM_NONE;
    return (PyObject *)self;
}

static void manager_dealloc(tarn__manager_object *self)
{
    TARN__CALL;
    PyTypeObject *type = Py_TYPE(self);
    tarn_manager *manager = self->manager;

    Py_BEGIN_ALLOW_THREADS;
    tarn_manager_release(manager);
    Py_END_ALLOW_THREADS;
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *get_device(tarn__manager_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->device);
}

static PyObject *get_name(tarn__manager_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tarn_manager_name(self->manager));
}

static PyObject *get_live(tarn__manager_object *self, void *unused)
{
    size_t count = 0;

    (void)unused;
    for (tarn__pointer_object *at = self->newest; at; at = at->older)
        count += at->bytes > 0;
    return PyLong_FromSize_t(count);
}

static PyObject *get_logging(tarn__manager_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->logging);
}

static int set_logging(tarn__manager_object *self, PyObject *value, void *unused)
{
    (void)unused;
    int logging = value ? PyObject_IsTrue(value) : -1;
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "logging cannot be deleted");
    if (logging < 0)
        return -1;
    self->logging = logging != 0;
    return 0;
}

static PyObject *get_one_stream(tarn__manager_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->stream != TARN_STREAM_NONE);
}

static int set_one_stream(tarn__manager_object *self, PyObject *value, void *unused)
{
    (void)unused;
    int one = value ? PyObject_IsTrue(value) : -1;
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "single_stream cannot be deleted");
    if (one < 0)
        return -1;
    self->stream = one ? TARN_STREAM_DEFAULT : TARN_STREAM_NONE;
    return 0;
}

static PyGetSetDef manager_fields[] = {
    {"device", (getter)get_device, NULL, "Number of the device.", NULL},
    {"name", (getter)get_name, NULL, "Name of the C manager.", NULL},
    {"live", (getter)get_live, NULL, "Number of live blocks that are not empty.", NULL},
    {"logging", (getter)get_logging, (setter)set_logging,
     "Whether new blocks are written to the log; can be set.", NULL},
    {"single_stream", (getter)get_one_stream, (setter)set_one_stream,
     "Whether new blocks are allocated and freed on the default stream; can be set.",
     NULL},
    {0},
};

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function
static PyMethodDef manager_methods[] = {
    {"memalloc", WITH_KEYWORDS(manager_memalloc), METH_FASTCALL, memalloc_doc},
    {"memhostalloc", WITH_KEYWORDS(manager_memhostalloc), METH_VARARGS | METH_KEYWORDS,
     memhostalloc_doc},
    {"mempin", WITH_KEYWORDS(manager_mempin), METH_VARARGS | METH_KEYWORDS, mempin_doc},
    {"memallocmanaged", WITH_KEYWORDS(manager_memallocmanaged),
     METH_VARARGS | METH_KEYWORDS, memallocmanaged_doc},
    {"get_ipc_handle", (PyCFunction)manager_get_ipc_handle, METH_O, get_ipc_handle_doc},
    {"get_memory_info", (PyCFunction)manager_get_memory_info, METH_NOARGS,
     get_memory_info_doc},
    {"initialize", (PyCFunction)manager_initialize, METH_NOARGS, initialize_doc},
    {"reset", (PyCFunction)manager_reset, METH_NOARGS, reset_doc},
    {"defer_cleanup_begin", (PyCFunction)manager_defer_begin, METH_NOARGS,
     defer_begin_doc},
    {"defer_cleanup_end", (PyCFunction)manager_defer_end, METH_NOARGS, defer_end_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
    manager_doc,
    "Manager(device, logging=True)\n--\n\n"
    "Tarn's memory manager for one device, from which tarn.numba serves Numba.\n\n"
    "device: number of the device. logging: write blocks to the log.\n\n"
    "Raises InvalidArgumentError if there is no such device, and NoDriverError.");

static PyType_Slot manager_slots[] = {
    {Py_tp_doc, (void *)manager_doc}, {Py_tp_new, manager_new},
    {Py_tp_dealloc, manager_dealloc}, {Py_tp_methods, manager_methods},
    {Py_tp_getset, manager_fields},   {0, NULL},
};

static PyType_Spec manager_spec = {
    .name = "tarn._tarn.Manager",
    .basicsize = sizeof(tarn__manager_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = manager_slots,
};

int tarn__manager_init(PyObject *module)
{
    return tarn__state_add_type(module, &manager_spec, NULL,
                                &tarn__state_get(module)->Manager);
}
