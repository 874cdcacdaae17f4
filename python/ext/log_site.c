/* log_site.c -- where in the user's program we are: the Location of a row.
 *
 * The stack is walked from the innermost frame out, to the first whose file is neither
 * Numba's nor Tarn's. Whether a file is one of theirs is found out once: code objects of
 * a module share one string, so its address is the key. A block that goes because of a
 * garbage collection has no place in the program that would mean anything: `<gc>`. One
 * that goes with the interpreter: `<exit>`.
 */
#include "log.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 8192 }; /* a power of two; a file more is "<other>" */

struct file {
    PyObject *name; /* owned for good, so that its address means this file */
    const char *path;
    bool internal; /* Numba's, Tarn's, or machinery between them and the user */
};

static struct file files[FILES]; /* GIL held */
static size_t file_count;
static char **internal_prefixes; /* ends with NULL; GIL held */
static bool exiting;
static _Thread_local int collecting; /* collections that this thread is in */

static bool has_internal_prefix(const char *path)
{
    for (char **prefix = internal_prefixes; prefix && *prefix; prefix++) {
        if (strncmp(path, *prefix, strlen(*prefix)) == 0)
            return true;
    }
    return false;
}

/* The entry of a file name; a new one if need be. NULL: the table is full. */
static const struct file *file_of(PyObject *name)
{
    size_t at = ((uintptr_t)name >> 4) * 0x9E3779B97F4A7C15u >> 20;

    for (;; at++) {
        struct file *file = &files[at & (FILES - 1)];
        if (file->name == name)
            return file;
        if (file->name)
            continue;
        const char *text = PyUnicode_AsUTF8(name);
        char *path = text && file_count < FILES / 2 ? strdup(text) : NULL;
        if (!text)
            PyErr_Clear();
        if (!path)
            return NULL;
        file_count++;
        *file = (struct file){Py_NewRef(name), path, has_internal_prefix(path)};
        return file;
    }
}

/* The site of a frame, or false if it is an internal one. */
static bool site_of_frame(PyFrameObject *frame, tarn_site *out)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    const struct file *file = file_of(code->co_filename);

    Py_DECREF(code);
    if (file && file->internal)
        return false;
    *out = (tarn_site){file ? file->path : "<other>",
                       file ? PyFrame_GetLineNumber(frame) : 0};
    return true;
}

static bool is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return exiting || Py_IsFinalizing();
#else
    return exiting || _Py_IsFinalizing();
#endif
}

tarn_site tarn__log_site(bool freeing)
{
    tarn_site site = {"<exit>", 0};

    if (freeing && is_finalizing())
        return site;
    if (freeing && collecting > 0)
        return (tarn_site){"<gc>", 0};
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    bool found = false;
    while (frame && !found) {
        found = site_of_frame(frame, &site);
        PyFrameObject *back = found ? NULL : PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    if (!found)
        site.file = is_finalizing() ? "<exit>" : "<none>";
    return site;
}

PyDoc_STRVAR(
    log_internal_doc,
    "log_internal(prefixes)\n\nFiles whose names begin with one of these are not the "
    "user's program: Location\npasses over their frames.");

static void free_prefixes(char **prefixes)
{
    for (char **prefix = prefixes; prefix && *prefix; prefix++)
        free(*prefix);
    free(prefixes);
}

static PyObject *log_internal(PyObject *module, PyObject *argument)
{
    PyObject *items = PySequence_Fast(argument, "log_internal() takes a sequence");

    (void)module;
    if (!items)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
    char **prefixes = calloc((size_t)count + 1, sizeof *prefixes);
    bool ok = prefixes != NULL;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        const char *text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items, i));
        prefixes[i] = text ? strdup(text) : NULL;
        ok = prefixes[i] != NULL;
    }
    Py_DECREF(items);
    if (!ok) {
        free_prefixes(prefixes);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    free_prefixes(internal_prefixes);
    internal_prefixes = prefixes;
    for (size_t i = 0; i < FILES; i++) {
        if (files[i].name)
            files[i].internal = has_internal_prefix(files[i].path);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_collecting_doc,
             "log_collecting(phase, info)\n\nFor gc.callbacks: what is freed between "
             "'start' and 'stop' has the Location <gc>.");

static PyObject *log_collecting(PyObject *module, PyObject *const *arguments,
                                Py_ssize_t count)
{
    (void)module;
    if (count < 1 || !PyUnicode_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "log_collecting(phase, info)");
        return NULL;
    }
    if (PyUnicode_CompareWithASCIIString(arguments[0], "start") == 0)
        collecting++;
    else if (collecting > 0)
        collecting--;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_exiting_doc, "log_exiting()\n\nExit has begun: what is freed from now "
                              "on has the Location <exit>.");

static PyObject *log_exiting(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    exiting = true;
    Py_RETURN_NONE;
}

PyMethodDef tarn__log_site_methods[] = {
    {"log_internal", log_internal, METH_O, log_internal_doc},
    {"log_collecting", (PyCFunction)(void (*)(void))log_collecting, METH_FASTCALL,
     log_collecting_doc},
    {"log_exiting", log_exiting, METH_NOARGS, log_exiting_doc},
    {NULL, NULL, 0, NULL},
};
