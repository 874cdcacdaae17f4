/* maker.c -- create the C resources of the classes of tarn/mr.py, and query them.
 *
 * These functions are internal to the package (their names begin with `_`). The classes
 * with documentation and signatures are in Python, and each passes itself to one of these
 * functions.
 */
#include "arguments.h"
#include "error.h"
#include "failure_callback.h"
#include "module.h"
#include "resource.h"

#include <limits.h>

/* --- sources: an object without a resource gets one --- */

/* Give the object its new resource, or raise an exception. */
static PyObject *keep(tarn__state *state, tarn__resource_object *self, tarn_status status,
                      tarn_resource *made)
{
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    if (tarn__resource_adopt(state, self, made, NULL) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Create and adopt a resource: `open` is called without the GIL. */
static PyObject *adopt(PyObject *module, PyObject *args,
                       tarn_status (*open)(int device, tarn_resource **out))
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *resource = NULL;
    PyObject *object;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(args, "Oi", &object, &device))
        return NULL;
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self == NULL)
        return NULL;
    if (tarn__resource_check_new(self) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = open(device, &resource);
    Py_END_ALLOW_THREADS;
    return keep(state, self, status, resource);
}

static PyObject *open_cuda(PyObject *module, PyObject *args)
{
    return adopt(module, args, tarn_cuda_create);
}

static PyObject *open_managed(PyObject *module, PyObject *args)
{
    return adopt(module, args, tarn_managed_create);
}

/* (self, device, cache_bytes) */
static PyObject *open_exportable(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_exportable_options options = {.size = sizeof options};
    tarn_resource *resource = NULL;
    PyObject *object, *cache;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(args, "OiO", &object, &device, &cache))
        return NULL;
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self == NULL || tarn__arguments_size(cache, &options.cache_bytes) != 0)
        return NULL;
    if (tarn__resource_check_new(self) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_exportable_create(device, &options, &resource);
    Py_END_ALLOW_THREADS;
    return keep(state, self, status, resource);
}

static PyObject *open_pinned(PyObject *module, PyObject *args)
{
    return adopt(module, args, tarn_pinned_create);
}

/* (self, device, initial_bytes, release_threshold_bytes, use_default_pool, exportable,
 * managed, pool) */
static PyObject *open_async(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_async_options options = {.size = sizeof options};
    tarn_resource *resource = NULL;
    PyObject *object, *initial, *threshold, *handle;
    tarn_status status;
    int device, use_default, exportable, managed;
    size_t pool;

    if (!PyArg_ParseTuple(args, "OiOOpppO", &object, &device, &initial, &threshold,
                          &use_default, &exportable, &managed, &handle))
        return NULL;
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self == NULL || tarn__arguments_size(initial, &options.initial_bytes) != 0 ||
        tarn__arguments_size(threshold, &options.release_threshold_bytes) != 0 ||
        tarn__arguments_size(handle, &pool) != 0)
        return NULL;
    if (tarn__resource_check_new(self) != 0)
        return NULL;
    options.use_default_pool = use_default;
    options.exportable = exportable;
    options.managed = managed;
    options.pool = (void *)pool;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_async_create(device, &options, &resource);
    Py_END_ALLOW_THREADS;
    return keep(state, self, status, resource);
}

/* (self, device, advise, headroom_bytes) */
static PyObject *open_system(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_system_options options = {.size = sizeof options};
    tarn_resource *resource = NULL;
    PyObject *object, *headroom;
    tarn_status status;
    int device, advise;

    if (!PyArg_ParseTuple(args, "OipO", &object, &device, &advise, &headroom))
        return NULL;
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self == NULL || tarn__arguments_size(headroom, &options.headroom_bytes) != 0)
        return NULL;
    if (tarn__resource_check_new(self) != 0)
        return NULL;
    options.advise = advise;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_system_create(device, &options, &resource);
    Py_END_ALLOW_THREADS;
    return keep(state, self, status, resource);
}

/* --- adaptors: what UpstreamResourceAdaptor holds is wrapped --- */

