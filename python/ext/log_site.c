/* log_site.c -- the current place in the user's program: the Location of a row.
 *
 * The stack is walked from the innermost frame out, to the first whose file is neither
 * Numba's nor Tarn's (stack.c). A block that a garbage collection frees has no meaningful
 * place in the program: `<gc>`. One that is freed with the interpreter: `<exit>`.
 *
 * The manager names the place of each of its calls, for the log of the process. A logger
 * adaptor finds it when it writes a row for any other caller. Such a caller is a
 * DeviceBuffer, or a plugin for Numba that takes its memory from Tarn. Frames of a plugin
 * are skipped, too: Numba's driver module, or a finalizer, has called them.
 */
#include "log_site.h"
#include "exception.h"
#include "gil.h"
#include "stack.h"

#include <stdatomic.h>
#include <string.h>

static bool exiting;
static atomic_uint depth = 1; /* frames of the stacks in rows; 1: the site tells it */
static _Thread_local int collecting; /* depth of garbage collections on this thread */

/* A frame of the walk, and where it is. */
struct place {
    PyFrameObject *frame; /* owned; NULL: the stack is at its end */
    struct tarn__stack_place where;
};

static void look_at(struct place *place, PyFrameObject *frame)
{
    *place = (struct place){.frame = frame};
    if (frame)
        place->where = tarn__stack_place_of(frame);
}

static void step_out(struct place *place)
{
    PyFrameObject *frame = place->frame;

    look_at(place, PyFrame_GetBack(frame));
    Py_DECREF(frame);
}

static bool is_internal(const struct place *place)
{
    return place->frame && place->where.internal;
}

static tarn_site site_at(const struct place *place)
{
    if (!place->where.file)
        return (tarn_site){"<other>", 0};
    return (tarn_site){place->where.file, place->where.line};
}

enum { PLUGIN_FRAMES = 8 };

/* Skip the frames of a plugin: at most so many, followed by code that calls plugins. The
 * place is at its end if they are not a plugin's. */
static void pass_plugin(struct place *place)
{
    for (int i = 0; i < PLUGIN_FRAMES && place->frame && !is_internal(place); i++)
        step_out(place);
    if (place->where.calls_plugins)
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

tarn_stack tarn__log_site_stack(const tarn_site *site)
{
    unsigned frames = atomic_load_explicit(&depth, memory_order_relaxed);

    /* A thread of native code can have a state of Python, and no frame. */
    bool has_stack = site->line > 0 || strcmp(site->file, "<none>") == 0;

    return frames > 1 && has_stack ? tarn_stack_capture(frames) : TARN_STACK_UNKNOWN;
}

void tarn__log_site_find(bool freeing, tarn_site *site, tarn_stack *stack)
{
    struct tarn__gil_stay stay;

    *stack = TARN_STACK_UNKNOWN;
    if (!is_finalizing() && PyGILState_GetThisThreadState() == NULL) {
        *site = (tarn_site){"<none>", 0};
        unsigned frames = atomic_load_explicit(&depth, memory_order_relaxed);
        if (frames > 1)
            *stack = tarn_stack_capture(frames); /* native frames */
        return;
    }
    *site = (tarn_site){"<exit>", 0};
    if (is_finalizing() || !tarn__gil_enter(&stay))
        return;
    *site = tarn__log_site(freeing);
    *stack = tarn__log_site_stack(site);
    tarn__gil_leave(&stay, TARN_OK);
}

void tarn__log_site_set_finder(void)
{
    tarn_site_set_finder(find_site);
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

bool tarn__log_site_begin_exit(void)
{
    bool is_first = !exiting;

    exiting = true;
    return is_first;
}

PyDoc_STRVAR(log_set_depth_doc, "log_set_depth(frames, /)\n--\n\n"
                                "Set the most frames of the call stack of a row.");

static PyObject *log_set_depth(PyObject *module, PyObject *argument)
{
    unsigned long frames = PyLong_AsUnsignedLong(argument);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    atomic_store(&depth,
                 frames < TARN_STACK_DEPTH_MAX ? (unsigned)frames : TARN_STACK_DEPTH_MAX);
    Py_RETURN_NONE;
}

PyMethodDef tarn__log_site_methods[] = {
    {"log_set_depth", log_set_depth, METH_O, log_set_depth_doc},
    {"log_collecting", (PyCFunction)(void (*)(void))log_collecting, METH_FASTCALL,
     log_collecting_doc},
    {NULL, NULL, 0, NULL},
};
