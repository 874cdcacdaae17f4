/* manager.h -- the type tarn._tarn.Manager, for its pointers and plugins. */
#ifndef TARN_PYTHON_MANAGER_H
#define TARN_PYTHON_MANAGER_H

#include "log.h"

#include <stdatomic.h>

struct tarn__pointer_object;

typedef struct tarn__manager_object {
    PyObject_HEAD tarn_manager *manager; /* one reference */
    int device;
    bool logging;       /* are new blocks recorded in the log? */
    tarn_stream stream; /* the stream for memory whose caller names none */
    /* The live blocks, newest first. They own the manager; it does not own them. reset()
     * frees all blocks of this list. GIL held. */
    struct tarn__pointer_object *newest;
    /* The device's memory at the last query for a row, and the time of the query. There
     * is no lock: the values that two threads mix are at most a millisecond old. */
    _Atomic uint64_t known_free, known_total, known_ns; /* ns 0: never */
} tarn__manager_object;

/* Device memory as an object of `type`, on `stream`, which it keeps (NULL: on the
 * manager's stream). */
PyObject *tarn__manager_memalloc(tarn__manager_object *manager, PyTypeObject *type,
                                 size_t bytes, PyObject *stream);

#endif
