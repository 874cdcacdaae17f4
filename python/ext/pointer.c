/* pointer.c -- tarn._tarn.Pointer: one reference to a counted pointer of a manager.
 *
 * The block is freed when the object ends, when release() is called, or when its manager
 * is reset, whichever comes first. Afterwards the object still reports its address. The
 * GIL is released meanwhile: a free may wait for the device, and the device for a
 * callback written in Python.
 */
#include "pointer.h"
#include "error.h"
#include "exception.h"
#include "gil.h"
#include "log_site.h"
#include "memory_info.h"
#include "module.h"

#include <stddef.h>

/* --- the manager's list ------------------------------------------------------------- */

static void link_to(tarn__manager_object *manager, tarn__pointer_object *self)
{
    self->older = manager->newest;
    if (self->older)
        self->older->newer = self;
    manager->newest = self;
}

static void unlink_from(tarn__manager_object *manager, tarn__pointer_object *self)
{
    if (self->newer)
        self->newer->older = self->older;
    else
        manager->newest = self->older;
    if (self->older)
        self->older->newer = self->newer;
    self->newer = self->older = NULL;
}

/* --- the end of a block ------------------------------------------------------------- */

/* Release, with a row in the log around it, if the memory was freed. Without the GIL. */
static tarn_status release_logged(tarn__manager_object *manager, tarn_pointer *pointer,
                                  struct tarn__log_call *call)
{
    tarn_site before = tarn_site_set(call->site);
    struct tarn__hook_probe hook_probe;

    call->start_ns = call->end_ns = tarn__log_call_now();
    uint64_t row = tarn__log_free_begin(call);
    tarn__memory_info_probe_begin(&hook_probe);
    tarn_status status = tarn_pointer_release_checked(pointer);
    call->end_ns = tarn__log_call_now();
    /* A block whose free failed does not count as free: the device is queried. */
    bool may_have_changed = tarn__memory_info_probe_end(&hook_probe) || status != TARN_OK;
    tarn__memory_info_update(manager, may_have_changed, call);
    tarn__log_free_end(row, call, status == TARN_OK);
    tarn_site_set(before);
    return status;
}

/* The call that the row is about. */
static struct tarn__log_call call_of(const tarn__pointer_object *self)
{
    struct tarn__log_call call = {
        .action = TARN_ACTION_FREE,
        .device = self->device,
        .address = self->address ? self->address : (uint64_t)(uintptr_t)self->host,
        .stream = (uint64_t)(uintptr_t)self->stream,
        .bytes = self->bytes,
        .of_manager = true,
        .site = tarn__log_site(true)};

    PyObject *raised = tarn__exception_take(); /* it may be the reason for the free */
    call.stack = tarn__log_site_stack(&call.site);
    tarn__exception_put(raised);
    return call;
}

static tarn_status release_with_row(const tarn__pointer_object *self,
                                    tarn_pointer *pointer)
{
    struct tarn__log_call call = call_of(self);
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = release_logged(self->manager, pointer, &call);
    Py_END_ALLOW_THREADS;
    return status;
}

static tarn_status release_plainly(tarn_pointer *pointer)
{
    tarn__gil_hold hold;

    tarn__gil_hold_begin(&hold);
    tarn_status status = tarn_pointer_release_checked(pointer);
    tarn__gil_hold_end(&hold);
    return status;
}

void tarn__pointer_release(PyTypeObject *type, tarn_pointer *pointer)
{
    TARN__CALL;
    tarn_status status = release_plainly(pointer);

    if (status != TARN_OK)
        tarn__error_raise_unraisable(tarn__state_of(type), status, (PyObject *)type);
}

