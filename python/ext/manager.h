/* manager.h -- what pointer.c and manager.c know of each other. */
#ifndef TARN_PYTHON_MANAGER_H
#define TARN_PYTHON_MANAGER_H

#include "log.h"

#include <stdatomic.h>

struct tarn__pointer_object;

typedef struct tarn__manager_object {
    PyObject_HEAD tarn_manager *manager; /* one reference */
    int device;
    bool logging;       /* do blocks made from now on go into the log? */
    tarn_stream stream; /* on which memory comes and goes whose caller names none */
    /* The blocks that are out, newest first. They own the manager, not it them: the list
     * is there so that reset() can take all of them back. GIL held. */
    struct tarn__pointer_object *newest;
    /* What the device had left when it was asked for a row, and when: with no lock, since
     * what two threads mix is a millisecond old at most. */
    _Atomic uint64_t known_free, known_total, known_ns; /* ns 0: never */
} tarn__manager_object;

/* Was anything asked of the driver, or of anybody who takes long, between begin and end? A
 * call for which nothing was has changed nothing (tarn_set_blocking_hook()). Without the GIL. */
struct tarn__look {
    tarn_blocking_hook before; /* first: it is the look too */
    tarn_blocking_hook *outer;
    bool is_told;
};
void tarn__look_begin(struct tarn__look *look);
bool tarn__look_end(const struct tarn__look *look);

/* Bytes free and in total on the manager's device at `call->end_ns`; zeros where it cannot
 * say. The device is asked if the call may have changed it, and else once in a millisecond:
 * the question takes longer than a block. Without the GIL; the thread's last error stays as
 * it was. */
void tarn__manager_memory(tarn__manager_object *manager, bool may_have_changed,
                          struct tarn__log_call *call);

/* Device memory as an object of `type`, on `stream`, which it keeps (NULL: on the manager's
 * stream). */
PyObject *tarn__manager_memalloc(tarn__manager_object *manager, PyTypeObject *type,
                                 size_t bytes, PyObject *stream);

#endif
