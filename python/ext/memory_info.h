/* memory_info.h -- the device's free memory, for the rows of the log. */
#ifndef TARN_PYTHON_MEMORY_INFO_H
#define TARN_PYTHON_MEMORY_INFO_H

#include "manager.h"

/* Tell whether the driver, or other slow code, ran between begin and end. A call without
 * such work has changed nothing (tarn_set_blocking_hook()). Without the GIL. */
struct tarn__hook_probe {
    tarn_blocking_hook before; /* first: it is a tarn__hook_probe too */
    tarn_blocking_hook *outer;
    bool was_called;
};
void tarn__memory_info_probe_begin(struct tarn__hook_probe *hook_probe);
bool tarn__memory_info_probe_end(const struct tarn__hook_probe *hook_probe);

/* Bytes free and in total on the manager's device at `call->end_ns`; zeros where they are
 * unknown. The device is queried if the call may have changed it, and else once a
 * millisecond: a query takes longer than an allocation. Without the GIL; the thread's
 * last error is unchanged. */
void tarn__memory_info_update(tarn__manager_object *manager, bool may_have_changed,
                              struct tarn__log_call *call);

#endif
