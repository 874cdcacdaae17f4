/* arguments.c -- arguments of methods: sizes, and calls too short for a tuple and a dict.
 */
#include "arguments.h"

int tarn__arguments_size(PyObject *object, size_t *out)
{
    PyObject *number = PyNumber_Index(object);
    size_t size = number != NULL ? PyLong_AsSize_t(number) : 0;

    Py_XDECREF(number);
    if (PyErr_Occurred())
        return -1;
    *out = size;
    return 0;
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
