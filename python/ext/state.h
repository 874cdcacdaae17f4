/* state.h -- the shared declarations of the extension: the module's state and a few
 * functions.
 *
 * The module has one file per type. Each file offers `int tarn__add_<thing>(PyObject
 * *module)`. It creates its type, keeps it in the state and adds it to the module (-1
 * with an exception set on failure). module.c calls these functions in the order of its
 * table.
 *
 * No static PyObject anywhere: all of them are in the state, which a method finds with
 * tarn__state_of(Py_TYPE(self)), also in classes derived in Python.
 */
#ifndef TARN_PYTHON_STATE_H
#define TARN_PYTHON_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tarn/tarn.h>

/* Every object that the state owns, with its name. Traverse and clear are generated from
 * this list. */
#define TARN__STATE_OBJECTS(X)                                                         \
    X(TarnError) /* exceptions, error.c */                                             \
    X(OutOfMemoryError)                                                                \
    X(InvalidArgumentError)                                                            \
    X(NotSupportedError)                                                               \
    X(NoDriverError)                                                                   \
    X(DriverInfo) /* named tuples, driver.c */                                         \
    X(DeviceInfo)                                                                      \
    X(Stream)         /* type, stream.c */                                             \
    X(default_stream) /* the Streams that have names */                                \
    X(legacy_stream)                                                                   \
    X(per_thread_stream)                                                               \
    X(no_stream)                                                                       \
    X(DeviceMemoryResource) /* types, resource.c */                                    \
    X(UpstreamResourceAdaptor)                                                         \
    X(base_allocate)   /* DeviceMemoryResource.allocate, .deallocate: a class */       \
    X(base_deallocate) /* with other ones is a resource written in Python */           \
    X(Statistics)      /* named tuples */                                              \
    X(DeferredFrees)                                                                   \
    X(resource_types) /* dict: name of a C resource -> class of tarn.mr */             \
    X(registered)     /* dict: device -> the object that Python set there, device.c */ \
    X(served)         /* the last one returned */                                      \
    X(DeviceBuffer)   /* type, buffer.c */                                             \
    X(name_ptr)       /* names of its arguments, interned */                           \
    X(name_size)                                                                       \
    X(name_stream)                                                                     \
    X(name_mr)                                                                         \
    X(Pointer) /* types, pointer.c, memory.c, manager.c, plugin.c, log.c */            \
    X(MemoryPointer)                                                                   \
    X(Plugin)                                                                          \
    X(Manager)                                                                         \
    X(IpcMemory) /* type, ipc.c */                                                     \
    X(Log)                                                                             \
    X(Announcement) /* types, capture.c */                                             \
    X(GraphMemory)

typedef struct tarn__state {
#define X(name) PyObject *name;
    TARN__STATE_OBJECTS(X)
#undef X
    int served_device; /* of `served` */
} tarn__state;

extern struct PyModuleDef tarn__module;

/* The state of the module; and of the module of a type of ours, or of a class derived
 * from one. At exit the module may end before the last objects do: then the second is
 * NULL. Borrowed. */
tarn__state *tarn__state_get(PyObject *module);
tarn__state *tarn__state_of(PyTypeObject *type);

/* False, with an exception set, if `state` is NULL. */
bool tarn__state_is_there(const tarn__state *state);

/* Create a heap type from `spec`, put it into `*slot` of the state and add it to the
 * module under its own name. `bases` may be NULL. */
int tarn__add_type(PyObject *module, PyType_Spec *spec, PyObject *bases, PyObject **slot);

/* A number of bytes from an argument: 0, or -1 with TypeError, or OverflowError for a
 * negative number or one above SIZE_MAX. */
int tarn__size_from(PyObject *object, size_t *out);

/* Arguments of a method without a tuple and a dict (METH_FASTCALL | METH_KEYWORDS), for
 * calls so short that parsing would be most of their cost. */
struct tarn__signature {
    const char *format; /* as for PyArg_ParseTupleAndKeywords(); all of them "O" */
    char *names[4];     /* the last is NULL */
    int required;       /* the first so many are required */
};

/* `given` gets one for each name, borrowed; NULL: not given. 0, or -1 with the exception
 * of PyArg_ParseTupleAndKeywords(). */
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
int tarn__add_oom_callbacks(PyObject *module);
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

