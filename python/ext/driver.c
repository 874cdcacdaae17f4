/* driver.c -- the loaded driver, and its devices. */
#include "error.h"
#include "module.h"

#include <string.h>

static tarn__state *state_from(PyObject *module)
{
    return tarn__state_get(module);
}

PyDoc_STRVAR(
    driver_open_doc,
    "open_driver(path=None)\n--\n\n"
    "Open the GPU driver of this process.\n\n"
    "path: a library, or \"sim\" for the driver simulator that comes with Tarn. None:\n"
    "the environment variable TARN_DRIVER, else libcuda.so.1. All other calls open\n"
    "the driver as with None when they need it. Opening the same driver again has no\n"
    "effect.\n\n"
    "Raises NoDriverError if the driver cannot be loaded, is older than CUDA 12.0, or\n"
    "has no device; TarnError if another driver is open.");

static PyObject *driver_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    PyObject *path = Py_None, *bytes = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:open_driver", names, &path))
        return NULL;
    if (path != Py_None && !PyUnicode_FSConverter(path, &bytes))
        return NULL;

    const char *name = bytes != NULL ? PyBytes_AS_STRING(bytes) : NULL;
    tarn_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_open(name);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(bytes);
    if (status != TARN_OK)
        return tarn__error_raise(state_from(module), status);
    Py_RETURN_NONE;
}

/* Fill a named tuple; takes over the references, any of which may be NULL for a failure.
 */
static PyObject *named_tuple(PyObject *type, PyObject *const *values, Py_ssize_t count)
{
    PyObject *tuple = PyStructSequence_New((PyTypeObject *)type);
    bool complete = tuple != NULL;

    for (Py_ssize_t i = 0; i < count; i++) {
        complete = complete && values[i] != NULL;
        if (tuple != NULL)
            PyStructSequence_SetItem(tuple, i, values[i]);
        else
            Py_XDECREF(values[i]);
    }
    if (complete)
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

PyDoc_STRVAR(
    driver_info_doc,
    "driver_info()\n--\n\n"
    "Return the properties of the driver, as a DriverInfo.\n\n"
    "It opens the driver if none is open. Raises NoDriverError if there is none.");

static PyObject *driver_info(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn__state *state = state_from(module);
    tarn_driver_info info;
    tarn_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_get_info(&info);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    PyObject *values[] = {
        PyUnicode_DecodeFSDefault(info.path),
        PyLong_FromLong(info.version),
        PyBool_FromLong(info.is_simulator),
        PyLong_FromLong(info.device_count),
    };
    return named_tuple(state->DriverInfo, values, sizeof values / sizeof *values);
}

PyDoc_STRVAR(
    device_info_doc,
    "device_info(device=0)\n--\n\n"
    "Return the properties of a device, as a DeviceInfo.\n\n"
    "device: number of the device. The call creates its primary context.\n\n"
    "Raises InvalidArgumentError if there is no such device, and NoDriverError.");

static PyObject *device_info(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    tarn__state *state = state_from(module);
    tarn_device_info info;
    tarn_status status;
    int device = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:device_info", names, &device))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_device_info(device, &info);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    PyObject *values[] = {
        PyUnicode_DecodeUTF8(info.name, (Py_ssize_t)strlen(info.name), "replace"),
        PyUnicode_DecodeUTF8(info.uuid, (Py_ssize_t)strlen(info.uuid), "replace"),
        Py_BuildValue("(ii)", info.compute_major, info.compute_minor),
        PyLong_FromSize_t(info.total_bytes),
        PyLong_FromSize_t(info.free_bytes),
        PyBool_FromLong(info.has_memory_pools),
        PyBool_FromLong(info.has_vmm),
        PyBool_FromLong(info.has_managed),
        PyBool_FromLong(info.has_host_mapping),
        PyBool_FromLong(info.has_legacy_ipc),
        PyBool_FromLong(info.has_concurrent_managed),
        PyBool_FromLong(info.has_rdma),
        PyBool_FromLong(info.has_dma_buf),
        PyBool_FromLong(info.has_fabric),
    };
    return named_tuple(state->DeviceInfo, values, sizeof values / sizeof *values);
}