bool tarn__pointer_drop_reference(tarn__pointer_object *self, tarn_status *out)
{
    tarn_pointer *pointer = self->pointer;

    if (!pointer)
        return false;
    self->pointer = NULL; /* first: another thread may come while the GIL is away */
    if (self->manager)
        unlink_from(self->manager, self);
    *out = self->logged ? release_with_row(self, pointer) : release_plainly(pointer);
    /* It is freed later. Its stream then has to stay permanently, since the driver
     * crashes on a destroyed one. Or it is memory of the owner's that is still
     * page-locked. */
    if (*out != TARN_OK && self->manager)
        Py_XINCREF(self->owner);
    return true;
}

/* The text that sys.unraisablehook shows instead of the object, which is about to end. */
static PyObject *describe_free(const tarn__pointer_object *self)
{
    void *address = self->address ? (void *)(uintptr_t)self->address : self->host;

    return PyUnicode_FromFormat("free of %zu bytes at %p of device %d, which will be "
                                "retried (tarn.deferred_frees())",
                                self->bytes, address, self->device);
}

void tarn__pointer_end(tarn__pointer_object *self)
{
    TARN__CALL;
    tarn_status status = TARN_OK;

    if (!tarn__pointer_drop_reference(self, &status) || status == TARN_OK)
        return;
    PyObject *exception = tarn__exception_take();
    PyObject *what = describe_free(self);
    if (what == NULL)
        PyErr_Clear();
    tarn__error_raise_unraisable(tarn__state_of(Py_TYPE(self)), status, what);
    Py_XDECREF(what);
    tarn__exception_put(exception);
}

/* --- the beginning ------------------------------------------------------------------ */

static tarn__pointer_object *new_object(PyTypeObject *type, tarn_pointer *pointer)
{
    tarn__pointer_object *self = (tarn__pointer_object *)type->tp_alloc(type, 0);

    if (!self) {
        tarn__pointer_release(type, pointer);
        return NULL;
    }
    self->pointer = pointer;
    self->address = tarn_pointer_address(pointer);
    self->host = tarn_pointer_host(pointer);
    self->bytes = tarn_pointer_bytes(pointer);
    self->device = tarn_pointer_device(pointer);
    self->kind = tarn_pointer_get_kind(pointer);
    return self;
}

PyObject *tarn__pointer_wrap(PyTypeObject *type, tarn__manager_object *manager,
                             tarn_pointer *pointer, tarn_stream stream, PyObject *owner)
{
    tarn__pointer_object *self = new_object(type, pointer);

    if (!self)
        return NULL;
    self->manager = (tarn__manager_object *)Py_NewRef((PyObject *)manager);
    self->owner = Py_XNewRef(owner);
    self->stream = stream;
    self->logged = manager->logging && self->bytes > 0;
    link_to(manager, self);
    return (PyObject *)self;
}

/* --- the type ----------------------------------------------------------------------- */

int tarn__pointer_traverse(tarn__pointer_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->manager);
    Py_VISIT(self->owner);
    return 0;
}

/* The owner is dropped after the block: a view's base, or the array that was page-locked.
 */
int tarn__pointer_clear(tarn__pointer_object *self)
{
    bool is_view = !self->manager && self->owner;

    tarn__pointer_end(self);
    if (is_view)
        ((tarn__pointer_object *)self->owner)->views--;
    Py_CLEAR(self->owner);
    Py_CLEAR(self->manager);
    return 0;
}

