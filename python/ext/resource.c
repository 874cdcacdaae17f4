/* resource.c -- the base classes of tarn.mr: DeviceMemoryResource,
 * UpstreamResourceAdaptor.
 *
 * An object holds a C resource, `native`, and allocate() and deallocate() call that. The
 * classes in tarn/mr.py differ in how they create theirs (maker.c). A class that defines
 * these two methods itself is a resource written in Python, whatever it derives from. C
 * code then calls the methods (bridge.c), and the methods may call super()'s.
 */
#include "resource.h"
#include "arguments.h"
#include "bridge.h"
#include "error.h"
#include "gil.h"
#include "module.h"
#include "stream.h"

/* --- a resource for C code, an object for a resource --- */

/* Does `type` define allocate() or deallocate() itself? -1 with an exception set. */
static int is_written_in_python(tarn__state *state, PyTypeObject *type)
{
    /* No second look-up after a failed one: it would clear the exception. */
    PyObject *allocate = PyObject_GetAttrString((PyObject *)type, "allocate");
    PyObject *deallocate =
        allocate != NULL ? PyObject_GetAttrString((PyObject *)type, "deallocate") : NULL;
    int result = -1;

    if (allocate != NULL && deallocate != NULL)
        result = allocate != state->base_allocate || deallocate != state->base_deallocate;
    Py_XDECREF(allocate);
    Py_XDECREF(deallocate);
    return result;
}

/* The same of an object. Looking two methods up costs more than an allocation, so the
 * type's version is remembered: it changes, or becomes 0, when the class or one of its
 * bases is changed. */
static int object_is_written_in_python(tarn__state *state, tarn__resource_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    unsigned version = type->tp_version_tag;

    if (version != 0 && self->plain_version == version)
        return 0;
    int written = is_written_in_python(state, type);
    self->plain_version = written == 0 ? type->tp_version_tag : 0;
    return written;
}

/* `*device` below 0 becomes the current device. */
static tarn_status find_device(int *device)
{
    tarn_driver_info driver;

    if (*device < 0)
        return tarn_driver_current_device(device);
    tarn_status status = tarn_driver_get_info(&driver);
    if (status == TARN_OK && *device >= driver.device_count)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "device: device %d does not exist, the driver has %d",
                              *device, driver.device_count);
    return status;
}

/* The device of an object without a native resource is set at its first use. */
static int settle_device(tarn__state *state, tarn__resource_object *self, int device)
{
    if (self->native != NULL) {
        self->device = tarn_resource_device(self->native);
        return 0;
    }
    if (self->device >= 0)
        return 0;
    tarn_status status = find_device(&device);
    if (status != TARN_OK) {
        tarn__error_raise(state, status);
        return -1;
    }
    self->device = device;
    return 0;
}

/* These messages name the class: repr() of an object without its __init__ may fail. */
static void raise_no_memory(PyObject *object)
{
    PyErr_Format(PyExc_TypeError,
                 "an object of %.200s cannot allocate memory: its class neither defines "
                 "allocate() and deallocate() nor called super().__init__()",
                 Py_TYPE(object)->tp_name);
}

/* Return true for a resource of RMM, if the program has imported RMM. No exception stays
 * set. */
static bool is_of_rmm(PyObject *object)
{
    PyObject *name = PyUnicode_FromString("rmm.mr");
    PyObject *module = name != NULL ? PyImport_GetModule(name) : NULL;
    PyObject *base =
        module != NULL ? PyObject_GetAttrString(module, "DeviceMemoryResource") : NULL;
    bool result = base != NULL && PyObject_IsInstance(object, base) == 1;

    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(base);
    PyErr_Clear();
    return result;
}

void tarn__resource_reject(PyObject *object)
{
    const char *hint =
        is_of_rmm(object) ? "; tarn.mr.from_rmm() converts a resource of RMM" : "";

    PyErr_Format(PyExc_TypeError, "%R is not a tarn.mr.DeviceMemoryResource%s", object,
                 hint);
}

tarn__resource_object *tarn__resource_arg(tarn__state *state, PyObject *object)
{
    if (PyObject_TypeCheck(object, (PyTypeObject *)state->DeviceMemoryResource))
        return (tarn__resource_object *)object;
    tarn__resource_reject(object);
    return NULL;
}

