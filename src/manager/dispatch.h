/* dispatch.h -- an instance of a manager, and the frame of each call to it. */
#ifndef TARN_MANAGER_DISPATCH_H
#define TARN_MANAGER_DISPATCH_H

#include "driver/driver.h"
#include <tarn/manager.h>
#include <pthread.h>
#include <stdatomic.h>

struct tarn_manager {
    tarn_manager_ops ops;      /* a copy as far as the plugin knew it; zeros after that */
    void *self;                /* the plugin's instance */
    int device;                /* whose primary context this instance is for */
    atomic_size_t count;       /* references */
    pthread_mutex_t preparing; /* held while it is told of a life's end or beginning */
    _Atomic(pthread_t) preparer; /* the thread that does so; 0: none */
    _Atomic uint64_t known; /* life of the context that the plugin has seen; 0: none */
    _Atomic uint64_t ready; /* the same, once initialize() has come; 0: reset since */
    atomic_size_t deferred; /* defer_cleanup_begin() without their ends */
};

/* Does `ops` have what it needs? Else TARN_INVALID_ARGUMENT in words. */
tarn_status tarn__manager_check_table(const tarn_manager_ops *ops);

/* Copy what both know, whole pointers only. */
void tarn__manager_copy_table(tarn_manager_ops *to, const tarn_manager_ops *from);

/* The context is current until tarn__scope_leave(), and the plugin knows if it is another
 * one than before. `operation` is for the words; NULL is no manager, and after exit has
 * begun or in a forked child nothing is entered. */
tarn_status tarn__manager_enter(tarn_manager *manager, const char *operation,
                                struct tarn__scope *scope);

/* The same, once the manager has been told to prepare. */
tarn_status tarn__manager_enter_ready(tarn_manager *manager, const char *operation,
                                      struct tarn__scope *scope);

/* Returns `status`. A plugin that fails without a message gets one, so that the message of
 * an older failure is not taken for its own. `before` is tarn__error_count before the call. */
tarn_status tarn__manager_relay(const tarn_manager *manager, const char *operation,
                                unsigned before, tarn_status status);

#endif