/* An adaptor whose native resource is still its upstream's, as its base class left it;
 * else NULL with an exception. */
static tarn__resource_object *unwrapped(tarn__state *state, PyObject *object)
{
    tarn__resource_object *self = tarn__resource_arg(state, object);
    if (self != NULL && (self->native == NULL || self->upstream == NULL)) {
        PyErr_Format(PyExc_ValueError, "an object of %.200s has no upstream",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    return self;
}

/* `wrapper` retains the resource that it wraps, and takes its place. */
static PyObject *replace(tarn__state *state, tarn__resource_object *self,
                         tarn_status status, tarn_resource *wrapper)
{
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    tarn_resource *upstream = self->native;
    self->native = wrapper;
    tarn__resource_release(state, upstream, (PyObject *)self);
    Py_RETURN_NONE;
}

/* (self, path, format, auto_flush, stack_depth, ring_bytes): a file of its own for each
 * logger. */
static PyObject *wrap_logger(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *wrapper = NULL;
    tarn_trace_writer *writer = NULL;
    tarn_trace_writer_options options = {.size = sizeof options};
    PyObject *object, *path, *ring;
    int format, auto_flush;
    size_t ring_bytes;

    if (!PyArg_ParseTuple(args, "OO&ipIO", &object, PyUnicode_FSConverter, &path, &format,
                          &auto_flush, &options.stack_depth, &ring))
        return NULL;
    if (tarn__arguments_size(ring, &ring_bytes) != 0) {
        Py_DECREF(path);
        return NULL;
    }
    options.format = (tarn_trace_format)format;
    options.ring_bytes = ring_bytes;
    tarn__resource_object *self = unwrapped(state, object);
    if (self != NULL && self->writer != NULL) {
        PyErr_Format(PyExc_ValueError, "%R already writes a log", object);
        self = NULL;
    }
    if (self == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    tarn_status status =
        tarn_trace_writer_open_with(PyBytes_AS_STRING(path), &options, &writer);
    Py_DECREF(path);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    if (auto_flush)
        status = tarn_trace_writer_set_auto_flush(writer, true);
    if (status == TARN_OK)
        status = tarn_logger_create(self->native, writer, &wrapper);
    if (status == TARN_OK)
        self->writer = writer;
    else
        tarn_trace_writer_release(writer);
    return replace(state, self, status, wrapper);
}

/* (self, limit_bytes) */
static PyObject *wrap_limiter(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *wrapper = NULL;
    PyObject *object, *limit;
    size_t limit_bytes;

    if (!PyArg_ParseTuple(args, "OO", &object, &limit))
        return NULL;
    tarn__resource_object *self = unwrapped(state, object);
    if (self == NULL || tarn__arguments_size(limit, &limit_bytes) != 0)
        return NULL;
    tarn_status status = tarn_limiter_create(self->native, limit_bytes, &wrapper);
    return replace(state, self, status, wrapper);
}

/* (self, stack_depth) */
static PyObject *wrap_tracker(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    tarn_tracker_options options = {.size = sizeof options};
    tarn_resource *wrapper = NULL;
    PyObject *object, *depth_object;
    size_t depth;

    if (!PyArg_ParseTuple(args, "OO", &object, &depth_object))
        return NULL;
    tarn__resource_object *self = unwrapped(state, object);
    if (self == NULL || tarn__arguments_size(depth_object, &depth) != 0)
        return NULL;
    options.stack_depth = depth < UINT_MAX ? (unsigned)depth : UINT_MAX;
    tarn_status status = tarn_tracker_create(self->native, &options, &wrapper);
    return replace(state, self, status, wrapper);
}

/* (self, text) */
static PyObject *wrap_guard(PyObject *module, PyObject *args)
{
    tarn__state *state = tarn__state_get(module);
    tarn_guard_options options;
    tarn_resource *wrapper = NULL;
    PyObject *object;
    const char *text;

    if (!PyArg_ParseTuple(args, "Os", &object, &text))
        return NULL;
    tarn__resource_object *self = unwrapped(state, object);
    if (self == NULL)
        return NULL;
    tarn_status status = tarn_guard_parse(text, &options);
    if (status == TARN_OK)
        status = tarn_guard_create(self->native, &options, &wrapper);
    return replace(state, self, status, wrapper);
}

/* Wrap with an adaptor that takes no options. */
static PyObject *wrap(PyObject *module, PyObject *object,
                      tarn_status (*create)(tarn_resource *upstream, tarn_resource **out))
{
    tarn__state *state = tarn__state_get(module);
    tarn__resource_object *self = unwrapped(state, object);
    tarn_resource *wrapper = NULL;

    if (self == NULL)
        return NULL;
    tarn_status status = create(self->native, &wrapper);
    return replace(state, self, status, wrapper);
}

/* (self) */
static PyObject *wrap_counter(PyObject *module, PyObject *object)
{
    return wrap(module, object, tarn_counter_create);
}

/* (self) */
static PyObject *wrap_prefetcher(PyObject *module, PyObject *object)
{
    return wrap(module, object, tarn_prefetcher_create);
}

/* (self) */
static PyObject *wrap_failure_callback(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn__resource_object *self = unwrapped(state, object);
    tarn_resource *wrapper = NULL;

    if (self == NULL)
        return NULL;
    tarn_status status = tarn__failure_callback_create(self->native, object, &wrapper);
    return replace(state, self, status, wrapper);
}

/* --- queries --- */

static PyObject *limiter_used(PyObject *module, PyObject *object)
{
    return tarn__resource_bytes(module, object, tarn_limiter_used_bytes);
}

static PyObject *limiter_limit(PyObject *module, PyObject *object)
{
    return tarn__resource_bytes(module, object, tarn_limiter_limit_bytes);
}

static PyObject *async_pool(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *native = tarn__resource_native(state, object);
    void *pool;

    if (native == NULL)
        return NULL;
    tarn_status status = tarn_async_pool(native, &pool);
    return status == TARN_OK ? PyLong_FromVoidPtr(pool)
                             : tarn__error_raise(state, status);
}

static PyObject *counts(PyObject *module, PyObject *object,
                        tarn_status (*read)(tarn_resource *, tarn_counts *))
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *native = tarn__resource_native(state, object);
    tarn_counts got;

    if (native == NULL)
        return NULL;
    tarn_status status = read(native, &got);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    const int64_t values[] = {got.current_bytes, got.current_count, got.peak_bytes,
                              got.peak_count,    got.total_bytes,   got.total_count};
    PyObject *tuple = PyStructSequence_New((PyTypeObject *)state->Statistics);
    for (int i = 0; tuple != NULL && i < 6; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyStructSequence_SetItem(tuple, i, number);
    }
    return tuple;
}

static PyObject *counter_read(PyObject *module, PyObject *object)
{
    return counts(module, object, tarn_counter_read);
}

static PyObject *counter_push(PyObject *module, PyObject *object)
{
    return counts(module, object, tarn_counter_push);
}

static PyObject *counter_pop(PyObject *module, PyObject *object)
{
    return counts(module, object, tarn_counter_pop);
}

static PyObject *logger_flush(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn__resource_object *self = tarn__resource_arg(state, object);
    tarn_status status = TARN_OK;

    if (self == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (self->writer != NULL)
        status = tarn_trace_flush(self->writer);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

static PyStructSequence_Field statistics_fields[] = {
    {"current_bytes", "Bytes of the live blocks, as requested."},
    {"current_count", "Number of live blocks."},
    {"peak_bytes", "The most bytes that were live at once."},
    {"peak_count", "The most blocks that were live at once."},
    {"total_bytes", "Sum of the bytes of all allocations."},
    {"total_count", "Number of all allocations."},
    {NULL, NULL},
};
static PyStructSequence_Desc statistics_desc = {
    "tarn.mr.Statistics", "One set of counts of a StatisticsResourceAdaptor.",
    statistics_fields, 6};

static PyMethodDef maker_functions[] = {
    {"_open_cuda", open_cuda, METH_VARARGS,
     "_open_cuda(mr, device, /)\n--\n\n"
     "Create the resource of a CudaMemoryResource."},
    {"_open_managed", open_managed, METH_VARARGS,
     "_open_managed(mr, device, /)\n--\n\n"
     "Create the resource of a ManagedMemoryResource."},
    {"_open_exportable", open_exportable, METH_VARARGS,
     "_open_exportable(mr, device, cache, /)\n--\n\n"
     "Create the resource of an ExportableMemoryResource."},
    {"_open_pinned", open_pinned, METH_VARARGS,
     "_open_pinned(mr, device, /)\n--\n\n"
     "Create the resource of a PinnedHostMemoryResource."},
    {"_open_async", open_async, METH_VARARGS,
     "_open_async(mr, device, initial, threshold, use_default, exportable, managed, "
     "pool,\n"
     "            /)\n--\n\n"
     "Create the resource of a class over a pool of the driver; sizes are bytes."},
    {"_open_system", open_system, METH_VARARGS,
     "_open_system(mr, device, advise, headroom, /)\n--\n\n"
     "Create the resource of a SystemMemoryResource; `headroom` is bytes."},
    {"_wrap_logger", wrap_logger, METH_VARARGS,
     "_wrap_logger(mr, path, format, auto_flush, /)\n--\n\n"
     "Put a logger over the upstream of an adaptor; `format` is a tarn_trace_format."},
    {"_wrap_limiter", wrap_limiter, METH_VARARGS,
     "_wrap_limiter(mr, limit, /)\n--\n\n"
     "Put a limiter of `limit` bytes over the upstream of an adaptor."},
    {"_wrap_counter", wrap_counter, METH_O,
     "_wrap_counter(mr, /)\n--\n\n"
     "Put a counter over the upstream of an adaptor."},
    {"_wrap_prefetcher", wrap_prefetcher, METH_O,
     "_wrap_prefetcher(mr, /)\n--\n\n"
     "Put a prefetcher over the upstream of an adaptor."},
    {"_wrap_failure_callback", wrap_failure_callback, METH_O,
     "_wrap_failure_callback(mr, /)\n--\n\n"
     "Put an adaptor over the upstream, which calls `mr._ask(nbytes)` when memory is "
     "short."},
    {"_wrap_guard", wrap_guard, METH_VARARGS,
     "_wrap_guard(mr, options, /)\n--\n\n"
     "Put a guard over the upstream of an adaptor."},
    {"_wrap_tracker", wrap_tracker, METH_VARARGS,
     "_wrap_tracker(mr, stack_depth, /)\n--\n\n"
     "Put a tracker over the upstream of an adaptor."},
    {"_async_pool", async_pool, METH_O,
     "_async_pool(mr, /)\n--\n\n"
     "Return the CUmemoryPool of a class over a pool of the driver."},
    {"_limiter_used", limiter_used, METH_O,
     "_limiter_used(mr, /)\n--\n\n"
     "Return the bytes that a limiter has charged."},
    {"_limiter_limit", limiter_limit, METH_O,
     "_limiter_limit(mr, /)\n--\n\n"
     "Return the limit of a limiter in bytes."},
    {"_counter_read", counter_read, METH_O,
     "_counter_read(mr, /)\n--\n\n"
     "Return the topmost set of counts."},
    {"_counter_push", counter_push, METH_O,
     "_counter_push(mr, /)\n--\n\n"
     "Push a new set of counts; return the one before."},
    {"_counter_pop", counter_pop, METH_O,
     "_counter_pop(mr, /)\n--\n\n"
     "Pop the topmost set of counts and return it."},
    {"_logger_flush", logger_flush, METH_O,
     "_logger_flush(mr, /)\n--\n\n"
     "Write the buffered lines of a logger to its file."},
    {NULL, NULL, 0, NULL},
};

int tarn__maker_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->Statistics = (PyObject *)PyStructSequence_NewType(&statistics_desc);
    if (state->Statistics == NULL ||
        PyModule_AddType(module, (PyTypeObject *)state->Statistics) != 0)
        return -1;
    return PyModule_AddFunctions(module, maker_functions);
}
