/* tracker.c -- queries of a tracker, for tarn.mr.TrackingResourceAdaptor.
 *
 * These functions are internal to the package, as those of maker.c are.
 */
#include "error.h"
#include "module.h"
#include "resource.h"

#include <stdlib.h>

static PyObject *tracker_bytes(PyObject *module, PyObject *object)
{
    return tarn__resource_bytes(module, object, tarn_tracker_bytes);
}

/* Append (address, nbytes, stack) to the list `data`. */
static bool add_block(void *data, const tarn_tracked_block *block)
{
    PyObject *tuple = Py_BuildValue("(KnI)", (unsigned long long)block->address,
                                    (Py_ssize_t)block->bytes, block->stack);
    int result = tuple != NULL ? PyList_Append(data, tuple) : -1;

    Py_XDECREF(tuple);
    return result == 0;
}

static PyObject *tracker_blocks(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *native = tarn__resource_native(state, object);
    PyObject *list = native != NULL ? PyList_New(0) : NULL;

    if (list == NULL)
        return NULL;
    tarn_status status = tarn_tracker_visit(native, add_block, list);
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

/* --- live memory by stack --- */

/* The live blocks of one stack. */
struct usage {
    tarn_stack stack;
    size_t bytes, blocks;
};

struct usages {
    struct usage *items;
    size_t count, capacity;
    bool is_out_of_memory;
};

/* Append a block as a usage of its own. Called without the GIL. */
static bool add_usage(void *data, const tarn_tracked_block *block)
{
    struct usages *usages = data;

    if (usages->count == usages->capacity) {
        size_t capacity = usages->capacity ? 2 * usages->capacity : 1024;
        struct usage *items = PyMem_RawRealloc(usages->items, capacity * sizeof *items);
        usages->is_out_of_memory = items == NULL;
        if (items == NULL)
            return false;
        usages->items = items;
        usages->capacity = capacity;
    }
    usages->items[usages->count++] = (struct usage){block->stack, block->bytes, 1};
    return true;
}

static int compare_stacks(const void *left, const void *right)
{
    const struct usage *a = left, *b = right;

    return (a->stack > b->stack) - (a->stack < b->stack);
}

/* Leave one usage for each stack. */
static void merge(struct usages *usages)
{
    size_t kept = 0;

    if (usages->count == 0)
        return;
    qsort(usages->items, usages->count, sizeof *usages->items, compare_stacks);
    for (size_t i = 1; i < usages->count; i++) {
        const struct usage *item = &usages->items[i];
        struct usage *last = &usages->items[kept];
        if (item->stack == last->stack) {
            last->bytes += item->bytes;
            last->blocks += item->blocks;
        } else {
            usages->items[++kept] = *item;
        }
    }
    usages->count = kept + 1;
}

static PyObject *list_of(const struct usages *usages)
{
    PyObject *list = PyList_New((Py_ssize_t)usages->count);

    for (size_t i = 0; list != NULL && i < usages->count; i++) {
        const struct usage *item = &usages->items[i];
        PyObject *tuple = Py_BuildValue("(Inn)", item->stack, (Py_ssize_t)item->bytes,
                                        (Py_ssize_t)item->blocks);
        if (tuple == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, tuple);
    }
    return list;
}

static PyObject *tracker_stacks(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *native = tarn__resource_native(state, object);
    struct usages usages = {0};
    tarn_status status;

    if (native == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_tracker_visit(native, add_usage, &usages);
    merge(&usages);
    Py_END_ALLOW_THREADS;
    PyObject *result = status != TARN_OK         ? tarn__error_raise(state, status)
                       : usages.is_out_of_memory ? PyErr_NoMemory()
                                                 : list_of(&usages);
    PyMem_RawFree(usages.items);
    return result;
}

/* --- a log of the live blocks --- */

static tarn_status write_log(tarn_resource *tracker, const char *path)
{
    static const tarn_trace_writer_options options = {
        .size = sizeof options,
        .format = TARN_TRACE_BINARY,
        .stack_depth = TARN_STACK_DEPTH_MAX,
    };
    tarn_trace_writer *writer;
    size_t bytes;
    tarn_status status = tarn_tracker_bytes(tracker, &bytes); /* before a file is made */

    if (status == TARN_OK)
        status = tarn_trace_writer_open_with(path, &options, &writer);
    if (status != TARN_OK)
        return status;
    status = tarn_tracker_write(tracker, writer);
    tarn_status released = tarn_trace_writer_release(writer);
    return status != TARN_OK ? status : released;
}

/* (mr, path) */
static PyObject *tracker_write(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyObject *object, *path;
    tarn_status status;

    if (!PyArg_ParseTuple(args, "OO&", &object, PyUnicode_FSConverter, &path))
        return NULL;
    tarn_resource *native = tarn__resource_native(state, object);
    if (native == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = write_log(native, PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS;
    Py_DECREF(path);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

static PyMethodDef tracker_functions[] = {
    {"_tracker_bytes", tracker_bytes, METH_O,
     "_tracker_bytes(mr, /)\n--\n\n"
     "Return the bytes of the live blocks of a tracker."},
    {"_tracker_blocks", tracker_blocks, METH_O,
     "_tracker_blocks(mr, /)\n--\n\n"
     "Return (address, nbytes, stack) of each live block of a tracker, by address."},
    {"_tracker_stacks", tracker_stacks, METH_O,
     "_tracker_stacks(mr, /)\n--\n\n"
     "Return (stack, nbytes, blocks) for each stack with live blocks of a tracker."},
    {"_tracker_write", tracker_write, METH_VARARGS,
     "_tracker_write(mr, path, /)\n--\n\n"
     "Write a binary log with a row for each live block of a tracker."},
    {NULL, NULL, 0, NULL},
};

int tarn__tracker_init(PyObject *module)
{
    return PyModule_AddFunctions(module, tracker_functions);
}
