/* set.c -- which manager serves the process: set once, by a call or by the environment.
 *
 * NBEP 7 requires two checks when a manager is set: that nothing is served already, and
 * that no other manager was set. Numba makes neither: it accepts a manager that comes too
 * late without a message, and that manager serves nothing. Here both checks are made,
 * under the lock that creating an instance takes as well.
 *
 * There is one instance for each device's primary context, shared by all callers.
 * Creating it calls the plugin, so the lock is not held meanwhile; other callers wait for
 * the creating thread. A call that sets a manager waits as well, unless the manager is
 * chosen already: only the end of the creation decides whether the environment's manager
 * is the process's. Instances stay until the process ends, as pointers and threads may
 * need them until then.
 */
#define _GNU_SOURCE
#include "base/mutex.h"
#include "base/cancellation.h"
#include "base/mutex_assert.h"
#include "base/warn.h"
#include "manager/load.h"
#include "manager/manager.h"
#include <stdlib.h>
#include <string.h>

TARN__STATIC_MUTEX(lock); /* for `process` */
static struct {
    pthread_cond_t made;  /* the creating thread is done */
    bool is_known;        /* the manager is chosen; the two fields below are valid */
    tarn_manager_ops ops; /* a copy */
    void *config;
    bool is_set;                               /* ... by a call */
    bool is_making;                            /* a thread is creating an instance */
    pthread_t maker;                           /* valid while is_making */
    bool is_serving;                           /* an instance was made */
    tarn_manager *managers[TARN__DEVICES_MAX]; /* a reference each */
} process = {.made = PTHREAD_COND_INITIALIZER};

/* --- the environment --- */

static const struct {
    const char *name;
    const tarn_manager_ops *(*ops)(void);
} known[] = {
    {"resource", tarn_resource_manager_ops},
    {"native", tarn_native_manager_ops},
    {"pool", tarn_pool_manager_ops},
};

static const tarn_manager_ops *find_known(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].ops();
    return NULL;
}

/* The value of the environment variable, or NULL. */
static const char *named(void)
{
    const char *name = getenv("TARN_MEMORY_MANAGER");

    return name && *name ? name : NULL;
}

/* FILE[:SYMBOL]; a colon with a / behind it is part of the file's name. */
static tarn_status load_named(const char *name, const tarn_manager_ops **out)
{
    char *path = strdup(name);

    if (!path)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "manager: no host memory for the name of a plugin");
    char *colon = strrchr(path, ':');
    const char *symbol = NULL;
    if (colon && !strchr(colon, '/')) {
        *colon = 0;
        symbol = colon + 1;
    }
    tarn_status status = tarn_manager_load(path, symbol, out);
    free(path);
    if (status != TARN_OK)
        tarn_error_set_native(status, tarn_error_last()->native,
                              "TARN_MEMORY_MANAGER=%.200s: %s", name,
                              tarn_error_last()->message);
    return status;
}

static tarn_status read_environment(const tarn_manager_ops **out)
{
    const char *name = named();

    if (name && tarn__load_is_privileged()) {
        tarn__warn("manager: TARN_MEMORY_MANAGER is ignored: the process runs with "
                   "elevated privileges (such as set-uid)");
        name = NULL;
    }
    *out = find_known(name ? name : "resource");
    if (*out)
        return TARN_OK;
    if (strchr(name, '/'))
        return load_named(name, out);
    return tarn_error_set(TARN_NOT_FOUND,
                          "manager: TARN_MEMORY_MANAGER=%.200s is not resource, native, "
                          "pool, or a path with a /",
                          name);
}

/* --- set --- */

/* Is this the manager already chosen? The operations decide: a table with the same
 * operations is the same, wherever it lies. */
static bool is_present(const tarn_manager_ops *ops, const void *config)
{
    const size_t first = offsetof(tarn_manager_ops, create);
    tarn_manager_ops copy;

    tarn__manager_copy_table(&copy, ops);
    return process.is_known && config == process.config &&
           memcmp((char *)&copy + first, (char *)&process.ops + first,
                  sizeof copy - first) == 0;
}

/* Remember the manager that the process uses. `lock` held. */
static void remember(const tarn_manager_ops *ops, void *config)
{
    tarn__assert_mutex_held(&lock.mutex);

    tarn__manager_copy_table(&process.ops, ops);
    process.config = config;
    process.is_known = true;
}

