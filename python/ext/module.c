/* module.c -- the extension module tarn._tarn: its state, and the table of its contents.
 *
 * It is initialised in two phases, with all state in the module. It works in the main
 * interpreter only: resources written in Python are called from any thread through
 * PyGILState, which knows no other interpreter.
 */
#include "state.h"

tarn__state *tarn__state_get(PyObject *module)
{
    return PyModule_GetState(module);
}

/* The state of the newest module, while that exists. */
static tarn__state *last_state;

/* The garbage collector clears a class, its reference to the module included, before it
 * frees the last objects of it. That happens with a cycle through the class, and always
 * at exit. */
tarn__state *tarn__state_of(PyTypeObject *type)
{
    PyObject *module =
        type->tp_mro != NULL ? PyType_GetModuleByDef(type, &tarn__module) : NULL;

    if (module != NULL)
        return tarn__state_get(module);
    PyErr_Clear();
    return last_state;
}

int tarn__add_type(PyObject *module, PyType_Spec *spec, PyObject *bases, PyObject **slot)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
    if (type == NULL)
        return -1;
    *slot = type;
    return PyModule_AddType(module, (PyTypeObject *)type);
}

bool tarn__state_is_there(const tarn__state *state)
{
    if (state != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "tarn: the interpreter is exiting, the module can no longer be used");
    return false;
}

int tarn__size_from(PyObject *object, size_t *out)
{
    PyObject *number = PyNumber_Index(object);
    size_t size = number != NULL ? PyLong_AsSize_t(number) : 0;

    Py_XDECREF(number);
    if (PyErr_Occurred())
        return -1;
    *out = size;
    return 0;
}

void tarn__gil_hold_release(tarn_blocking_hook *before)
{
    ((tarn__gil_hold *)before)->away = PyEval_SaveThread();
}

/* The place of a keyword, or -1. */
static int place_of(const struct tarn__signature *signature, PyObject *name)
{
    for (int i = 0; signature->names[i] != NULL; i++)
        if (PyUnicode_CompareWithASCIIString(name, signature->names[i]) == 0)
            return i;
    return -1;
}

/* The usual call: false for any other form. */
static bool match(const struct tarn__signature *signature, PyObject *const *args,
                  Py_ssize_t count, PyObject *names, PyObject *given[3])
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;

    for (int i = 0; i < 3; i++)
        given[i] = i < count ? args[i] : NULL;
    for (Py_ssize_t i = 0; i < named; i++) {
        int place = place_of(signature, PyTuple_GET_ITEM(names, i));
        if (place < 0 || given[place] != NULL)
            return false;
        given[place] = args[count + i];
    }
    for (int i = 0; i < signature->required; i++)
        if (given[i] == NULL)
            return false;
    return count < 3 ? count == 0 || signature->names[count - 1] != NULL
                     : count == 3 && signature->names[2] != NULL;
}

/* The same arguments as a tuple and a dict, which live as long as the caller's. */
static int parse(const struct tarn__signature *signature, PyObject *const *args,
                 Py_ssize_t count, PyObject *names, PyObject *given[3])
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    PyObject *tuple = PyTuple_New(count), *dict = PyDict_New();
    bool failed = tuple == NULL || dict == NULL;

    for (Py_ssize_t i = 0; i < count && !failed; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < named && !failed; i++)
        failed = PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[count + i]) != 0;
    given[0] = given[1] = given[2] = NULL;
    failed = failed || !PyArg_ParseTupleAndKeywords(tuple, dict, signature->format,
                                                    (char **)signature->names, &given[0],
                                                    &given[1], &given[2]);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return failed ? -1 : 0;
}

int tarn__arguments(const struct tarn__signature *signature, PyObject *const *args,
                    Py_ssize_t count, PyObject *names, PyObject *given[3])
{
    if (match(signature, args, count, names, given))
        return 0;
    return parse(signature, args, count, names, given);
}

static int (*const parts[])(PyObject *module) = {
    tarn__add_errors,  tarn__add_driver,   tarn__add_stream,  tarn__add_resource,
    tarn__add_maker,   tarn__add_pool,     tarn__add_capture, tarn__add_oom_callbacks,
    tarn__add_device,  tarn__add_buffer,   tarn__add_pointer, tarn__add_memory,
    tarn__add_manager, tarn__add_plugin,   tarn__add_ipc,     tarn__add_log,
    tarn__add_nrt,     tarn__add_deferred, tarn__add_bridge,
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
    last_state = tarn__state_get(module);
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

    if (last_state == state)
        last_state = NULL;
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
