/* manager.h -- what pointer.c and manager.c know of each other. */
#ifndef TARN_PYTHON_MANAGER_H
#define TARN_PYTHON_MANAGER_H

#include "log.h"

struct tarn__pointer_object;

typedef struct tarn__manager_object {
    PyObject_HEAD tarn_manager *manager; /* one reference */
    int device;
    bool logging;       /* do blocks made from now on go into the log? */
    tarn_stream stream; /* on which memory comes and goes whose caller names none */
    /* The blocks that are out, newest first. They own the manager, not it them: the list
     * is there so that reset() can take all of them back. GIL held. */
    struct tarn__pointer_object *newest;
} tarn__manager_object;

/* Bytes free and in total on the manager's device; zeros where it cannot say. Without the
 * GIL; the thread's last error stays as it was. */
void tarn__manager_memory(tarn__manager_object *manager, struct tarn__log_call *call);

/* Device memory as an object of `type`, on the manager's stream. */
PyObject *tarn__manager_memalloc(tarn__manager_object *manager, PyTypeObject *type,
                                 size_t bytes);

#endif
