/* state.h -- what the files of the extension share: the module's state and a few helpers.
 *
 * The module has one file a type. Each file offers `int tarn__add_<thing>(PyObject
 * *module)`, which makes its type, keeps it in the state and adds it to the module (-1
 * with an exception set on failure); module.c calls them in the order of its table.
 *
 * No static PyObject anywhere: all of it is in the state, which a method finds with
 * tarn__state_of(Py_TYPE(self)), also in classes derived in Python.
 */
#ifndef TARN_PYTHON_STATE_H
#define TARN_PYTHON_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tarn/tarn.h>

/* Every object that the state owns: name and what it is. Traverse and clear are made from
 * this list. */
#define TARN__STATE_OBJECTS(X)                                                   \
    X(TarnError) /* exceptions, error.c */                                       \
    X(OutOfMemoryError)                                                          \
    X(InvalidArgumentError)                                                      \
    X(NotSupportedError)                                                         \
    X(NoDriverError)                                                             \
    X(DriverInfo) /* named tuples, driver.c */                                   \
    X(DeviceInfo)                                                                \
    X(Stream)         /* type, stream.c */                                       \
    X(default_stream) /* the Streams that have names */                          \
    X(legacy_stream)                                                             \
    X(per_thread_stream)                                                         \
    X(no_stream)                                                                 \
    X(DeviceMemoryResource) /* types, resource.c */                              \
    X(UpstreamResourceAdaptor)                                                   \
    X(base_allocate)   /* DeviceMemoryResource.allocate, .deallocate: a class */ \
    X(base_deallocate) /* that has others writes its own memory */               \
    X(Statistics)      /* named tuples */                                        \
    X(DeferredFrees)                                                             \
    X(resource_types) /* dict: name of a C resource -> class of tarn.mr */       \
    X(registered)     /* dict: device -> what Python set there, device.c */      \
    X(served)         /* what was asked for last, of those */                    \
    X(DeviceBuffer)   /* type, buffer.c */                                       \
    X(name_ptr)       /* names of its arguments, interned */                     \
    X(name_size)                                                                 \
    X(name_stream)                                                               \
    X(name_mr)                                                                   \
    X(Pointer) /* types, pointer.c, memory.c, manager.c, plugin.c, log.c */      \
    X(MemoryPointer)                                                             \
    X(Plugin)                                                                    \
    X(Manager)                                                                   \
    X(IpcMemory) /* type, ipc.c */                                               \
    X(Log)                                                                       \
    X(Announcement) /* types, capture.c */                                       \
    X(GraphMemory)

typedef struct tarn__state {
#define X(name) PyObject *name;
    TARN__STATE_OBJECTS(X)
#undef X
    int served_device; /* of `served` */
} tarn__state;

extern struct PyModuleDef tarn__module;

/* The state of the module; of the module that a type of ours, or a class derived from
 * one, belongs to. At exit the module may be gone before the last objects are: then the
 * second is NULL. Borrowed. */
tarn__state *tarn__state_get(PyObject *module);
tarn__state *tarn__state_of(PyTypeObject *type);

/* False, with an exception set, if `state` is NULL. */
bool tarn__state_is_there(const tarn__state *state);

/* Make a heap type from `spec`, put it into `*slot` of the state and add it to the module
 * under its own name. `bases` may be NULL. */
int tarn__add_type(PyObject *module, PyType_Spec *spec, PyObject *bases, PyObject **slot);

/* A count of bytes from an argument: 0, or -1 with TypeError, or OverflowError for less
 * than 0 or more than a size_t has. */
int tarn__size_from(PyObject *object, size_t *out);

/* Arguments of a method without a tuple and a dict (METH_FASTCALL | METH_KEYWORDS), for calls
 * so short that parsing would be most of them. */
struct tarn__signature {
    const char *format; /* as for PyArg_ParseTupleAndKeywords(); all of them "O" */
    char *names[4];     /* the last is NULL */
    int required;       /* the first so many have to be given */
};

/* `given` gets one for each name, borrowed; NULL: not given. 0, or -1 with the exception that
 * PyArg_ParseTupleAndKeywords() has. */
int tarn__arguments(const struct tarn__signature *signature, PyObject *const *args,
                    Py_ssize_t count, PyObject *names, PyObject *given[3]);

