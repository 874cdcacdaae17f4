/* manager.c -- instances of managers: check and copy the table, create, count, destroy.
 *
 * The table comes from a plugin that may be older or newer than this Tarn. So the size is
 * checked first, the version next, and only then the contents.
 */
#include "manager/manager.h"
#include "base/error.h"
#include "base/blocking_hook.h"
#include "base/name.h"
#include "base/size.h"
#include "base/warn.h"
#include "manager/host_only.h"
#include <stdlib.h>
#include <string.h>

enum { ENDED = 1 << 30 }; /* references while it is destroyed; no program has as many */

#define END_OF(field) \
    (offsetof(tarn_manager_ops, field) + sizeof(((tarn_manager_ops *)0)->field))

/* The required operation that a table lacks, or NULL. */
static const char *missing_operation(const tarn_manager_ops *ops)
{
    const struct {
        const char *name;
        bool is_there;
    } required[] = {
        {"create", ops->create},     {"destroy", ops->destroy},
        {"reset", ops->reset},       {"initialize", ops->initialize},
        {"memalloc", ops->memalloc}, {"memhostalloc", ops->memhostalloc},
        {"mempin", ops->mempin},
    };

    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!required[i].is_there)
            return required[i].name;
    return NULL;
}

/* Other messages quote the name. */
static tarn_status check_name(const char *name)
{
    if (!name || tarn__name_fits(name))
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "manager: the name %.40s... has more than %d bytes", name,
                          TARN__NAME_MOST);
}

/* The size comes first: without it not even the version can be read. */
tarn_status tarn__manager_check_table(const tarn_manager_ops *ops)
{
    if (ops->size < END_OF(interface_version))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: the table has %zu bytes, at least %zu are "
                              "required for interface_version",
                              ops->size, END_OF(interface_version));
    tarn_status status = check_name(ops->name);
    if (status != TARN_OK)
        return status;
    const char *name = ops->name ? ops->name : "(no name)";
    if (ops->interface_version != TARN_MANAGER_INTERFACE_VERSION)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: %s has interface version %d, version %d "
                              "required",
                              name, ops->interface_version,
                              TARN_MANAGER_INTERFACE_VERSION);
    if (ops->size < END_OF(mempin))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "manager: the table of %s has %zu bytes, the required operations need %zu",
            name, ops->size, END_OF(mempin));
    const char *missing = missing_operation(ops);
    if (missing || !ops->name)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: %s has no %s", name,
                              missing ? missing : "name");
    return TARN_OK;
}

void tarn__manager_copy_table(tarn_manager_ops *to, const tarn_manager_ops *from)
{
    size_t known = tarn__size_least(from->size, sizeof *to);

    memset(to, 0, sizeof *to);
    memcpy(to, from, known - known % sizeof(void *));
    to->size = sizeof *to;
}

tarn_status tarn__manager_relay(const tarn_manager *manager, const char *operation,
                                unsigned before, tarn_status status)
{
    if ((unsigned)status >= TARN_STATUS_COUNT)
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "manager: %s of %s returned %d, which is not a status",
                              operation, manager->ops.name, (int)status);
    if (status != TARN_OK && !tarn__error_has_message(before, status))
        tarn_error_set(status, "manager: %s of %s failed, device %d", operation,
                       manager->ops.name, manager->device);
    return status;
}

/* The current context generation: a scope may have been entered in an older one. */
static uint64_t present_generation(const tarn_manager *manager,
                                   const struct tarn__scope *scope)
{
    uint64_t context_generation = tarn__context_generation(manager->device);

    return context_generation ? context_generation : scope->context_generation;
}

/* Is this thread notifying the plugin of a context generation's end or beginning? Then
 * the plugin is calling its own manager. */
static bool is_preparer(tarn_manager *manager)
{
    return pthread_equal(atomic_load(&manager->preparer), pthread_self());
}

static void begin_preparing(tarn_manager *manager)
{
    pthread_mutex_lock(&manager->preparing);
    atomic_store(&manager->preparer, pthread_self());
}

static void end_preparing(tarn_manager *manager)
{
    atomic_store(&manager->preparer, 0);
    pthread_mutex_unlock(&manager->preparing);
}

/* Notify the plugin if its context was reset. This comes before any other call, since the
 * plugin's cached memory is gone. */
static void notice_reset(tarn_manager *manager, const struct tarn__scope *scope)
{
    uint64_t known = atomic_load(&manager->known);

    if (known == 0 || known == scope->context_generation)
        return;
    tarn__blocking_hook_call();
    begin_preparing(manager);
    uint64_t context_generation = present_generation(manager, scope);
    if (atomic_load(&manager->known) !=
        context_generation) { /* no other thread was faster */
        atomic_store(&manager->ready, 0);
        if (manager->ops.context_lost)
            manager->ops.context_lost(manager->self);
        atomic_store(&manager->known, context_generation);
    }
    end_preparing(manager);
}

tarn_status tarn__manager_enter(tarn_manager *manager, const char *operation,
                                struct tarn__scope *scope)
{
    if (!manager)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: %s: manager is NULL",
                              operation);
    if (tarn__driver_gone())
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "manager: %s of %s was called in an exiting process or in a forked child",
            operation, manager->ops.name);
    if (is_preparer(manager))
        return tarn_error_set(
            TARN_REENTRANT_CALL,
            "manager: %s of %s was called inside its initialize or context_lost",
            operation, manager->ops.name);
    tarn_status status = tarn__scope_enter(manager->device, scope);
    if (status == TARN_OK)
        notice_reset(manager, scope);
    return status;
}

