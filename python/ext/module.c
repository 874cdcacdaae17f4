/* module.c -- the extension module tarn._tarn: the table of its contents.
 *
 * It is initialised in two phases, with all state in the module. It works in the main
 * interpreter only: resources written in Python are called from any thread through
 * PyGILState, which knows no other interpreter.
 */
#include "module.h"

static int (*const parts[])(PyObject *module) = {
    tarn__error_init,         tarn__driver_init,        tarn__stream_init,
    tarn__resource_init,      tarn__maker_init,         tarn__pool_init,
    tarn__capture_init,       tarn__oom_callback_init,  tarn__device_init,
    tarn__buffer_init,        tarn__copies_init,        tarn__pointer_init,
    tarn__memory_init,        tarn__manager_init,       tarn__plugin_init,
    tarn__ipc_init,           tarn__live_init,          tarn__log_init,
    tarn__log_methods_init,   tarn__log_observer_init,  tarn__nrt_init,
    tarn__deferred_init,      tarn__capsule_init,       tarn__gil_init,
    tarn__dlpack_export_init, tarn__dlpack_import_init, tarn__stack_init,
    tarn__torch_init,         tarn__tracker_init,       tarn__guard_init,
};

/* 3.12 checks the slot below only for isolated interpreters; 3.11 ignores it. */
static int check_interpreter(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        return 0;
    PyErr_SetString(PyExc_ImportError,
                    "tarn supports only the main interpreter, not subinterpreters: any "
                    "thread can call resources written in Python");
    return -1;
}

/* Another project's package may have replaced files of this one: tarn/_clash.py. */
static int check_clash(PyObject *module)
{
    PyObject *file = PyModule_GetFilenameObject(module);
    PyObject *clash = NULL, *os_path = NULL, *directory = NULL, *done = NULL;

    if (file == NULL) {
        PyErr_Clear();
        return 0;
    }
    if ((clash = PyImport_ImportModule("tarn._clash")) != NULL &&
        (os_path = PyImport_ImportModule("os.path")) != NULL &&
        (directory = PyObject_CallMethod(os_path, "dirname", "O", file)) != NULL)
        done = PyObject_CallMethod(clash, "warn", "O", directory);
    Py_XDECREF(clash);
    Py_XDECREF(os_path);
    Py_XDECREF(directory);
    Py_XDECREF(done);
    Py_DECREF(file);
    return done != NULL ? 0 : -1;
}

static int module_exec(PyObject *module)
{
    if (check_interpreter() != 0 || check_clash(module) != 0)
        return -1;
    tarn__state_begin(tarn__state_get(module));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i](module) != 0)
            return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", tarn_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    tarn__state *state = tarn__state_get(module);
#define X(name) Py_VISIT(state->name);
    TARN__STATE_OBJECTS(X)
#undef X
    return 0;
}

/* No m_clear: the last objects, at exit, still need the types and the named streams. Each
 * cycle through the module is one through a type, too, which the collector clears. */
static void module_free(void *module)
{
    tarn__state *state = tarn__state_get(module);

    tarn__state_end(state);
#define X(name) Py_CLEAR(state->name);
    TARN__STATE_OBJECTS(X)
#undef X
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

struct PyModuleDef tarn__module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tarn._tarn",
    .m_doc = "The C extension of Tarn's Python package.",
    .m_size = sizeof(tarn__state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__tarn(void); /* Python.h declares none */

PyMODINIT_FUNC PyInit__tarn(void)
{
    return PyModuleDef_Init(&tarn__module);
}