static void pointer_dealloc(tarn__pointer_object *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    tarn__pointer_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

PyDoc_STRVAR(release_doc,
             "release($self)\n--\n\n"
             "Free the block now; return False if it was freed before.\n\n"
             "Raises BufferError while views of it are alive, and TarnError if the free\n"
             "failed. A failed free is tried again later, see tarn.deferred_frees().");

static PyObject *pointer_release(tarn__pointer_object *self, PyObject *unused)
{
    TARN__CALL;
    (void)unused;
    if (self->views > 0) {
        PyErr_Format(PyExc_BufferError, "pointer: the block has %zu live views",
                     self->views);
        return NULL;
    }
    tarn_status status = TARN_OK;
    bool was_open = tarn__pointer_drop_reference(self, &status);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    return PyBool_FromLong(was_open);
}

PyDoc_STRVAR(
    view_doc,
    "view($self, offset, bytes, /)\n--\n\n"
    "Return a Pointer to a part of the block, which keeps the block alive.\n\n"
    "Raises ValueError for a negative number or a freed block, InvalidArgumentError\n"
    "for a part that is not inside the block.");

static PyObject *pointer_view(tarn__pointer_object *self, PyObject *arguments)
{
    tarn__state *state = tarn__state_of(Py_TYPE(self));
    Py_ssize_t offset, bytes;
    tarn_pointer *view;

    if (!tarn__state_is_there(state) ||
        !PyArg_ParseTuple(arguments, "nn:view", &offset, &bytes))
        return NULL;
    if (!self->pointer || offset < 0 || bytes < 0) {
        PyErr_Format(PyExc_ValueError, "pointer: no view of %zd bytes at offset %zd: %s",
                     bytes, offset,
                     self->pointer ? "negative" : "the block is already freed");
        return NULL;
    }
    tarn_status status =
        tarn_pointer_view(self->pointer, (size_t)offset, (size_t)bytes, &view);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    self->views++; /* first: code that runs meanwhile may release this one */
    tarn__pointer_object *result = new_object((PyTypeObject *)state->Pointer, view);
    if (result)
        result->owner = Py_NewRef((PyObject *)self);
    else
        self->views--;
    return (PyObject *)result;
}

static PyObject *get_address(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(self->address);
}

static PyObject *get_host(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    if (!self->host)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(self->host);
}

static PyObject *get_bytes(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->bytes);
}

static PyObject *get_device(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->device);
}

static PyObject *get_kind(tarn__pointer_object *self, void *unused)
{
    static const char *const names[] = {"device", "mapped", "pinned", "managed"};

    (void)unused;
    return PyUnicode_FromString(names[self->kind]);
}

static PyObject *get_alive(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->pointer != NULL);
}

static PyObject *get_count(tarn__pointer_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->pointer ? tarn_pointer_use_count(self->pointer) : 0);
}

static PyGetSetDef pointer_fields[] = {
    {"address", (getter)get_address, NULL,
     "Address for the device; it stays readable after the free.", NULL},
    {"host", (getter)get_host, NULL, "Address for the host, or None.", NULL},
    {"bytes", (getter)get_bytes, NULL, "Size in bytes.", NULL},
    {"device", (getter)get_device, NULL, "Number of the device of the memory.", NULL},
    {"kind", (getter)get_kind, NULL,
     "Kind of the memory: 'device', 'mapped', 'pinned' or 'managed'.", NULL},
    {"alive", (getter)get_alive, NULL,
     "Whether this object still has its reference to the block.", NULL},
    {"count", (getter)get_count, NULL,
     "Number of references to the block; 0 after the free.", NULL},
    {0},
};

static PyMethodDef pointer_methods[] = {
    {"release", (PyCFunction)pointer_release, METH_NOARGS, release_doc},
    {"view", (PyCFunction)pointer_view, METH_VARARGS, view_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
    pointer_doc,
    "A block of memory of a Manager, or a view of one; it is freed with the object.");

static PyType_Slot pointer_slots[] = {
    {Py_tp_doc, (void *)pointer_doc},
    {Py_tp_dealloc, pointer_dealloc},
    {Py_tp_traverse, tarn__pointer_traverse},
    {Py_tp_clear, tarn__pointer_clear},
    {Py_tp_methods, pointer_methods},
    {Py_tp_getset, pointer_fields},
    {0, NULL},
};

static PyType_Spec pointer_spec = {
    .name = "tarn._tarn.Pointer",
    .basicsize = sizeof(tarn__pointer_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = pointer_slots,
};

int tarn__pointer_init(PyObject *module)
{
    return tarn__state_add_type(module, &pointer_spec, NULL,
                                &tarn__state_get(module)->Pointer);
}
