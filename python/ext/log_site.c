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

static bool exiting;
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
    if (is_internal(place) && place->where.calls_plugins)
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
    {"log_collecting", (PyCFunction)(void (*)(void))log_collecting, METH_FASTCALL,
     log_collecting_doc},
    {"log_exiting", log_exiting, METH_NOARGS, log_exiting_doc},
    {NULL, NULL, 0, NULL},
};
