/* manager.h -- the shared declarations of pointer.c and manager.c. */
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

/* Did the driver, or other slow code, run between begin and end? A call without such work
 * has changed nothing (tarn_set_blocking_hook()). Without the GIL. */
struct tarn__hook_probe {
    tarn_blocking_hook before; /* first: it is a tarn__hook_probe too */
    tarn_blocking_hook *outer;
    bool was_called;
};
void tarn__hook_probe_begin(struct tarn__hook_probe *look);
bool tarn__hook_probe_end(const struct tarn__hook_probe *look);

/* Bytes free and in total on the manager's device at `call->end_ns`; zeros where they are
 * unknown. The device is queried if the call may have changed it, and else once a
 * millisecond: a query takes longer than an allocation. Without the GIL; the thread's
 * last error is unchanged. */
void tarn__manager_memory(tarn__manager_object *manager, bool may_have_changed,
                          struct tarn__log_call *call);

/* Device memory as an object of `type`, on `stream`, which it keeps (NULL: on the
 * manager's stream). */
PyObject *tarn__manager_memalloc(tarn__manager_object *manager, PyTypeObject *type,
                                 size_t bytes, PyObject *stream);

#endif
