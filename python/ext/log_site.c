/* log_site.c -- the current place in the user's program: the Location of a row.
 *
 * The stack is walked from the innermost frame out, to the first whose file is neither
 * Numba's nor Tarn's. Each file is classified once: code objects of a module share one
 * string, so its address is the key. A block that a garbage collection frees has no
 * meaningful place in the program: `<gc>`. One that is freed with the interpreter:
 * `<exit>`.
 *
 * The manager names the place of each of its calls, for the log of the process. A logger
 * adaptor finds it when it writes a row for any other caller. Such a caller is a
 * DeviceBuffer, or a plugin for Numba that takes its memory from Tarn. Frames of a plugin
 * are skipped, too: Numba's driver module, or a finalizer, has called them.
 */
#include "log_site.h"
#include "exception.h"
#include "gil.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 8192 }; /* a power of two; further files are "<other>" */

struct file {
    PyObject *name; /* owned permanently, so that its address means this file */
    const char *path;
    bool internal;      /* Numba's, Tarn's, or machinery between them and the user */
    bool calls_plugins; /* of these: Numba's driver module, and weakref */
};

static struct file files[FILES]; /* GIL held */
static size_t file_count;
static char **internal_prefixes; /* ends with NULL; GIL held */
static bool exiting;
static _Thread_local int collecting; /* depth of garbage collections on this thread */

static bool has_internal_prefix(const char *path)
{
    for (char **prefix = internal_prefixes; prefix && *prefix; prefix++) {
        if (strncmp(path, *prefix, strlen(*prefix)) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *path, const char *end)
{
    size_t bytes = strlen(path), wanted = strlen(end);

    return bytes >= wanted && strcmp(path + bytes - wanted, end) == 0;
}

/* Classify a file by the current prefixes. */
static void classify(struct file *file)
{
    file->internal = has_internal_prefix(file->path);
    file->calls_plugins =
        file->internal && (ends_with(file->path, "/cudadrv/driver.py") ||
                           ends_with(file->path, "/weakref.py"));
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
        *file = (struct file){.name = Py_NewRef(name), .path = path};
        classify(file);
        return file;
    }
}

/* A frame of the walk: its file (NULL: not known), and the frame, owned. */
struct place {
    PyFrameObject *frame; /* NULL: the stack is at its end */
    const struct file *file;
};

static void look_at(struct place *place, PyFrameObject *frame)
{
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;

    place->frame = frame;
    place->file = code ? file_of(code->co_filename) : NULL;
    Py_XDECREF(code);
}

static void step_out(struct place *place)
{
    PyFrameObject *frame = place->frame;

    look_at(place, PyFrame_GetBack(frame));
    Py_DECREF(frame);
}

static bool is_internal(const struct place *place)
{
    return place->frame && place->file && place->file->internal;
}

static tarn_site site_at(const struct place *place)
{
    if (!place->file)
        return (tarn_site){"<other>", 0};
    return (tarn_site){place->file->path, PyFrame_GetLineNumber(place->frame)};
}

enum { PLUGIN_FRAMES = 8 };

/* Skip the frames of a plugin: at most so many, followed by code that calls plugins. The
 * place is at its end if they are not a plugin's. */
static void pass_plugin(struct place *place)
{
    for (int i = 0; i < PLUGIN_FRAMES && place->frame && !is_internal(place); i++)
        step_out(place);
    if (is_internal(place) && place->file->calls_plugins)
        while (is_internal(place))
            step_out(place);
    else
        Py_CLEAR(place->frame);
}

/* The first frame of the program. If that is also the innermost one, it may be a plugin
 * instead. */
static bool find_place(tarn_site *out)
{
    struct place place;

    look_at(&place, PyThreadState_GetFrame(PyThreadState_Get()));
    bool is_innermost = !is_internal(&place);
    while (is_internal(&place))
        step_out(&place);
    bool found = place.frame != NULL;
    if (found)
        *out = site_at(&place);
    if (found && is_innermost) {
        pass_plugin(&place);
        if (place.frame)
            *out = site_at(&place);
    }
    Py_XDECREF(place.frame);
    return found;
}

static bool is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return exiting || Py_IsFinalizing();
#else
    return exiting || _Py_IsFinalizing();
#endif
}

/* The place where the program is. No exception is set before; one may be after. */
static tarn_site running_site(void)
{
    tarn_site site = {NULL, 0};

    if (!find_place(&site))
        site.file = is_finalizing() ? "<exit>" : "<none>";
    return site;
}

tarn_site tarn__log_site(bool freeing)
{
    if (freeing && is_finalizing())
        return (tarn_site){"<exit>", 0};
    if (freeing && collecting > 0)
        return (tarn_site){"<gc>", 0};
    PyObject *raised = tarn__exception_take(); /* the exception may be the reason for
                                                * the free */
    tarn_site site = running_site();
    tarn__exception_put(raised);
    return site;
}

/* For a logger: the GIL may be held or not, and the thread may be unknown to Python. */
static tarn_site find_site(bool freeing)
{
    struct tarn__gil_stay stay;

    if (!is_finalizing() && PyGILState_GetThisThreadState() == NULL)
        return (tarn_site){"<none>", 0};
    if (is_finalizing() || !tarn__gil_enter(&stay))
        return (tarn_site){"<exit>", 0};
    tarn_site site = tarn__log_site(freeing);
    tarn__gil_leave(&stay, TARN_OK);
    return site;
}

void tarn__log_site_set_finder(void)
{
    tarn_site_set_finder(find_site);
}

PyDoc_STRVAR(log_internal_doc,
             "log_internal(paths, /)\n--\n\n"
             "Set the path prefixes of files that are not the user's program.\n\n"
             "The Location of a row skips their frames.");

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
            classify(&files[i]);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_collecting_doc,
             "log_collecting(phase, info, /)\n--\n\n"
             "Record a garbage collection; an entry of gc.callbacks.\n\n"
             "Blocks that are freed between 'start' and 'stop' have the Location <gc>.");

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

PyDoc_STRVAR(log_exiting_doc,
             "log_exiting()\n--\n\n"
             "Record that exit has begun: later frees have the Location <exit>.");

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