/* The two checks of NBEP 7. `lock` held. */
static tarn_status check_turn(const tarn_manager_ops *ops)
{
    tarn__assert_mutex_held(&lock.mutex);

    if (process.is_set)
        return tarn_error_set(TARN_ALREADY_SET,
                              "manager: cannot set %s, %s was set before", ops->name,
                              process.ops.name);
    if (process.is_serving || process.is_making)
        return tarn_error_set(
            TARN_ALREADY_SET,
            "manager: cannot set %s, the process has used its manager already; set it "
            "before the first use, or with TARN_MEMORY_MANAGER",
            ops->name);
    return TARN_OK;
}

/* Wait until no other thread is choosing the manager. An exiting process and a forked
 * child do not wait: the creating thread may not exist any more. `lock` held. */
static void wait_for_choice(void)
{
    tarn__assert_mutex_held(&lock.mutex);

    TARN__NOT_CANCELLED;
    while (process.is_making && !process.is_known && !tarn__driver_gone() &&
           !pthread_equal(process.maker, pthread_self()))
        pthread_cond_wait(&process.made, &lock.mutex);
}

static tarn_status take_place(const tarn_manager_ops *ops, void *config, bool *is_new)
{
    tarn_status status = TARN_OK;

    tarn__mutex_lock(&lock);
    wait_for_choice();
    *is_new = !is_present(ops, config);
    if (*is_new)
        status = check_turn(ops);
    if (*is_new && status == TARN_OK) {
        remember(ops, config);
        process.is_set = true;
    }
    tarn__mutex_unlock(&lock);
    return status;
}

tarn_status tarn_set_memory_manager(const tarn_manager_ops *ops, void *config)
{
    const char *name = named();
    bool is_new;

    if (!ops)
        ops = tarn_resource_manager_ops();
    tarn_status status = tarn__manager_check_table(ops);
    if (status == TARN_OK)
        status = take_place(ops, config, &is_new);
    if (status == TARN_OK && is_new && name && find_known(name) != ops)
        tarn__warn(
            "manager: TARN_MEMORY_MANAGER=%.200s is ignored, the program has set %s",
            name, ops->name);
    return status;
}

/* --- instances --- */

/* The instance of `device`, or NULL where this thread becomes its creator. */
static tarn_status find_or_begin(int device, tarn_manager **out)
{
    TARN__NOT_CANCELLED;
    tarn_status status = TARN_OK;

    tarn__mutex_lock(&lock);
    while (!process.managers[device] && process.is_making &&
           !pthread_equal(process.maker, pthread_self()))
        pthread_cond_wait(&process.made, &lock.mutex);
    *out = tarn_manager_retain(process.managers[device]);
    if (!*out && process.is_making)
        status = tarn_error_set(TARN_REENTRANT_CALL,
                                "manager: the instance of device %d was requested while "
                                "its manager creates it",
                                device);
    if (!*out && !process.is_making) {
        process.is_making = true;
        process.maker = pthread_self();
    }
    tarn__mutex_unlock(&lock);
    return status;
}

/* Wake waiting threads, with the new instance or (NULL) without. Return a reference for
 * the caller. */
static tarn_manager *end_making(int device, tarn_manager *made)
{
    tarn__mutex_lock(&lock);
    process.is_making = false;
    process.is_serving = process.is_serving || made;
    process.managers[device] = made;
    pthread_cond_broadcast(&process.made);
    tarn_manager_retain(made);
    tarn__mutex_unlock(&lock);
    return made;
}

/* Create an instance. This thread is the creator, so no other thread changes the chosen
 * manager meanwhile. Once chosen, the manager is the same for all contexts, even if the
 * environment changes. */
static tarn_status make_instance(int device, tarn_manager **out)
{
    const tarn_manager_ops *ops = &process.ops;
    tarn_manager *made = NULL;
    tarn_status status = process.is_known ? TARN_OK : read_environment(&ops);

    if (status == TARN_OK)
        status = tarn_manager_create(ops, process.config, device, &made);
    if (status == TARN_OK && !process.is_known) {
        tarn__mutex_lock(&lock);
        remember(ops, NULL);
        tarn__mutex_unlock(&lock);
    }
    made = end_making(device, made);
    if (status == TARN_OK)
        *out = made;
    return status;
}

tarn_status tarn_memory_manager(int device, tarn_manager **out)
{
    tarn_manager *manager = NULL;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: memory_manager: out is NULL");
    tarn_status status = tarn__device_check("manager", device);
    if (status == TARN_OK && tarn__driver_gone())
        status = tarn_error_set(TARN_DRIVER_FAILURE,
                                "manager: memory_manager was called in an exiting "
                                "process or in a forked child");
    if (status == TARN_OK)
        status = find_or_begin(device, &manager);
    if (status != TARN_OK)
        return status;
    if (!manager)
        return make_instance(device, out);
    *out = manager;
    return TARN_OK;
}