/* --- the GIL, in calls that mostly use immediately available memory ---
 *
 * Such a call keeps the GIL, and releases it when Tarn reports that the call is going to
 * take long: releasing and taking it costs more than an allocation. Between begin and end
 * no other Python code runs on this thread unless the GIL was released. */
typedef struct tarn__gil_hold {
    tarn_blocking_hook before; /* first: the hook's address is the hold's too */
    tarn_blocking_hook *outer; /* the hook that was set before */
    PyThreadState *away;       /* NULL: the GIL was kept */
} tarn__gil_hold;

void tarn__gil_hold_release(tarn_blocking_hook *before);

static inline void tarn__gil_hold_begin(tarn__gil_hold *hold)
{
    hold->before.call = tarn__gil_hold_release;
    hold->away = NULL;
    hold->outer = tarn_set_blocking_hook(&hold->before);
}

static inline void tarn__gil_hold_end(const tarn__gil_hold *hold)
{
    tarn_set_blocking_hook(hold->outer);
    if (hold->away)
        PyEval_RestoreThread(hold->away);
}

/* --- error.c --- */

/* The calls of the extension in progress on this thread, nested. */
struct tarn__calls {
    unsigned depth;          /* how many */
    struct tarn__kept *kept; /* exceptions that were raised beneath them, newest first */
};
extern _Thread_local struct tarn__calls tarn__calls
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Drop the exceptions of the call at `depth`. The current exception stays set. GIL held.
 */
void tarn__calls_drop(unsigned depth);

static inline void tarn__call_end(const unsigned *depth)
{
    if (tarn__calls.kept != NULL)
        tarn__calls_drop(*depth);
    tarn__calls.depth--;
}

/* The first declaration of each function that Python calls and that may call Python code
 * through Tarn. Until the function returns, and no longer, tarn__raise() can raise the
 * exceptions of that code again. The GIL is held where the function begins and where it
 * returns. */
#define TARN__CALL                                                               \
    __attribute__((cleanup(tarn__call_end), unused)) const unsigned tarn__call = \
        ++tarn__calls.depth

/* Raise Tarn's last error on this thread for `status`; return NULL so that callers can
 * return it. If the cause is an exception that Python code raised beneath this call (see
 * tarn__error_keep), that very exception is raised again. If the error message quotes
 * one, it is the `__cause__`. GIL held. */
PyObject *tarn__raise(tarn__state *state, tarn_status status);

/* Turn the exception that is set into a status, so that C code can pass it on:
 * MemoryError is TARN_OUT_OF_MEMORY, a TarnError its own status, all others
 * TARN_PLUGIN_FAILURE. The exception is kept until the call of the extension returns
 * beneath which it was raised. `state` may be NULL. GIL held. */
tarn_status tarn__error_keep(tarn__state *state, const char *component);

/* Take the current exception away, as one object (NULL: there is none); and set it again.
 * Put takes over the reference. */
PyObject *tarn__exception_take(void);
void tarn__exception_put(PyObject *exception);

/* Give the current exception to sys.unraisablehook, with `object` as its place. The SystemExit
 * that ends a thread once exit has begun is dropped. GIL held. */
void tarn__write_unraisable(PyObject *object);

/* The same as tarn__raise() where no exception can be raised: it goes to
 * sys.unraisablehook, with `object` as its place. The current exception stays set. GIL
 * held. */
void tarn__raise_unraisable(tarn__state *state, tarn_status status, PyObject *object);

/* --- stream.c --- */

/* The stream that an argument names: a Stream, an int (a CUstream handle), any object
 * with __cuda_stream__ (version 0), or a stream of a PyTorch or CuPy without that
 * protocol. NULL stands for an argument that was not given: the default stream. None is a
 * TypeError, as in RMM. 0, or -1 with an exception set. */
int tarn__stream_from(tarn__state *state, PyObject *object, tarn_stream *out);

/* The default stream, legacy included, or no stream: after copies on these RMM waits. */
static inline bool tarn__stream_is_default(tarn_stream stream)
{
    return (uintptr_t)tarn_stream_handle(stream) <= (uintptr_t)TARN_STREAM_LEGACY;
}

/* The Stream over a value from C code, without an owner. New reference. */
PyObject *tarn__stream_wrap(tarn__state *state, tarn_stream stream);