/* The tables of types, in the order in which module.c calls them. */
int tarn__add_errors(PyObject *module);
int tarn__add_driver(PyObject *module);
int tarn__add_stream(PyObject *module);
int tarn__add_resource(PyObject *module);
int tarn__add_bridge(PyObject *module);
int tarn__add_maker(PyObject *module);
int tarn__add_pool(PyObject *module);
int tarn__add_capture(PyObject *module);
int tarn__add_pressure(PyObject *module);
int tarn__add_device(PyObject *module);
int tarn__add_buffer(PyObject *module);
int tarn__add_pointer(PyObject *module);
int tarn__add_deferred(PyObject *module);
int tarn__add_memory(PyObject *module);
int tarn__add_plugin(PyObject *module);
int tarn__add_manager(PyObject *module);
int tarn__add_ipc(PyObject *module);
int tarn__add_log(PyObject *module);
int tarn__add_nrt(PyObject *module);

/* --- the GIL, in calls that mostly give from what is at hand ---
 *
 * Such a call keeps the GIL, and lets it go when Tarn says that it is going to take long:
 * two changes of hands cost more than a block. Between begin and end no other Python code
 * runs on this thread unless the GIL has been let go. */
typedef struct tarn__hold {
    tarn_blocking_hook before; /* first, so that it is the hold too */
    tarn_blocking_hook *outer; /* who was told before */
    PyThreadState *away;       /* NULL: the GIL was kept */
} tarn__hold;

void tarn__hold_let_go(tarn_blocking_hook *before);

static inline void tarn__hold_begin(tarn__hold *hold)
{
    hold->before.call = tarn__hold_let_go;
    hold->away = NULL;
    hold->outer = tarn_set_blocking_hook(&hold->before);
}

static inline void tarn__hold_end(const tarn__hold *hold)
{
    tarn_set_blocking_hook(hold->outer);
    if (hold->away)
        PyEval_RestoreThread(hold->away);
}

/* --- error.c --- */

/* The calls of the extension that are under way on this thread, one within the other. */
struct tarn__calls {
    unsigned depth;          /* how many */
    struct tarn__kept *kept; /* exceptions that were raised beneath them, newest first */
};
extern _Thread_local struct tarn__calls tarn__calls
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Drop what is kept for the call at `depth`. The exception that is set stays. GIL held. */
void tarn__calls_drop(unsigned depth);

static inline void tarn__call_end(const unsigned *depth)
{
    if (tarn__calls.kept != NULL)
        tarn__calls_drop(*depth);
    tarn__calls.depth--;
}

/* The first declaration of each function that Python calls and that may call Python code
 * through Tarn: until it returns, and no longer, tarn__raise() can raise the exceptions of
 * that code again. The GIL is held where the function begins and where it returns. */
#define TARN__CALL                                                               \
    __attribute__((cleanup(tarn__call_end), unused)) const unsigned tarn__call = \
        ++tarn__calls.depth

/* Raise what Tarn last reported on this thread for `status`; returns NULL so that callers
 * can return it. Where the cause is an exception that Python code raised beneath this call
 * (see tarn__error_keep), that very exception is raised again; where the error message
 * quotes one, it is the `__cause__`. GIL held. */
PyObject *tarn__raise(tarn__state *state, tarn_status status);

/* Turn the exception that is set into a status, so that C code can pass it on:
 * MemoryError is TARN_OUT_OF_MEMORY, a TarnError its own status, all others
 * TARN_PLUGIN_FAILURE. The exception is kept until the call of the extension returns
 * beneath which it was raised. `state` may be NULL. GIL held. */
tarn_status tarn__error_keep(tarn__state *state, const char *who);

/* The exception that is set, taken away, as one object (NULL: none is); and put back. Put
 * takes over the reference. */
PyObject *tarn__exception_take(void);
void tarn__exception_put(PyObject *exception);

/* As tarn__raise(), from where nothing can be raised: it goes to sys.unraisablehook, with
 * `object` as its place. An exception that was set before stays. GIL held. */
void tarn__raise_unraisable(tarn__state *state, tarn_status status, PyObject *object);

/* --- stream.c --- */

/* The stream that an argument names: a Stream, an int (a CUstream handle), anything with
 * __cuda_stream__ (version 0), or a stream of a PyTorch or CuPy that does not have that yet. NULL
 * stands for an argument that was not given: the default stream. None is a TypeError, as RMM has
 * it. 0, or -1 with an exception set. */
int tarn__stream_from(tarn__state *state, PyObject *object, tarn_stream *out);

/* The default stream, legacy too, or none at all: after copies on these RMM waits. */
static inline bool tarn__stream_is_default(tarn_stream stream)
{
    return (uintptr_t)tarn_stream_handle(stream) <= (uintptr_t)TARN_STREAM_LEGACY;
}