tarn_resource *tarn__resource_native(tarn__state *state, PyObject *object)
{
    tarn__resource_object *self = tarn__resource_arg(state, object);

    if (self != NULL && self->native == NULL)
        PyErr_Format(PyExc_TypeError, "an object of %.200s is not initialised",
                     Py_TYPE(object)->tp_name);
    return self != NULL ? self->native : NULL;
}

PyObject *tarn__resource_bytes(PyObject *module, PyObject *object,
                               tarn_status (*read)(tarn_resource *, size_t *))
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *native = tarn__resource_native(state, object);
    size_t bytes;

    if (native == NULL)
        return NULL;
    tarn_status status = read(native, &bytes);
    return status == TARN_OK ? PyLong_FromSize_t(bytes)
                             : tarn__error_raise(state, status);
}

tarn_resource *tarn__resource_from(tarn__state *state, PyObject *object, int device)
{
    if (!tarn__state_is_there(state))
        return NULL;
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self == NULL)
        return NULL;
    int written = object_is_written_in_python(state, self);
    if (written < 0)
        return NULL;
    if (!written && self->native == NULL) {
        raise_no_memory(object);
        return NULL;
    }
    if (!written)
        return tarn_resource_retain(self->native);
    if (settle_device(state, self, device) != 0)
        return NULL;
    return tarn__bridge_create(state, object, self->device);
}

void tarn__resource_release(tarn__state *state, tarn_resource *resource, PyObject *object)
{
    TARN__CALL;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_resource_release(resource);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise_unraisable(state, status, object);
}

void tarn__resource_drop(tarn__state *state, tarn_resource *resource, PyObject *object)
{
    if (resource == NULL)
        return;
    if (((tarn__resource_object *)object)->native == resource)
        tarn_resource_release(resource);
    else
        tarn__resource_release(state, resource, object);
}

/* The class that fits a C resource. New reference. */
static PyTypeObject *class_of(tarn__state *state, tarn_resource *resource)
{
    PyObject *type =
        PyDict_GetItemString(state->resource_types, tarn_resource_name(resource));
    PyObject *base = state->DeviceMemoryResource;
    tarn_resource *upstream = NULL;

    /* Python code can put any object there. */
    if (type != NULL && PyType_Check(type) &&
        PyType_IsSubtype((PyTypeObject *)type, (PyTypeObject *)base))
        return (PyTypeObject *)Py_NewRef(type);
    if (tarn_adaptor_upstream(resource, &upstream) == TARN_OK)
        base = state->UpstreamResourceAdaptor;
    tarn_resource_release(upstream);
    return (PyTypeObject *)Py_NewRef(base);
}

PyObject *tarn__resource_wrap(tarn__state *state, tarn_resource *resource)
{
    PyObject *object = tarn__bridge_object(resource);
    if (object != NULL) {
        Py_INCREF(object);
        tarn__resource_release(state, resource, object);
        return object;
    }
    tarn__resource_object *self = NULL;
    if (tarn__state_is_there(state)) {
        PyTypeObject *type = class_of(state, resource);
        self = (tarn__resource_object *)type->tp_alloc(type, 0);
        Py_DECREF(type);
    }
    if (self == NULL) {
        tarn__resource_release(state, resource, NULL);
        return NULL;
    }
    self->native = resource;
    self->device = tarn_resource_device(resource);
    return (PyObject *)self;
}

int tarn__resource_check_new(const tarn__resource_object *self)
{
    if (self->native == NULL)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a resource can be initialised only once");
    return -1;
}

int tarn__resource_adopt(tarn__state *state, tarn__resource_object *self,
                         tarn_resource *native, PyObject *upstream)
{
    if (self->native != NULL) {
        tarn__resource_release(state, native, (PyObject *)self);
        return tarn__resource_check_new(self);
    }
    self->native = native;
    self->upstream = Py_XNewRef(upstream);
    return 0;
}

/* --- DeviceMemoryResource --- */