tarn_status tarn__manager_enter_ready(tarn_manager *manager, const char *operation,
                                      struct tarn__scope *scope)
{
    tarn_status status = tarn__manager_enter(manager, operation, scope);

    if (status != TARN_OK || atomic_load(&manager->ready) != 0)
        return status;
    tarn__blocking_hook_call();
    begin_preparing(manager);
    if (atomic_load(&manager->ready) == 0) { /* no other thread was faster */
        unsigned before = tarn__error_count;
        status = tarn__manager_relay(manager, "initialize", before,
                                     manager->ops.initialize(manager->self));
        if (status == TARN_OK)
            atomic_store(&manager->ready, atomic_load(&manager->known));
    }
    end_preparing(manager);
    if (status != TARN_OK)
        tarn__scope_leave(scope);
    return status;
}

static tarn_status create_instance(tarn_manager *manager, void *config)
{
    struct tarn__scope scope;
    CUcontext_ context;
    void *self = NULL;
    tarn_status status = tarn__context_primary(manager->device, &context);

    if (status == TARN_OK)
        status = tarn__manager_enter(manager, "create", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status =
        tarn__manager_relay(manager, "create", before,
                            manager->ops.create(config, manager->device, context, &self));
    tarn__scope_leave(&scope);
    if (status != TARN_OK)
        return status;
    manager->self = self;
    atomic_init(&manager->known, scope.context_generation);
    return TARN_OK;
}

tarn_status tarn_manager_create(const tarn_manager_ops *ops, void *config, int device,
                                tarn_manager **out)
{
    if (!ops || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: create: %s is NULL",
                              ops ? "out" : "ops");
    tarn_status status = tarn__manager_check_table(ops);
    if (status == TARN_OK)
        status = tarn__device_check("manager", device);
    if (status != TARN_OK)
        return status;
    tarn_manager *manager = calloc(1, sizeof *manager);
    if (!manager)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "manager: no host memory for %s",
                              ops->name);
    tarn__manager_copy_table(&manager->ops, ops);
    manager->device = device;
    atomic_init(&manager->count, 1);
    pthread_mutex_init(&manager->preparing, NULL);
    status = create_instance(manager, config);
    if (status != TARN_OK) {
        pthread_mutex_destroy(&manager->preparing);
        free(manager);
        return status;
    }
    *out = manager;
    return TARN_OK;
}

tarn_manager *tarn_manager_retain(tarn_manager *manager)
{
    if (manager)
        atomic_fetch_add(&manager->count, 1);
    return manager;
}

/* Cleanup that was deferred and never ended is ended here; otherwise it would stay
 * deferred forever. */
static void destroy(tarn_manager *manager)
{
    struct tarn__scope scope;
    bool is_current = tarn__manager_enter(manager, "destroy", &scope) == TARN_OK;
    int before = tarn__host_only_serve(manager->device);

    while (atomic_load(&manager->deferred) > 0) {
        atomic_fetch_sub(&manager->deferred, 1);
        unsigned failures = tarn__error_count;
        tarn_status status =
            tarn__manager_relay(manager, "defer_cleanup_end", failures,
                                manager->ops.defer_cleanup_end(manager->self));
        if (status != TARN_OK)
            tarn__warn("manager: %s was destroyed while cleanup was deferred: %s",
                       manager->ops.name, tarn_error_last()->message);
    }
    manager->ops.destroy(manager->self);
    tarn__host_only_serve(before);
    if (is_current)
        tarn__scope_leave(&scope);
    pthread_mutex_destroy(&manager->preparing);
    free(manager);
}

void tarn_manager_release(tarn_manager *manager)
{
    if (!manager || atomic_fetch_sub(&manager->count, 1) != 1)
        return;
    struct tarn__kept_error before = tarn__error_keep();
    /* References that its operations retain and release meanwhile cannot destroy it
     * again. */
    atomic_store(&manager->count, ENDED);
    destroy(manager);
    tarn__error_restore(&before);
}

const char *tarn_manager_name(const tarn_manager *manager)
{
    return manager->ops.name;
}

/* Runtimes call this before everything else. So where nothing needs preparing there is
 * one check: whether the context is still the same. */
tarn_status tarn_manager_initialize(tarn_manager *manager)
{
    struct tarn__scope scope;
    uint64_t ready = manager ? atomic_load(&manager->ready) : 0;

    if (ready && tarn_context_generation(manager->device) == ready)
        return TARN_OK;
    tarn_status status = tarn__manager_enter_ready(manager, "initialize", &scope);
    if (status == TARN_OK)
        tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_manager_reset(tarn_manager *manager)
{
    struct tarn__scope scope;

    if (manager && tarn__driver_gone())
        return TARN_OK; /* nothing is left to release */
    tarn_status status = tarn__manager_enter(manager, "reset", &scope);
    if (status != TARN_OK)
        return status;
    atomic_store(&manager->ready, 0);
    unsigned before = tarn__error_count;
    status =
        tarn__manager_relay(manager, "reset", before, manager->ops.reset(manager->self));
    tarn__scope_leave(&scope);
    return status;
}
