/* dispatch.h -- an instance of a manager, and the frame of each call to it. */
#ifndef TARN_MANAGER_DISPATCH_H
#define TARN_MANAGER_DISPATCH_H

#include "driver/driver.h"
#include <tarn/manager.h>
#include <stdatomic.h>

struct tarn_manager {
    tarn_manager_ops ops;   /* a copy as far as the plugin knew it; zeros after that */
    void *self;             /* the plugin's instance */
    int device;             /* whose primary context this instance is for */
    atomic_size_t count;    /* references */
    atomic_bool is_ready;   /* initialize() has come, and no reset() since */
    atomic_size_t deferred; /* defer_cleanup_begin() without their ends */
};

/* The context is current until tarn__scope_leave(). `operation` is for the words; NULL is
 * no manager, and after exit has begun or in a forked child nothing is entered. */
tarn_status tarn__manager_enter(const tarn_manager *manager, const char *operation,
                                struct tarn__scope *scope);

/* The same, once the manager has been told to prepare. Two threads that come first both
 * tell it: initialize() may come often. */
tarn_status tarn__manager_enter_ready(tarn_manager *manager, const char *operation,
                                      struct tarn__scope *scope);

/* Returns `status`. A plugin that fails without words gets some, so that those of an
 * older failure are not taken for its own. */
tarn_status tarn__manager_relay(const tarn_manager *manager, const char *operation,
                                tarn_status status);

#endif
