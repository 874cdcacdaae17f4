/* module.c -- the module `_nrt_python`: the contents of Numba's module of that name, on
 * libtarn.
 *
 * Numba's statistics functions show a view. It is off until a caller turns it on. Queries
 * fail while it is off, and the view stands still meanwhile (Numba's own tests rely on
 * all three). The real counters never stop; tarn.nrt.stats() has those.
 */
#include "nrt_python.h"

#include <tarn/version.h>

static PyObject *memsys_use_cpython_allocator(PyObject *Py_UNUSED(module),
                                              PyObject *Py_UNUSED(none))
{
    NRT_MemSys_set_allocator(PyMem_RawMalloc, PyMem_RawRealloc, PyMem_RawFree);
    Py_RETURN_NONE;
}

static PyObject *memsys_shutdown(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    NRT_MemSys_shutdown();
    Py_RETURN_NONE;
}

static PyObject *memsys_enable_stats(PyObject *Py_UNUSED(module),
                                     PyObject *Py_UNUSED(none))
{
    NRT_MemSys_enable_stats();
    Py_RETURN_NONE;
}

static PyObject *memsys_disable_stats(PyObject *Py_UNUSED(module),
                                      PyObject *Py_UNUSED(none))
{
    NRT_MemSys_disable_stats();
    Py_RETURN_NONE;
}

static PyObject *memsys_stats_enabled(PyObject *Py_UNUSED(module),
                                      PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(NRT_MemSys_stats_enabled());
}

static PyObject *counter(size_t (*read)(void))
{
    if (NRT_MemSys_stats_enabled())
        return PyLong_FromSize_t(read());
    PyErr_SetString(PyExc_RuntimeError, "NRT stats are disabled.");
    return NULL;
}

static PyObject *memsys_get_stats_alloc(PyObject *Py_UNUSED(module),
                                        PyObject *Py_UNUSED(none))
{
    return counter(NRT_MemSys_get_stats_alloc);
}

static PyObject *memsys_get_stats_free(PyObject *Py_UNUSED(module),
                                       PyObject *Py_UNUSED(none))
{
    return counter(NRT_MemSys_get_stats_free);
}

static PyObject *memsys_get_stats_mi_alloc(PyObject *Py_UNUSED(module),
                                           PyObject *Py_UNUSED(none))
{
    return counter(NRT_MemSys_get_stats_mi_alloc);
}

static PyObject *memsys_get_stats_mi_free(PyObject *Py_UNUSED(module),
                                          PyObject *Py_UNUSED(none))
{
    return counter(NRT_MemSys_get_stats_mi_free);
}

/* Numba before 0.57 passes its own atomics, compiled by LLVM. Tarn uses others. */
static PyObject *memsys_set_atomic_inc_dec(PyObject *Py_UNUSED(module),
                                           PyObject *Py_UNUSED(arguments))
{
    Py_RETURN_NONE;
}

static PyObject *memsys_set_atomic_cas(PyObject *Py_UNUSED(module),
                                       PyObject *Py_UNUSED(arguments))
{
    Py_RETURN_NONE;
}

static PyObject *meminfo_new(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *number, *owner;

    if (!PyArg_ParseTuple(arguments, "OO", &number, &owner))
        return NULL;
    void *data = PyLong_AsVoidPtr(number);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromVoidPtr(tarn__meminfo_of_owner(data, owner));
}

/* A size from the arguments; false with an exception set. A negative size is an error. */
static int parse_size(PyObject *arguments, size_t *out)
{
    Py_ssize_t size;

    if (!PyArg_ParseTuple(arguments, "n", &size))
        return 0;
    if (size < 0) {
        PyErr_Format(PyExc_ValueError,
                     "the size of a MemInfo cannot be negative: %zd bytes", size);
        return 0;
    }
    *out = (size_t)size;
    return 1;
}

static PyObject *meminfo_alloc(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    size_t size;

    if (!parse_size(arguments, &size))
        return NULL;
    return PyLong_FromVoidPtr(NRT_MemInfo_alloc(size));
}

static PyObject *meminfo_alloc_safe(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    size_t size;

    if (!parse_size(arguments, &size))
        return NULL;
    return PyLong_FromVoidPtr(NRT_MemInfo_alloc_safe(size));
}

#define PLAIN(name, doc) {#name, name, METH_NOARGS, #name "()\n--\n\n" doc}
#define TAKES(name, signature, doc) \
    {#name, name, METH_VARARGS, #name signature "\n--\n\n" doc}

static PyMethodDef methods[] = {
    PLAIN(memsys_use_cpython_allocator,
          "Allocate all blocks from CPython's raw allocator."),
    PLAIN(memsys_shutdown, "Call no destructor any more."),
    PLAIN(memsys_enable_stats, "Show the counters through this module."),
    PLAIN(memsys_disable_stats,
          "Hide the counters, which keep their values here meanwhile."),
    PLAIN(memsys_stats_enabled, "Return True if the counters are shown."),
    PLAIN(memsys_get_stats_alloc, "Return the number of allocated blocks."),
    PLAIN(memsys_get_stats_free, "Return the number of freed blocks."),
    PLAIN(memsys_get_stats_mi_alloc, "Return the number of allocated MemInfos."),
    PLAIN(memsys_get_stats_mi_free, "Return the number of freed MemInfos."),
    TAKES(memsys_set_atomic_inc_dec, "(*args)", "Do nothing; for Numba before 0.57."),
    TAKES(memsys_set_atomic_cas, "(*args)", "Do nothing; for Numba before 0.57."),
    TAKES(meminfo_new, "(address, owner, /)",
          "Return the address of a new MemInfo for memory of `owner`; 0: no memory."),
    TAKES(meminfo_alloc, "(bytes, /)",
          "Return the address of a new MemInfo with `bytes` bytes; 0: no memory."),
    TAKES(meminfo_alloc_safe, "(bytes, /)",
          "As meminfo_alloc(), filled with 0xCB, and with 0xDE when it is freed."),
    {0},
};

static int add_helpers(PyObject *module)
{
    PyObject *table = tarn__helpers_table();
    int code = table != NULL ? PyModule_AddObjectRef(module, "c_helpers", table) : -1;

    Py_XDECREF(table);
    return code;
}

static int module_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "Tarn's _nrt_python supports only the main interpreter");
        return -1;
    }
    if (tarn__meminfo_init(module) != 0 || add_helpers(module) != 0)
        return -1;
    return PyModule_AddStringConstant(module, "tarn_version", tarn_version());
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_nrt_python",
    .m_doc = "Numba's runtime (NRT), implemented by Tarn.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__nrt_python(void); /* Python.h declares none */

PyMODINIT_FUNC PyInit__nrt_python(void)
{
    return PyModuleDef_Init(&module_definition);
}
