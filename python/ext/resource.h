/* resource.h -- the Python object of a C resource, and the C resource of an object. */
#ifndef TARN_PYTHON_RESOURCE_H
#define TARN_PYTHON_RESOURCE_H

#include "state.h"

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

/* The object as a resource; NULL with a TypeError set if it is none. */
tarn__resource_object *tarn__resource_arg(tarn__state *state, PyObject *object);

/* 0, or -1 with a ValueError set: the object was initialised before. */
int tarn__resource_check_new(const tarn__resource_object *self);

/* The C resource of an object that has one, borrowed; NULL with a TypeError set. */
tarn_resource *tarn__resource_native(tarn__state *state, PyObject *object);

/* A number of bytes that `read` returns of the resource of an object. New reference. */
PyObject *tarn__resource_bytes(PyObject *module, PyObject *object,
                               tarn_status (*read)(tarn_resource *, size_t *));

/* Raise the TypeError for an argument that is no DeviceMemoryResource. For a resource of
 * RMM it names tarn.mr.from_rmm(). */
void tarn__resource_reject(PyObject *object);

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

#endif
