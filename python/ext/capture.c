/* capture.c -- captures of graphs: the announcement that a stream will capture, and the
 * memory that a pool retains for a graph.
 *
 * The first is the result of Stream.capturing(), for a `with` around the capture. This
 * file adds that method to the type Stream. The second is the handle in a
 * tarn.mr.PoolCapture, whose class and documentation are in Python. A handle that is
 * dropped without release says nothing about its graph, which may still be launched: the
 * memory stays with the graph until the graph is gone.
 */
#include "error.h"
#include "module.h"
#include "pool.h"
#include "stream.h"

/* --- Stream.capturing() --- */

typedef struct announcement {
    PyObject_HEAD PyObject *stream; /* a Stream; NULL once the collector has cleared it */
} announcement;

static PyObject *announcement_enter(PyObject *object, PyObject *Py_UNUSED(none))
{
    announcement *self = (announcement *)object;

    if (tarn__stream_begin_announcement(self->stream) != 0)
        return NULL;
    return Py_NewRef(self->stream);
}

/* (type, value, traceback) of the exception within, or None */
static PyObject *announcement_exit(PyObject *object, PyObject *args)
{
    announcement *self = (announcement *)object;
    PyObject *type = Py_None;

    if (!PyArg_ParseTuple(args, "|OOO:__exit__", &type, &(PyObject *){NULL},
                          &(PyObject *){NULL}))
        return NULL;
    if (tarn__stream_end_announcement(self->stream) != 0) {
        if (type == Py_None)
            return NULL;
        PyErr_Clear(); /* the exception within is more specific */
    }
    Py_RETURN_FALSE;
}

static int announcement_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((announcement *)object)->stream);
    return 0;
}