/* Announce that a Stream captures from now on, and that this has ended. Within another
 * announcement of the same Stream the second does nothing, nor does it once the Stream
 * was unregistered. 0, or -1 with an exception set. */
int tarn__stream_begin_announcement(PyObject *stream);
int tarn__stream_end_announcement(PyObject *stream);

/* --- capture.c --- */

/* For a `with` around a capture on a Stream. New reference. */
PyObject *tarn__announcement_of(tarn__state *state, PyObject *stream);

/* --- pool.c --- */

/* The C resource of an object that has to be a pool, borrowed; NULL with an exception
 * set. */
tarn_resource *tarn__pool_of(tarn__state *state, PyObject *object);

/* --- resource.c --- */

/* A DeviceMemoryResource or a class derived from it. */
typedef struct tarn__resource_object {
    PyObject_HEAD tarn_resource
        *native;               /* retained; NULL: not initialised, or written in Python */
    PyObject *upstream;        /* an adaptor's, as given; else NULL */
    tarn_trace_writer *writer; /* a logger's, retained; else NULL */
    int device;                /* the device set for one written in Python; -1: none */
    PyObject *live;            /* set of the live addresses that C code has from one
                                * written in Python, bridge.c; NULL: none yet */
    uint64_t live_generation;  /* context generation of these addresses */
    unsigned plain_version;    /* version of its type when its allocate() and deallocate()
                             * were found to be the base class's; 0: not checked */
} tarn__resource_object;

/* The C resource of a DeviceMemoryResource, for C code to keep: retained. An object whose
 * class defines allocate() or deallocate() itself is called through a bridge, which keeps
 * the object alive. `device` is set for such an object if it has no device yet (-1: the
 * current one). NULL with an exception set. */
tarn_resource *tarn__resource_from(tarn__state *state, PyObject *object, int device);

/* The Python object of a C resource: the same object if it came from Python, else a new
 * one of the matching class. Takes over one reference to `resource`. New reference.
 */
PyObject *tarn__resource_wrap(tarn__state *state, tarn_resource *resource);

/* Give an object without a resource this one, which is taken over, and its upstream
 * (NULL: none). -1 with an exception set where the object has one already: another
 * thread, or Python code that was called meanwhile, may have been faster. */
int tarn__resource_adopt(tarn__state *state, tarn__resource_object *self,
                         tarn_resource *native, PyObject *upstream);

/* Release a resource (NULL is allowed) where no exception can be raised: a failure goes
 * to sys.unraisablehook, with `object` as its place. */
void tarn__resource_release(tarn__state *state, tarn_resource *resource,
                            PyObject *object);

/* The same as tarn__resource_release(), for a reference beside the one that the live
 * `object` has itself. So it is not the last one, and the release is fast. */
void tarn__resource_drop(tarn__state *state, tarn_resource *resource, PyObject *object);

/* --- bridge.c: resources that are written in Python --- */

/* A C resource that calls `object`'s allocate() and deallocate(); keeps it alive. */
tarn_resource *tarn__bridge_create(tarn__state *state, PyObject *object, int device);

/* Enter Python from C code that may be on any thread, and in the middle of a failure. The
 * current exception and, where `status` is a failure, the last error are restored
 * afterwards. Enter returns false without any effect where the interpreter ends or is
 * gone: then no Python code can be called from this thread any more. Leave returns
 * `status`. */
struct tarn__python {
    PyGILState_STATE gil;
    PyObject *raised;
};
bool tarn__python_enter(struct tarn__python *stay);

/* Has exit begun, on another thread? Then this thread can call no resource written in
 * Python any more. */
bool tarn__python_is_ending(void);
tarn_status tarn__python_leave(const struct tarn__python *stay, tarn_status status);

/* The object behind a bridge, borrowed; NULL for all other resources. */
PyObject *tarn__bridge_object(const tarn_resource *resource);

/* --- device.c --- */

/* The current device resource of a device (-1: of the current one) as a Python object.
 * New reference. */
PyObject *tarn__device_resource(tarn__state *state, int device);

/* --- nrt_allocator.c --- */

/* The allocator that takes memory from `resource`, whose memory the host has to reach.
 * Both stay until the process ends. The GIL is not needed. */
tarn_status tarn__nrt_allocator_over(tarn_resource *resource,
                                     NRT_ExternalAllocator **out);

#endif
