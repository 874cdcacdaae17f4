/* state.h -- the module's state.
 *
 * The module has one file per type. Each file offers `int tarn__<file>_init(PyObject
 * *module)` (module.h). It creates its type, keeps it in the state and adds it to the
 * module.
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
    X(wrapped)        /* dict: device -> the object made for what C code set there */  \
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

/* Record the state of the newest module; and forget it, if it is `state`. */
void tarn__state_begin(tarn__state *state);
void tarn__state_end(const tarn__state *state);

/* Return false, with an exception set, if `state` is NULL. */
bool tarn__state_is_there(const tarn__state *state);

/* Create a heap type from `spec`, put it into `*slot` of the state and add it to the
 * module under its own name. `bases` may be NULL. */
int tarn__state_add_type(PyObject *module, PyType_Spec *spec, PyObject *bases,
                         PyObject **slot);

/* Add methods to a type that exists: 0, or -1 with an exception set. */
int tarn__state_add_methods(PyObject *type, PyMethodDef *methods);

#endif