static void announcement_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    Py_CLEAR(((announcement *)object)->stream);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef announcement_methods[] = {
    {"__enter__", announcement_enter, METH_NOARGS,
     "__enter__($self)\n--\n\n"
     "Announce the capture and return the stream."},
    {"__exit__", announcement_exit, METH_VARARGS,
     "__exit__($self, *args)\n--\n\n"
     "Announce that the capture has ended; TarnError while the stream captures."},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(announcement_doc,
             "The announcement of a capture, as Stream.capturing() returns it.");

static PyType_Slot announcement_slots[] = {
    {Py_tp_doc, (void *)announcement_doc},
    {Py_tp_dealloc, announcement_dealloc},
    {Py_tp_traverse, announcement_traverse},
    {Py_tp_methods, announcement_methods},
    {0, NULL},
};

static PyType_Spec announcement_spec = {
    .name = "tarn._tarn.Announcement",
    .basicsize = sizeof(announcement),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = announcement_slots,
};

PyDoc_STRVAR(
    capturing_doc,
    "capturing($self)\n--\n\n"
    "Announce a capture on a registered stream for the length of a with statement.\n\n"
    "The capture begins and ends inside the statement. It is the program's own\n"
    "capture, or that of another stream, which this stream joins:\n\n"
    "    with stream.capturing(), torch.cuda.graph(graph, stream=torch_stream):\n"
    "        ...\n\n"
    "Entering raises InvalidArgumentError for a stream that is not registered; such a\n"
    "stream needs no announcement. Leaving raises TarnError while the stream\n"
    "captures, unless an exception was raised inside; then the announcement remains.");

static PyObject *stream_capturing(PyObject *stream, PyObject *Py_UNUSED(none))
{
    tarn__state *state = tarn__state_of(Py_TYPE(stream));

    if (!tarn__state_is_there(state))
        return NULL;
    PyTypeObject *type = (PyTypeObject *)state->Announcement;
    announcement *self = (announcement *)type->tp_alloc(type, 0);

    if (self != NULL)
        self->stream = Py_NewRef(stream);
    return (PyObject *)self;
}

static PyMethodDef stream_methods[] = {
    {"capturing", stream_capturing, METH_NOARGS, capturing_doc},
    {NULL, NULL, 0, NULL},
};

/* --- the memory of a graph --- */

typedef struct graph_memory {
    PyObject_HEAD tarn_pool_capture *capture; /* one reference; NULL: it was, or is
                                               * being, released */
} graph_memory;

/* (pool, stream) */
static PyObject *get_capture(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyTypeObject *type = (PyTypeObject *)state->GraphMemory;
    PyObject *object, *stream_object;
    tarn_pool_capture *capture;
    tarn_resource *pool;
    tarn_stream stream;
    tarn_status status;

    if (!PyArg_ParseTuple(args, "OO", &object, &stream_object) ||
        (pool = tarn__pool_of(state, object)) == NULL ||
        tarn__stream_from(state, stream_object, &stream) != 0)
        return NULL;
    graph_memory *self = (graph_memory *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_get_capture(pool, stream, &capture);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK) {
        Py_DECREF(self);
        return tarn__error_raise(state, status);
    }
    self->capture = capture;
    return (PyObject *)self;
}

static void memory_dealloc(PyObject *object)
{
    TARN__CALL;
    tarn_pool_capture *capture = ((graph_memory *)object)->capture;
    PyTypeObject *type = Py_TYPE(object);
    tarn_status status = TARN_OK;

    if (capture != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        status = tarn_pool_capture_unreference(capture);
        Py_END_ALLOW_THREADS;
    }
    tarn__state *state = tarn__state_of(type);
    if (status != TARN_OK && state != NULL)
        tarn__error_raise_unraisable(state, status, (PyObject *)type);
    type->tp_free(object);
    Py_DECREF(type);
}

/* (stream). Another thread finds it released while this one is releasing it. */
static PyObject *memory_release(PyObject *object, PyObject *stream_object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_of(Py_TYPE(object));
    graph_memory *self = (graph_memory *)object;
    tarn_stream stream;
    tarn_status status;

    if (tarn__stream_from(state, stream_object, &stream) != 0)
        return NULL;
    tarn_pool_capture *capture = self->capture;
    self->capture = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_capture_release(capture, stream);
    Py_END_ALLOW_THREADS;
    if (status == TARN_OK)
        Py_RETURN_NONE;
    if (capture != NULL) /* else the memory of another thread may be returned by now */
        self->capture = capture;
    return tarn__error_raise(state, status);
}

/* (retained, live, live_blocks, streams, has_ended); zeros for a released one. The GIL is
 * held, so that no thread releases it meanwhile. */
static PyObject *memory_statistics(PyObject *object, PyObject *Py_UNUSED(none))
{
    tarn_pool_capture_statistics all = {.size = sizeof all, .has_ended = true};
    tarn_pool_capture *capture = ((graph_memory *)object)->capture;

    if (capture != NULL) {
        tarn_status status = tarn_pool_capture_get_statistics(capture, &all);
        if (status != TARN_OK)
            return tarn__error_raise(tarn__state_of(Py_TYPE(object)), status);
    }
    return Py_BuildValue("(KKKKN)", (unsigned long long)all.retained,
                         (unsigned long long)all.live,
                         (unsigned long long)all.live_blocks,
                         (unsigned long long)all.streams, PyBool_FromLong(all.has_ended));
}

static PyObject *memory_is_released(PyObject *object, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((graph_memory *)object)->capture == NULL);
}

static PyMethodDef memory_methods[] = {
    {"release", memory_release, METH_O,
     "release($self, stream, /)\n--\n\n"
     "Release the memory in the order of a stream."},
    {"statistics", memory_statistics, METH_NOARGS,
     "statistics($self)\n--\n\n"
     "Return (retained, live, live_blocks, streams, has_ended); zeros once released."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef memory_fields[] = {
    {"is_released", memory_is_released, NULL,
     "Whether release() has released the memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(memory_doc, "The handle in a tarn.mr.PoolCapture.");

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (void *)memory_doc},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_fields},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "tarn._tarn.GraphMemory",
    .basicsize = sizeof(graph_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

static PyMethodDef capture_functions[] = {
    {"_pool_get_capture", get_capture, METH_VARARGS,
     "_pool_get_capture(mr, stream, /)\n--\n\n"
     "Return the memory of the capture in progress on a stream."},
    {NULL, NULL, 0, NULL},
};

int tarn__capture_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    if (tarn__state_add_type(module, &announcement_spec, NULL, &state->Announcement) !=
            0 ||
        tarn__state_add_type(module, &memory_spec, NULL, &state->GraphMemory) != 0)
        return -1;
    if (tarn__state_add_methods(state->Stream, stream_methods) != 0)
        return -1;
    return PyModule_AddFunctions(module, capture_functions);
}
