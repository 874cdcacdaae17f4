/* plugin.c -- tarn._tarn.Plugin: the calls that Numba makes for every array, of
 * tarn.numba's manager.
 *
 * Numba calls initialize() before each of its own functions and memalloc() for each
 * array. Both are here. All else, a first call and any failure among them, is in the
 * class that tarn.numba derives from this one.
 */
#include "arguments.h"
#include "exception.h"
#include "module.h"
#include "pointer.h"

typedef struct plugin {
    PyObject_HEAD tarn__manager_object *manager; /* owned; NULL until _prepare() */
    PyTypeObject *type; /* type of the memory handed out, from MemoryPointer; owned */
    PyObject *context;  /* the context of that memory for Numba; owned */
    bool ready;         /* between _prepare() and the next _reset() */
} plugin;

/* --- for every array ---------------------------------------------------------------- */

/* Has this thread, and this instance, been prepared? */
static int prepare(plugin *self)
{
    if (self->ready)
        return 0;
    PyObject *result = PyObject_CallMethod((PyObject *)self, "_begin", NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

PyDoc_STRVAR(initialize_doc,
             "initialize($self)\n--\n\n"
             "Prepare the manager; Numba calls it before each of its own calls.");

static PyObject *plugin_initialize(plugin *self, PyObject *unused)
{
    (void)unused;
    if (prepare(self) != 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(allocate_doc,
             "_allocate($self, size, stream=0)\n--\n\n"
             "Allocate once, as memalloc(), and raise Tarn's own error on failure.");

/* 0 and None name no stream: such memory is safe on all streams. */
static bool names_stream(PyObject *stream)
{
    if (stream == NULL || stream == Py_None)
        return false;
    return !PyLong_CheckExact(stream) || PyObject_IsTrue(stream);
}

static PyObject *allocate(plugin *self, PyObject *size, PyObject *stream)
{
    size_t bytes;

    if (tarn__arguments_size(size, &bytes) != 0)
        return NULL;
    if (!self->manager) {
        PyErr_SetString(PyExc_RuntimeError, "Plugin: _prepare() has not been called");
        return NULL;
    }
    /* _prepare() may run meanwhile, on any thread. */
    PyObject *manager = Py_NewRef((PyObject *)self->manager);
    PyObject *type = Py_NewRef((PyObject *)self->type);
    PyObject *context = Py_NewRef(self->context);
    tarn__memory_object *memory = (tarn__memory_object *)tarn__manager_memalloc(
        (tarn__manager_object *)manager, (PyTypeObject *)type, bytes,
        names_stream(stream) ? stream : NULL);
    if (memory) {
        memory->context = context;
        memory->refct = 1;
    } else
        Py_DECREF(context);
    Py_DECREF(type);
    Py_DECREF(manager);
    return (PyObject *)memory;
}

/* The size and the stream (NULL: not given). NBEP 7's draft calls the size `nbytes`. */
static int parse(PyObject *const *args, Py_ssize_t count, PyObject *names,
                 PyObject *given[3])
{
    static const struct tarn__signature signature = {
        "O|O:memalloc", {"size", "stream"}, .required = 1};
    static const struct tarn__signature draft = {
        "O|O:memalloc", {"nbytes", "stream"}, .required = 1};
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    bool is_draft = false;

    for (Py_ssize_t i = 0; i < named; i++)
        is_draft = is_draft || PyUnicode_CompareWithASCIIString(
                                   PyTuple_GET_ITEM(names, i), "nbytes") == 0;
    return tarn__arguments(is_draft ? &draft : &signature, args, count, names, given);
}

static PyObject *plugin_allocate(plugin *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    PyObject *given[3];

    if (parse(args, count, names, given) != 0)
        return NULL;
    return allocate(self, given[0], given[1]);
}

/* An allocation failed: the class decides what follows. */
static PyObject *try_again(plugin *self, PyObject *size, PyObject *stream)
{
    const tarn__state *state = tarn__state_of(Py_TYPE(self));

    if (!PyErr_ExceptionMatches(PyExc_MemoryError) &&
        !(state && PyErr_ExceptionMatches(state->TarnError)))
        return NULL;
    PyObject *error = tarn__exception_take();
    PyObject *function = PyObject_GetAttrString((PyObject *)self, "_allocate");
    PyObject *memory = NULL;

    if (function)
        memory = PyObject_CallMethod((PyObject *)self, "_again", "OOOO", error, function,
                                     size, stream ? stream : Py_None);
    Py_XDECREF(function);
    Py_DECREF(error);
    return memory;
}

PyDoc_STRVAR(
    memalloc_doc,
    "memalloc($self, size, stream=0)\n--\n\n"
    "Allocate at least `size` bytes of device memory, as Numba's MemoryPointer.\n\n"
    "Without a stream (0 or None) the memory is safe on all streams. With a stream\n"
    "the block is allocated and freed in its order, and keeps the stream object\n"
    "alive. `nbytes`, the name in NBEP 7's draft, is another name of `size`.\n\n"
    "If memory is unavailable, Numba's pending deallocations are freed and the call\n"
    "tries once more. Raises an error that is Tarn's and Numba's CudaAPIError.");

static PyObject *plugin_memalloc(plugin *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    PyObject *given[3];

    if (parse(args, count, names, given) != 0 || prepare(self) != 0)
        return NULL;
    PyObject *memory = allocate(self, given[0], given[1]);
    return memory ? memory : try_again(self, given[0], given[1]);
}

/* --- for the class ------------------------------------------------------------------ */

PyDoc_STRVAR(
    prepare_doc,
    "_prepare($self, manager, type, context, /)\n--\n\n"
    "Serve from a Manager, with memory of `type` in `context`, until _unprepare().");

static PyObject *plugin_prepare(plugin *self, PyObject *arguments)
{
    const tarn__state *state = tarn__state_of(Py_TYPE(self));
    PyObject *manager, *type, *context;

    if (!tarn__state_is_there(state) ||
        !PyArg_ParseTuple(arguments, "O!O!O:_prepare", state->Manager, &manager,
                          &PyType_Type, &type, &context))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, (PyTypeObject *)state->MemoryPointer)) {
        PyErr_Format(PyExc_TypeError, "_prepare() takes a class of MemoryPointer, not %s",
                     ((PyTypeObject *)type)->tp_name);
        return NULL;
    }
    /* Set all three, and only then drop the old ones: that may run any code. */
    PyObject *before[] = {(PyObject *)self->manager, (PyObject *)self->type,
                          self->context};
    self->manager = (tarn__manager_object *)Py_NewRef(manager);
    self->type = (PyTypeObject *)Py_NewRef(type);
    self->context = Py_NewRef(context);
    self->ready = true;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        Py_XDECREF(before[i]);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(unprepare_doc, "_unprepare($self)\n--\n\n"
                            "Have the next call begin with _begin().");

static PyObject *plugin_unprepare(plugin *self, PyObject *unused)
{
    (void)unused;
    self->ready = false;
    Py_RETURN_NONE;
}

static PyObject *get_manager(plugin *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->manager ? (PyObject *)self->manager : Py_None);
}

/* --- the type ----------------------------------------------------------------------- */

static int plugin_traverse(plugin *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->manager);
    Py_VISIT(self->type);
    Py_VISIT(self->context);
    return 0;
}

static int plugin_clear(plugin *self)
{
    self->ready = false;
    Py_CLEAR(self->manager);
    Py_CLEAR(self->type);
    Py_CLEAR(self->context);
    return 0;
}

static void plugin_dealloc(plugin *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    plugin_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyGetSetDef plugin_fields[] = {
    {"_manager", (getter)get_manager, NULL, "The Manager that it serves from, or None.",
     NULL},
    {0},
};

static PyMethodDef plugin_methods[] = {
    {"initialize", (PyCFunction)plugin_initialize, METH_NOARGS, initialize_doc},
    {"memalloc", (PyCFunction)(void (*)(void))plugin_memalloc,
     METH_FASTCALL | METH_KEYWORDS, memalloc_doc},
    {"_allocate", (PyCFunction)(void (*)(void))plugin_allocate,
     METH_FASTCALL | METH_KEYWORDS, allocate_doc},
    {"_prepare", (PyCFunction)plugin_prepare, METH_VARARGS, prepare_doc},
    {"_unprepare", (PyCFunction)plugin_unprepare, METH_NOARGS, unprepare_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
    plugin_doc,
    "The base of the managers of tarn.numba: the calls that Numba makes for every\n"
    "array.");

static PyType_Slot plugin_slots[] = {
    {Py_tp_doc, (void *)plugin_doc}, {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, plugin_dealloc}, {Py_tp_traverse, plugin_traverse},
    {Py_tp_clear, plugin_clear},     {Py_tp_methods, plugin_methods},
    {Py_tp_getset, plugin_fields},   {0, NULL},
};

static PyType_Spec plugin_spec = {
    .name = "tarn._tarn.Plugin",
    .basicsize = sizeof(plugin),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = plugin_slots,
};

int tarn__plugin_init(PyObject *module)
{
    return tarn__state_add_type(module, &plugin_spec, NULL,
                                &tarn__state_get(module)->Plugin);
}
