/* pointer.h -- the types tarn._tarn.Pointer and MemoryPointer, for manager.c. */
#ifndef TARN_PYTHON_POINTER_H
#define TARN_PYTHON_POINTER_H

#include "manager.h"

typedef struct tarn__pointer_object {
    PyObject_HEAD tarn_pointer *pointer; /* one reference; NULL once it has been let go */
    tarn__manager_object *manager;       /* owned; NULL for a view, whose base has it */
    PyObject *owner; /* what has to outlive the block, or a view's base */
    struct tarn__pointer_object *newer, *older; /* neighbours in the manager's list */
    size_t views;                               /* views of this one that are alive */
    bool logged; /* its allocation is in the log, so its free has to be */
    /* What can be asked after the block has gone, too. */
    tarn_stream stream; /* on which it came and will go; TARN_STREAM_NONE for most */
    tarn_device_ptr address;
    void *host;
    size_t bytes;
    int device;
    tarn_pointer_kind kind;
} tarn__pointer_object;

/* The object of `type` (Pointer or a class derived from it) over a new block of `manager`,
 * which came on `stream` and is taken over (also where it fails: NULL with an exception
 * set). `owner` may be NULL. */
PyObject *tarn__pointer_wrap(PyTypeObject *type, tarn__manager_object *manager,
                             tarn_pointer *pointer, tarn_stream stream, PyObject *owner);

/* Free the block now; false if that was done before. A free that fails is in `*out`, for
 * tarn__raise() in the caller's TARN__CALL. GIL held, given up meanwhile. */
bool tarn__pointer_let_go(tarn__pointer_object *self, tarn_status *out);

/* The same from where nothing can be raised: such a failure goes to sys.unraisablehook, and
 * the exception that is set stays. */
void tarn__pointer_end(tarn__pointer_object *self);

/* Release one reference in the same way; `type` is the place of a failure. */
void tarn__pointer_release(PyTypeObject *type, tarn_pointer *pointer);

/* What a derived type calls from slots of its own. */
int tarn__pointer_traverse(tarn__pointer_object *self, visitproc visit, void *arg);
int tarn__pointer_clear(tarn__pointer_object *self);

/* A MemoryPointer: a block as Numba wants to see it. */
typedef struct tarn__memory_object {
    tarn__pointer_object block;
    PyObject *context; /* Numba's, by a weak proxy; owned */
    PyObject *address; /* as this Numba wants it; NULL until somebody asks */
    PyObject *memsize; /* what was assigned to _cuda_memsize_; NULL: nothing was */
    Py_ssize_t refct;  /* Numba's views count here; nothing depends on it */
} tarn__memory_object;

#endif
