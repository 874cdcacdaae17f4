/* pointer.h -- the type tarn._tarn.Pointer, for manager.c. */
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
    tarn_device_ptr address;
    void *host;
    size_t bytes;
    int device;
    tarn_pointer_kind kind;
} tarn__pointer_object;

/* The object over a new block of `manager`, which takes over `pointer` (also where it
 * fails: NULL with an exception set). `owner` may be NULL. */
PyObject *tarn__pointer_wrap(tarn__state *state, tarn__manager_object *manager,
                             tarn_pointer *pointer, PyObject *owner);

/* Let the block go now; false if it went before. GIL held, given up meanwhile. */
bool tarn__pointer_let_go(tarn__pointer_object *self);

#endif
