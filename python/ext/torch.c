/* torch.c -- what tarn.torch needs of libtarn: the addresses of the functions that PyTorch
 * calls, the resources that they use, and their counts.
 *
 * The functions are internal to the package. The module tarn.torch documents the rest.
 */
#include "error.h"
#include "exception.h"
#include "gil.h"
#include "module.h"
#include "resource.h"

/* --- the functions for PyTorch --- */

/* Add the address of a function (a pointer to it) to a dict. */
static int add_address(PyObject *dict, const char *name, const void *function)
{
    void *address;

    memcpy(&address, function, sizeof address);
    PyObject *number = PyLong_FromVoidPtr(address);
    int result = number != NULL ? PyDict_SetItemString(dict, name, number) : -1;

    Py_XDECREF(number);
    return result;
}

/* The addresses by name. */
static PyObject *functions(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *dict = PyDict_New();

#define ADD(name)                                                                 \
    if (dict != NULL &&                                                           \
        add_address(dict, #name,                                                  \
                    &(void (*[])(void)){(void (*)(void))tarn_torch_##name}) != 0) \
        Py_CLEAR(dict);
    ADD(allocate)
    ADD(deallocate)
    ADD(record_stream)
    ADD(empty_cache)
    ADD(set_memory_fraction)
    ADD(begin_graph_pool)
    ADD(end_graph_pool)
    ADD(release_graph_pool)
#undef ADD
    return dict;
}

/* None: PyTorch's exceptions are found; else the message of what is missing. */
static PyObject *check(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (tarn_torch_check() == TARN_OK)
        Py_RETURN_NONE;
    return PyUnicode_FromString(tarn_error_last()->message);
}

/* --- resources --- */

/* The number of a device. An int that cannot be one becomes -1, which no device has. Check
 * PyErr_Occurred(). */
static int device_of(PyObject *number)
{
    long device = PyLong_AsLong(number);

    return device < 0 || device > INT_MAX ? -1 : (int)device;
}

/* (device, mr) */
static PyObject *set_resource(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyObject *object;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(args, "iO", &device, &object))
        return NULL;
    tarn_resource *resource = tarn__resource_from(state, object, device);
    if (resource == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_torch_set_resource(device, resource);
    Py_END_ALLOW_THREADS;
    tarn__resource_release(state, resource, object);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

/* (device): the object, or None if the device has none yet. */
static PyObject *resource(PyObject *module, PyObject *number)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    int device = device_of(number);
    tarn_resource *found;

    if (PyErr_Occurred())
        return NULL;
    tarn_status status = tarn_torch_resource(device, &found);
    if (status == TARN_NOT_FOUND)
        Py_RETURN_NONE;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    return tarn__resource_wrap(state, found);
}

/* The callable for the first use of a device; the process has one. */
static PyObject *first_use;

static bool call_first_use(int device)
{
    struct tarn__gil_stay stay;

    if (!tarn__gil_enter(&stay))
        return false;
    PyObject *call = Py_XNewRef(first_use);
    PyObject *result = call != NULL ? PyObject_CallFunction(call, "i", device) : NULL;
    int is_chosen = result != NULL ? PyObject_IsTrue(result) : -1;
    if (call != NULL && is_chosen < 0)
        PyErr_WriteUnraisable(call);
    Py_XDECREF(result);
    Py_XDECREF(call);
    tarn__gil_leave(&stay, TARN_OK);
    return is_chosen > 0;
}

/* (callable): it is called with a device before the first allocation there, and returns
 * whether it has made a resource current. */
static PyObject *set_first_use(PyObject *Py_UNUSED(module), PyObject *call)
{
    Py_XSETREF(first_use, Py_NewRef(call));
    tarn_torch_set_first_use(call_first_use);
    Py_RETURN_NONE;
}

/* --- counts --- */

static PyObject *count_of(const tarn_torch_count *count)
{
    return Py_BuildValue("{sKsKsKsK}", "current", (unsigned long long)count->current,
                         "peak", (unsigned long long)count->peak, "allocated",
                         (unsigned long long)count->allocated, "freed",
                         (unsigned long long)count->freed);
}

static PyObject *counts_of(const tarn_torch_count *sizes)
{
    return Py_BuildValue("{sNsNsN}", "all", count_of(&sizes[TARN_TORCH_ALL]),
                         "small_pool", count_of(&sizes[TARN_TORCH_SMALL]), "large_pool",
                         count_of(&sizes[TARN_TORCH_LARGE]));
}

/* (device): the counts, with the keys of torch.cuda.memory_stats_as_nested_dict(). */
static PyObject *statistics(PyObject *module, PyObject *number)
{
    tarn_torch_statistics all = {.size = sizeof all};
    int device = device_of(number);

    if (PyErr_Occurred())
        return NULL;
    tarn_status status = tarn_torch_get_statistics(device, &all);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    return Py_BuildValue(
        "{sNsNsNsNsNsKsK}", "allocation", counts_of(all.allocations), "allocated_bytes",
        counts_of(all.allocated_bytes), "requested_bytes", counts_of(all.requested_bytes),
        "active", counts_of(all.active), "active_bytes", counts_of(all.active_bytes),
        "num_alloc_retries", (unsigned long long)all.retries, "num_ooms",
        (unsigned long long)all.out_of_memory);
}

static PyObject *reset(PyObject *module, PyObject *number,
                       tarn_status (*call)(int device))
{
    int device = device_of(number);
    tarn_status status;

    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call(device);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

static PyObject *reset_peaks(PyObject *module, PyObject *number)
{
    return reset(module, number, tarn_torch_reset_peaks);
}

static PyObject *reset_totals(PyObject *module, PyObject *number)
{
    return reset(module, number, tarn_torch_reset_totals);
}

/* --- segments --- */

/* (mr): the addresses of two functions, the first of which _torch_close_segments() takes. */
static PyObject *open_segments(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_torch_segments segments = {.size = sizeof segments};
    tarn_resource *resource_ = tarn__resource_from(state, object, -1);

    if (resource_ == NULL)
        return NULL;
    tarn_status status = tarn_torch_open_segments(resource_, &segments);
    tarn__resource_release(state, resource_, object);
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    void *allocate, *deallocate;
    memcpy(&allocate, &segments.allocate, sizeof allocate);
    memcpy(&deallocate, &segments.deallocate, sizeof deallocate);
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr(allocate),
                         PyLong_FromVoidPtr(deallocate));
}

/* (address of the first function) */
static PyObject *close_segments(PyObject *module, PyObject *number)
{
    tarn_torch_segments segments = {.size = sizeof segments};
    void *allocate = PyLong_AsVoidPtr(number);
    tarn_status status;

    if (PyErr_Occurred())
        return NULL;
    memcpy(&segments.allocate, &allocate, sizeof allocate);
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_torch_close_segments(&segments);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

static PyMethodDef torch_functions[] = {
    {"_torch_functions", functions, METH_NOARGS,
     "_torch_functions()\n--\n\n"
     "Return the addresses of the functions for PyTorch, by name."},
    {"_torch_check", check, METH_NOARGS,
     "_torch_check()\n--\n\n"
     "Return None, or what is missing of PyTorch's exceptions."},
    {"_torch_set_resource", set_resource, METH_VARARGS,
     "_torch_set_resource(device, mr, /)\n--\n\n"
     "Set the resource for PyTorch's memory on a device."},
    {"_torch_resource", resource, METH_O,
     "_torch_resource(device, /)\n--\n\n"
     "Return the resource for PyTorch's memory on a device, or None."},
    {"_torch_set_first_use", set_first_use, METH_O,
     "_torch_set_first_use(call, /)\n--\n\n"
     "Have `call(device)` choose the current resource of a device that has none.\n\n"
     "It returns False where Tarn is to make a pool."},
    {"_torch_statistics", statistics, METH_O,
     "_torch_statistics(device, /)\n--\n\n"
     "Return the counts of PyTorch's allocations on a device."},
    {"_torch_reset_peaks", reset_peaks, METH_O,
     "_torch_reset_peaks(device, /)\n--\n\n"
     "Reset the peaks of these counts and of the pool."},
    {"_torch_reset_totals", reset_totals, METH_O,
     "_torch_reset_totals(device, /)\n--\n\n"
     "Reset the sums of these counts."},
    {"_torch_open_segments", open_segments, METH_O,
     "_torch_open_segments(mr, /)\n--\n\n"
     "Return the addresses of two functions for a torch.cuda.MemPool."},
    {"_torch_close_segments", close_segments, METH_O,
     "_torch_close_segments(allocate, /)\n--\n\n"
     "Close the functions, the first of which has this address."},
    {NULL, NULL, 0, NULL},
};

int tarn__torch_init(PyObject *module)
{
    return PyModule_AddFunctions(module, torch_functions);
}