/* The Stream over a value that C code passed; no owner. New reference. */
PyObject *tarn__stream_wrap(tarn__state *state, tarn_stream stream);

/* A Stream says that it captures from now on, and that this has ended. Within another
 * announcement of the same Stream the second does nothing, nor does it once the Stream was
 * closed. 0, or -1 with an exception set. */
int tarn__stream_begin_announcement(PyObject *stream);
int tarn__stream_end_announcement(PyObject *stream);

/* --- capture.c --- */

/* For a `with` around a capture on a Stream. New reference. */
PyObject *tarn__announcement_of(tarn__state *state, PyObject *stream);

/* --- pool.c --- */

/* The C resource of an object that is to be a pool, borrowed; NULL with an exception set. */
tarn_resource *tarn__pool_of(tarn__state *state, PyObject *object);

/* --- resource.c --- */

/* A DeviceMemoryResource or a class derived from it. */
typedef struct tarn__resource_object {
    PyObject_HEAD tarn_resource
        *native;               /* retained; NULL: not initialised, or written in Python */
    PyObject *upstream;        /* an adaptor's, as it was given; else NULL */
    tarn_trace_writer *writer; /* a logger's, retained; else NULL */
    int device;                /* where one written in Python has been put; -1: nowhere */
    PyObject *live;            /* set of the addresses that C code has from one written in
                                  Python, bridge.c; NULL: none yet */
    uint64_t live_life;        /* of the device's context, when they came */
    unsigned plain_version; /* of its type, when its allocate() and deallocate() were seen
                                  to be those of the base class; 0: not seen */
} tarn__resource_object;

/* The C resource of a DeviceMemoryResource, for C code to keep: retained. An object whose
 * class writes allocate() or deallocate() itself is called through a bridge, which keeps
 * the object alive. `device` is where such an object is put if it has no device yet (-1:
 * the current one). NULL with an exception set. */
tarn_resource *tarn__resource_from(tarn__state *state, PyObject *object, int device);

/* The Python object of a C resource: the very object where it came from Python, else a
 * new one of the class that fits. Takes over one reference to `resource`. New reference.
 */
PyObject *tarn__resource_wrap(tarn__state *state, tarn_resource *resource);

/* Give an object without a resource this one, which is taken over, and what it stands on
 * (NULL: nothing). -1 with an exception set where it has one: another thread, or Python
 * code that was called meanwhile, may have been quicker. */
int tarn__resource_adopt(tarn__state *state, tarn__resource_object *self,
                         tarn_resource *native, PyObject *upstream);

/* Let a resource go (NULL is allowed) where nothing can be raised: a refusal goes to
 * sys.unraisablehook, with `object` as its place. */
void tarn__resource_release(tarn__state *state, tarn_resource *resource,
                            PyObject *object);

/* As tarn__resource_release(), for a reference beside the one that `object`, which lives,
 * has itself: then it is not the last, and nothing can happen that takes time. */
void tarn__resource_drop(tarn__state *state, tarn_resource *resource, PyObject *object);

/* --- bridge.c: resources that are written in Python --- */

/* A C resource that calls `object`'s allocate() and deallocate(); keeps it alive. */
tarn_resource *tarn__bridge_create(tarn__state *state, PyObject *object, int device);

/* A stay in Python of C code that may be on any thread, and in the middle of a failure:
 * the exception that was set and, where `status` is a failure, the last error are the same
 * afterwards. Enter is false, and nothing has happened, where the interpreter ends or is
 * gone: then no Python code can be called from this thread any more. Leave returns
 * `status`. */
struct tarn__python {
    PyGILState_STATE gil;
    PyObject *raised;
};
bool tarn__python_enter(struct tarn__python *stay);

/* Has exit begun, on another thread? Then no resource written in Python can be called from
 * this one any more. */
bool tarn__python_is_ending(void);
tarn_status tarn__python_leave(const struct tarn__python *stay, tarn_status status);

/* The object behind a bridge, borrowed; NULL for all other resources. */
PyObject *tarn__bridge_object(const tarn_resource *resource);

/* --- device.c --- */

/* The Python object in charge of a device (-1: of the current one). New reference. */
PyObject *tarn__device_resource(tarn__state *state, int device);

/* --- nrt_allocator.c --- */

/* The allocator that takes memory from `resource`, whose memory the host has to reach.
 * Both stay until the process ends. The GIL is not needed. */
tarn_status tarn__nrt_allocator_over(tarn_resource *resource,
                                     NRT_ExternalAllocator **out);

#endif
