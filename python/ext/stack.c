/* stack.c -- Python's frames as frames of the table of stacks.
 *
 * A capture walks the frames from the innermost one out. Each frame is an instruction of a
 * code object. The cache has the frames of the table for the instructions seen last. A
 * hit costs a few comparisons. A miss decodes the line, and looks up the names.
 *
 * An entry of the cache means the same forever: it owns the table of lines, the file and
 * the name of the code object, and compares them by address. The code object itself is
 * not kept. The three are of types whose end runs no Python code. So neither a hit nor a
 * miss does; the garbage collector is off meanwhile, since a frame object may be made.
 *
 * The module of a code object is the user's or not, by the prefix of its file. The log
 * passes the frames of others (log_site.c).
 */
#include "stack.h"
#include "gil.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 1024, WAYS = 4 }; /* of the cache; SETS is a power of two */

/* An instruction of a code object; the references are strong. */
struct instruction {
    PyObject *lines, *file, *name;
    int first_line, offset;
};

struct entry {
    struct instruction at; /* `lines` is NULL: unused */
    struct tarn__stack_place place;
};

static struct {
    struct entry entries[WAYS];
    unsigned char oldest;
} cache[SETS];                   /* GIL held */
static char **internal_prefixes; /* ends with NULL; GIL held */

/* --- places ------------------------------------------------------------------------- */

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

/* A string as UTF-8; what has no UTF-8 is "<other>". */
static const char *text_of(PyObject *string)
{
    const char *text = PyUnicode_AsUTF8(string);

    if (text == NULL)
        PyErr_Clear();
    return text != NULL ? text : "<other>";
}

/* Find a place without the cache. */
static struct tarn__stack_place find_place(PyCodeObject *code, int offset)
{
    tarn_stack_frame frame = {.function = text_of(code->co_qualname),
                              .file = text_of(code->co_filename),
                              .line = PyCode_Addr2Line(code, offset)};
    struct tarn__stack_place place = {.frame = tarn_stack_add_frame(&frame)};

    place.internal = has_internal_prefix(frame.file);
    place.calls_plugins =
        place.internal && (ends_with(frame.file, "/cudadrv/driver.py") ||
                           ends_with(frame.file, "/weakref.py"));
    if (place.frame != 0) {
        place.file = frame.file;
        place.line = frame.line > 0 ? frame.line : 0;
    }
    return place;
}

static bool is_equal(const struct instruction *one, const struct instruction *two)
{
    return one->lines == two->lines && one->offset == two->offset &&
           one->file == two->file && one->name == two->name &&
           one->first_line == two->first_line;
}

/* Whether the cache may own the objects: their end runs no Python code. */
static bool is_plain(const struct instruction *at)
{
    return PyBytes_CheckExact(at->lines) && PyUnicode_CheckExact(at->file) &&
           PyUnicode_CheckExact(at->name);
}

static void release(struct entry *entry)
{
    Py_CLEAR(entry->at.lines);
    Py_CLEAR(entry->at.file);
    Py_CLEAR(entry->at.name);
}

/* Put a place into its set, over the oldest entry. */
static void keep(size_t set, const struct instruction *at,
                 const struct tarn__stack_place *place)
{
    struct entry *entry = &cache[set].entries[cache[set].oldest++ % WAYS];

    if (place->frame == 0 || !is_plain(at))
        return;
    release(entry);
    *entry = (struct entry){.at = *at, .place = *place};
    Py_INCREF(at->lines);
    Py_INCREF(at->file);
    Py_INCREF(at->name);
}

static struct tarn__stack_place place_in(PyCodeObject *code, int offset)
{
    const struct instruction at = {.lines = code->co_linetable,
                                   .file = code->co_filename,
                                   .name = code->co_qualname,
                                   .first_line = code->co_firstlineno,
                                   .offset = offset};
    uint64_t hash = ((uintptr_t)at.lines >> 4) + (uint64_t)(unsigned)offset * 0x10001;
    size_t set = (size_t)(hash * 0x9e3779b97f4a7c15u >> 32) & (SETS - 1);

    for (int i = 0; i < WAYS; i++)
        if (is_equal(&cache[set].entries[i].at, &at))
            return cache[set].entries[i].place;
    struct tarn__stack_place place = find_place(code, offset);
    keep(set, &at, &place);
    return place;
}

struct tarn__stack_place tarn__stack_place_of(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    struct tarn__stack_place place = place_in(code, PyFrame_GetLasti(frame));

    Py_DECREF(code); /* the frame has it, too */
    return place;
}

/* --- captures ----------------------------------------------------------------------- */

tarn_stack tarn__stack_capture(unsigned depth)
{
    uint32_t frames[TARN_STACK_DEPTH_MAX];
    unsigned count = 0;
    int collects = PyGC_Disable();
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());

    while (frame != NULL && count < depth && count < TARN_STACK_DEPTH_MAX) {
        frames[count++] = tarn__stack_place_of(frame).frame;
        PyFrameObject *outer = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    if (collects)
        PyGC_Enable();
    return tarn_stack_add(frames, count);
}

/* For libtarn: the GIL may be held or not, and the thread may be unknown to Python. */
static tarn_stack find_stack(unsigned depth)
{
    struct tarn__gil_stay stay;

    if (PyGILState_GetThisThreadState() == NULL || !tarn__gil_enter(&stay))
        return TARN_STACK_UNKNOWN;
    tarn_stack stack = tarn__stack_capture(depth);
    tarn__gil_leave(&stay, TARN_OK);
    return stack;
}

/* --- for Python --------------------------------------------------------------------- */

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
    for (size_t set = 0; set < SETS; set++)
        for (int i = 0; i < WAYS; i++)
            release(&cache[set].entries[i]);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    stack_frames_doc,
    "stack_frames(stack, /)\n--\n\n"
    "Return the frames of a call stack, the innermost first.\n\n"
    "A frame is a tuple (function, file, line, offset, build_id). `build_id` is\n"
    "None in a frame of Python. An unknown stack has no frames.");

/* A frame as a tuple. Other languages may have any bytes in their names. */
static PyObject *tuple_of(const tarn_stack_frame *frame)
{
    static const char errors[] = "backslashreplace";
    PyObject *function = PyUnicode_DecodeUTF8(
        frame->function, (Py_ssize_t)strlen(frame->function), errors);
    PyObject *file =
        PyUnicode_DecodeUTF8(frame->file, (Py_ssize_t)strlen(frame->file), errors);

    if (function == NULL || file == NULL) {
        Py_XDECREF(function);
        Py_XDECREF(file);
        return NULL;
    }
    return Py_BuildValue("(NNiKz)", function, file, frame->line,
                         (unsigned long long)frame->offset, frame->build_id);
}

static PyObject *stack_frames(PyObject *module, PyObject *argument)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    unsigned long stack = PyLong_AsUnsignedLong(argument);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    size_t count = stack <= UINT32_MAX ? tarn_stack_frames((tarn_stack)stack,
                                                           TARN_STACK_DEPTH_MAX, frames)
                                       : 0;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *tuple = tuple_of(&frames[i]);
        if (tuple == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, tuple);
    }
    return list;
}

static PyMethodDef stack_functions[] = {
    {"log_internal", log_internal, METH_O, log_internal_doc},
    {"_stack_frames", stack_frames, METH_O, stack_frames_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__stack_init(PyObject *module)
{
    memset(cache, 0, sizeof cache); /* it is that of an earlier interpreter */
    tarn_stack_set_finder(find_stack);
    return PyModule_AddFunctions(module, stack_functions);
}
