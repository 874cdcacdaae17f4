/* pointer.h -- the types tarn._tarn.Pointer and MemoryPointer, for manager.c. */
#ifndef TARN_PYTHON_POINTER_H
#define TARN_PYTHON_POINTER_H

#include "manager.h"

typedef struct tarn__pointer_object {
    PyObject_HEAD tarn_pointer *pointer; /* one reference; NULL once it is released */
    tarn__manager_object *manager;       /* owned; NULL for a view, whose base has it */
    PyObject *owner; /* an object that has to outlive the block, or a view's base */
    struct tarn__pointer_object *newer, *older; /* neighbours in the manager's list */
    size_t views;                               /* number of live views of this one */
    bool logged; /* its allocation is in the log, so its free has to be, too */
    /* Fields that stay valid after the block is freed. */
    tarn_stream stream; /* of its allocation and free; TARN_STREAM_NONE for most */
    tarn_device_ptr address;
    void *host;
    size_t bytes;
    int device;
    tarn_pointer_kind kind;
} tarn__pointer_object;

/* Create the object of `type` (Pointer or a class derived from it) over a new block of
 * `manager`. The block came on `stream` and is taken over (also on failure: NULL with an
 * exception set). `owner` may be NULL. */
PyObject *tarn__pointer_wrap(PyTypeObject *type, tarn__manager_object *manager,
                             tarn_pointer *pointer, tarn_stream stream, PyObject *owner);

/* Free the block now; false if it is freed already. The status of a failed free is in
 * `*out`, for tarn__error_raise() in the caller's TARN__CALL. GIL held, released
 * meanwhile. */
bool tarn__pointer_drop_reference(tarn__pointer_object *self, tarn_status *out);

/* The same where no exception can be raised: a failure goes to sys.unraisablehook, and
 * the current exception stays set. */
void tarn__pointer_end(tarn__pointer_object *self);

/* Release one reference in the same way; `type` is the place of a failure. */
void tarn__pointer_release(PyTypeObject *type, tarn_pointer *pointer);

/* For derived types, to call from their own slots. */
int tarn__pointer_traverse(tarn__pointer_object *self, visitproc visit, void *arg);
int tarn__pointer_clear(tarn__pointer_object *self);

/* A MemoryPointer: a block as Numba uses it. */
typedef struct tarn__memory_object {
    tarn__pointer_object block;
    PyObject *context; /* Numba's, by a weak proxy; owned */
    PyObject *address; /* in this Numba's type; NULL until its first use */
    PyObject *memsize; /* the value assigned to _cuda_memsize_; NULL: none was */
    Py_ssize_t refct;  /* Numba's views are counted here; nothing depends on it */
} tarn__memory_object;

#endif