PyDoc_STRVAR(current_device_doc,
             "current_device()\n--\n\n"
             "Return the number of the device of this thread's current context.\n\n"
             "It is 0 if no context is current. Raises NoDriverError.");

static PyObject *current_device(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn_status status;
    int device = 0;

    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_current_device(&device);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state_from(module), status);
    return PyLong_FromLong(device);
}

PyDoc_STRVAR(
    synchronize_doc,
    "synchronize(device=0)\n--\n\n"
    "Wait until all work of a device's primary context is done.\n\n"
    "The call ends every stream capture in that context. It releases the GIL.\n\n"
    "Raises InvalidArgumentError if there is no such device, TarnError for the error\n"
    "of earlier work.");

static PyObject *synchronize(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    tarn_status status;
    int device = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:synchronize", names, &device))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_driver_synchronize(device);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state_from(module), status);
    Py_RETURN_NONE;
}

static PyStructSequence_Field driver_fields[] = {
    {"path", "Path of the loaded library, a str."},
    {"version", "Version as in cuDriverGetVersion: 13000 is CUDA 13.0."},
    {"is_simulator", "Whether it is the driver simulator, which runs no kernels."},
    {"device_count", "Number of devices, at least 1."},
    {NULL, NULL},
};
static PyStructSequence_Desc driver_desc = {
    "tarn.DriverInfo", "Properties of the open driver, as the driver reports them.",
    driver_fields, 4};

static PyStructSequence_Field device_fields[] = {
    {"name", "Name that the driver reports."},
    {"uuid", "UUID of the device, such as \"GPU-xxxxxxxx-xxxx-...\"."},
    {"compute_capability", "Compute capability, as (major, minor)."},
    {"total_bytes", "Device memory in total, in bytes."},
    {"free_bytes", "Free device memory at the time of the call, in bytes."},
    {"has_memory_pools", "Whether cuMemAllocAsync works."},
    {"has_vmm", "Whether cuMemCreate and cuMemMap work."},
    {"has_managed", "Whether cuMemAllocManaged works."},
    {"has_host_mapping", "Whether the device can map host memory."},
    {"has_legacy_ipc", "Whether cuIpcGetMemHandle works."},
    {"has_concurrent_managed", "Whether host and device may use managed memory at once."},
    {"has_rdma", "Whether exportable memory is capable of GPUDirect RDMA."},
    {"has_dma_buf", "Whether tarn.ipc.dma_buf() works."},
    {"has_fabric",
     "Whether the device has fabric handles. A process also needs an IMEX channel."},
    {NULL, NULL},
};
static PyStructSequence_Desc device_desc = {
    "tarn.DeviceInfo", "Properties of one device, as the driver reports them.",
    device_fields, 14};

static PyMethodDef driver_functions[] = {
    {"open_driver", (PyCFunction)(void (*)(void))driver_open,
     METH_VARARGS | METH_KEYWORDS, driver_open_doc},
    {"driver_info", driver_info, METH_NOARGS, driver_info_doc},
    {"device_info", (PyCFunction)(void (*)(void))device_info,
     METH_VARARGS | METH_KEYWORDS, device_info_doc},
    {"current_device", current_device, METH_NOARGS, current_device_doc},
    {"synchronize", (PyCFunction)(void (*)(void))synchronize,
     METH_VARARGS | METH_KEYWORDS, synchronize_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__driver_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    state->DriverInfo = (PyObject *)PyStructSequence_NewType(&driver_desc);
    state->DeviceInfo = (PyObject *)PyStructSequence_NewType(&device_desc);
    if (state->DriverInfo == NULL || state->DeviceInfo == NULL)
        return -1;
    if (PyModule_AddType(module, (PyTypeObject *)state->DriverInfo) != 0 ||
        PyModule_AddType(module, (PyTypeObject *)state->DeviceInfo) != 0)
        return -1;
    return PyModule_AddFunctions(module, driver_functions);
}