static PyObject *resource_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                              PyObject *Py_UNUSED(kwargs))
{
    tarn__resource_object *self = (tarn__resource_object *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->device = -1;
    return (PyObject *)self;
}

PyDoc_STRVAR(
    allocate_doc,
    "allocate($self, nbytes, stream=0)\n--\n\n"
    "Allocate at least `nbytes` bytes, aligned to 256.\n\n"
    "The block is ready for work that is queued on `stream` from now on. The caller\n"
    "frees it with deallocate(). Returns the address, an int; 0 for 0 bytes.\n\n"
    "Raises OutOfMemoryError, NoDriverError, and the exception of a resource in Python.\n"
    "Raises TypeError if `stream` is None, and OverflowError if the size is negative or\n"
    "too large.");

static PyObject *resource_allocate(PyObject *object, PyObject *const *args,
                                   Py_ssize_t count, PyObject *names)
{
    static const struct tarn__signature signature = {
        "O|O:allocate", {"nbytes", "stream"}, .required = 1};
    TARN__CALL;
    tarn__resource_object *self = (tarn__resource_object *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *given[3];
    tarn_stream stream;
    tarn_device_ptr block = 0;
    tarn__gil_hold hold;
    size_t bytes;

    if (tarn__arguments(&signature, args, count, names, given) != 0 ||
        tarn__arguments_size(given[0], &bytes) != 0 ||
        tarn__stream_from(state, given[1], &stream) != 0)
        return NULL;
    if (self->native == NULL) {
        raise_no_memory(object);
        return NULL;
    }
    tarn__gil_hold_begin(&hold);
    tarn_status status = tarn_resource_allocate(self->native, bytes, 0, stream, &block);
    tarn__gil_hold_end(&hold);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return PyLong_FromUnsignedLongLong(block);
}

PyDoc_STRVAR(
    deallocate_doc,
    "deallocate($self, ptr, nbytes, stream=0)\n--\n\n"
    "Free a block of this resource, in the order of `stream`.\n\n"
    "nbytes: the bytes of its allocation. All work on the block has to be queued on\n"
    "`stream`, or ordered before it. The memory may be reused at once on that stream.\n\n"
    "Raises InvalidArgumentError for an unknown address, a second free or a wrong\n"
    "size, if the resource can detect it. Then nothing has changed.");

static PyObject *resource_deallocate(PyObject *object, PyObject *const *args,
                                     Py_ssize_t count, PyObject *names)
{
    static const struct tarn__signature signature = {
        "OO|O:deallocate", {"ptr", "nbytes", "stream"}, .required = 2};
    TARN__CALL;
    tarn__resource_object *self = (tarn__resource_object *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *given[3];
    tarn_stream stream;
    size_t block, bytes;
    tarn__gil_hold hold;

    if (tarn__arguments(&signature, args, count, names, given) != 0 ||
        tarn__arguments_size(given[0], &block) != 0 ||
        tarn__arguments_size(given[1], &bytes) != 0 ||
        tarn__stream_from(state, given[2], &stream) != 0)
        return NULL;
    if (self->native == NULL) {
        raise_no_memory(object);
        return NULL;
    }
    tarn__gil_hold_begin(&hold);
    tarn_status status = tarn_resource_deallocate(self->native, block, bytes, 0, stream);
    tarn__gil_hold_end(&hold);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *resource_device(PyObject *object, void *Py_UNUSED(closure))
{
    tarn__resource_object *self = (tarn__resource_object *)object;
    int device = self->native != NULL ? tarn_resource_device(self->native) : self->device;

    if (device < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(device);
}

static int resource_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((tarn__resource_object *)self)->upstream);
    return 0;
}

/* No tp_clear: a DeviceBuffer in the same cycle still has to free its block here. The
 * other objects of a cycle break it. */
static void resource_dealloc(PyObject *object)
{
    TARN__CALL;
    tarn__resource_object *self = (tarn__resource_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    tarn__state *state = tarn__state_of(type);

    PyObject_GC_UnTrack(object);
    Py_TRASHCAN_BEGIN(object, resource_dealloc);
    tarn__resource_release(state, self->native, (PyObject *)type);
    if (self->writer != NULL)
        tarn_trace_writer_release(
            self->writer); /* a writer to a file warns of a failure */
    Py_CLEAR(self->upstream);
    Py_CLEAR(self->live);
    type->tp_free(object);
    Py_DECREF(type);
    Py_TRASHCAN_END;
}

PyDoc_STRVAR(
    resource_doc,
    "DeviceMemoryResource()\n--\n\n"
    "The base class of all memory resources.\n\n"
    "A class derived from it in Python defines allocate(nbytes, stream) and\n"
    "deallocate(ptr, nbytes, stream). Its objects work wherever a resource does. Calls\n"
    "may come from any thread. allocate() returns the address of at least `nbytes`\n"
    "bytes, aligned to 256. Two methods are optional: memory_info(), which returns\n"
    "(free, total) in bytes, and trim(keep_bytes), which releases cached memory over\n"
    "that and returns the bytes. The attribute `supports_streams` is True for a class\n"
    "whose memory is ready on the stream of its allocation alone. Without it, memory\n"
    "counts as ready for every stream.\n\n"
    "Tarn checks each address that such a class returns to C code. For an invalid one "
    "it\n"
    "raises ValueError and frees the block. An address is invalid if it is not aligned\n"
    "or belongs to a live block, or if the driver reports fewer bytes or another "
    "device.");

static PyMethodDef resource_methods[] = {
    {"allocate", (PyCFunction)(void (*)(void))resource_allocate,
     METH_FASTCALL | METH_KEYWORDS, allocate_doc},
    {"deallocate", (PyCFunction)(void (*)(void))resource_deallocate,
     METH_FASTCALL | METH_KEYWORDS, deallocate_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef resource_attributes[] = {
    {"device", resource_device, NULL,
     "Number of the device; None before the first use, and if there is none.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot resource_slots[] = {
    {Py_tp_doc, (void *)resource_doc},
    {Py_tp_new, resource_new},
    {Py_tp_dealloc, resource_dealloc},
    {Py_tp_traverse, resource_traverse},
    {Py_tp_methods, resource_methods},
    {Py_tp_getset, resource_attributes},
    {0, NULL},
};

static PyType_Spec resource_spec = {
    .name = "tarn.mr.DeviceMemoryResource",
    .basicsize = sizeof(tarn__resource_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = resource_slots,
};

/* --- UpstreamResourceAdaptor --- */

PyDoc_STRVAR(
    adaptor_doc,
    "UpstreamResourceAdaptor(upstream_mr)\n--\n\n"
    "The base class of the resources that have an upstream.\n\n"
    "It passes all calls to `upstream_mr`, which it keeps alive. A class derived from\n"
    "it in Python defines allocate() and deallocate(), and may call those of super().\n\n"
    "Raises TypeError if `upstream_mr` is no resource.");

static int adaptor_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"upstream_mr", NULL};
    tarn__resource_object *self = (tarn__resource_object *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    PyObject *upstream;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:UpstreamResourceAdaptor", names,
                                     &upstream))
        return -1;
    tarn_resource *native = tarn__resource_from(state, upstream, -1);
    return native != NULL ? tarn__resource_adopt(state, self, native, upstream) : -1;
}

static PyObject *adaptor_upstream(PyObject *object, void *Py_UNUSED(closure))
{
    tarn__resource_object *self = (tarn__resource_object *)object;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    tarn_resource *upstream = NULL;

    if (self->upstream != NULL)
        return Py_NewRef(self->upstream);
    if (self->native == NULL) {
        raise_no_memory(object);
        return NULL;
    }
    tarn_status status = tarn_adaptor_upstream(self->native, &upstream);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return tarn__resource_wrap(state, upstream);
}

static PyObject *adaptor_get_upstream(PyObject *self, PyObject *Py_UNUSED(none))
{
    return adaptor_upstream(self, NULL);
}

static PyMethodDef adaptor_methods[] = {
    {"get_upstream", adaptor_get_upstream, METH_NOARGS,
     "get_upstream($self)\n--\n\n"
     "Return the resource beneath, as upstream_mr."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef adaptor_attributes[] = {
    {"upstream_mr", adaptor_upstream, NULL,
     "The resource beneath, which this one keeps alive.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot adaptor_slots[] = {
    {Py_tp_doc, (void *)adaptor_doc},
    {Py_tp_init, adaptor_init},
    {Py_tp_methods, adaptor_methods},
    {Py_tp_getset, adaptor_attributes},
    {0, NULL},
};

static PyType_Spec adaptor_spec = {
    .name = "tarn.mr.UpstreamResourceAdaptor",
    .basicsize = sizeof(tarn__resource_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, /* the collector's flag: its base has
                                                   * it */
    .slots = adaptor_slots,
};

int tarn__resource_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->resource_types = PyDict_New();
    if (state->resource_types == NULL ||
        PyModule_AddObjectRef(module, "_resource_types", state->resource_types) != 0 ||
        tarn__state_add_type(module, &resource_spec, NULL,
                             &state->DeviceMemoryResource) != 0)
        return -1;
    PyObject *base = state->DeviceMemoryResource;
    state->base_allocate = PyObject_GetAttrString(base, "allocate");
    state->base_deallocate = PyObject_GetAttrString(base, "deallocate");
    if (state->base_allocate == NULL || state->base_deallocate == NULL)
        return -1;
    return tarn__state_add_type(module, &adaptor_spec, base,
                                &state->UpstreamResourceAdaptor);
}
