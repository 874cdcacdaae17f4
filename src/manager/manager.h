/* manager.h -- an instance of a manager, and the frame of each call to it. */
#ifndef TARN_MANAGER_INTERNAL_H
#define TARN_MANAGER_INTERNAL_H

#include "driver/driver.h"
#include <tarn/manager.h>
#include <pthread.h>
#include <stdatomic.h>

struct tarn_manager {
    tarn_manager_ops ops;        /* a copy, as far as the plugin knew the table; zeros
                                * after that */
    void *self;                  /* the plugin's instance */
    int device;                  /* the instance serves the primary context of this
                                * device */
    atomic_size_t count;         /* references */
    pthread_mutex_t preparing;   /* held while the plugin is notified of a new or ended
                                * context generation */
    _Atomic(pthread_t) preparer; /* the thread that notifies it; 0: none */
    _Atomic uint64_t known; /* context generation that the plugin has seen; 0: none */
    _Atomic uint64_t ready; /* the same, once initialize() has run; 0: reset since */
    atomic_size_t deferred; /* defer_cleanup_begin() calls without their ends */
};

/* Does `ops` have all that it needs? Otherwise fail with TARN_INVALID_ARGUMENT and a
 * message. */
tarn_status tarn__manager_check_table(const tarn_manager_ops *ops);

/* Copy the fields that both sides know, whole pointers only. */
void tarn__manager_copy_table(tarn_manager_ops *to, const tarn_manager_ops *from);

/* Make the context current until tarn__scope_leave(). Notify the plugin if the context is
 * another one than before. `operation` is for error messages. NULL is not a manager. The
 * call fails after exit has begun and in a forked child. */
tarn_status tarn__manager_enter(tarn_manager *manager, const char *operation,
                                struct tarn__scope *scope);

/* The same, once the manager has been prepared by initialize(). */
tarn_status tarn__manager_enter_ready(tarn_manager *manager, const char *operation,
                                      struct tarn__scope *scope);

/* Return `status`, or TARN_PLUGIN_FAILURE where it is none. A plugin that fails without a
 * message gets one. Otherwise the message of an older failure would be taken for its own.
 * `before` is tarn__error_count before the call. */
tarn_status tarn__manager_relay(const tarn_manager *manager, const char *operation,
                                unsigned before, tarn_status status);

#endif
