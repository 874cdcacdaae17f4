/* Test the process's manager. Each test is a process of its own: a process sets it once.
 */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before the driver is opened. */
__attribute__((constructor)) static void ask_for_two_devices(void)
{
    setenv("TARN_SIM", "devices=2", 1);
    unsetenv("TARN_MEMORY_MANAGER");
}

static const char *plugin(void)
{
    static char path[600];

    snprintf(path, sizeof path, "%s/tests/fake/manager.so", getenv("TARN_BUILD"));
    return path;
}

/* Another device, if there is one. */
static int last_device(void)
{
    tarn_driver_info info;

    CHILD_STATUS(TARN_OK, tarn_driver_get_info(&info));
    return info.device_count - 1;
}

static int warnings;

static void count_warning(void *data, const char *message)
{
    (void)message;
    ++*(int *)data;
}

static void serves(const char *name, int device)
{
    tarn_manager *manager;

    CHILD_STATUS(TARN_OK, tarn_memory_manager(device, &manager));
    if (strcmp(tarn_manager_name(manager), name) != 0)
        child_fail("%s serves, not %s", tarn_manager_name(manager), name);
    tarn_manager_release(manager);
}

/* --- one instance --- */

static void ask_twice(void)
{
    tarn_manager *one, *other;

    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &one));
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &other));
    CHILD_CHECK(one == other);
    tarn_manager_release(other);
    tarn_manager_release(one);
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &other));
    CHILD_CHECK(one == other); /* the process has a reference of its own */
    CHILD_STATUS(TARN_OK, tarn_memory_manager(last_device(), &other));
    CHILD_CHECK(one != other || last_device() == 0);
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_memory_manager(99, &other));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_memory_manager(0, NULL));
    serves("resource", 0);
}

TEST(process_has_one_instance_a_context)
{
    in_child(ask_twice);
}

/* A manager that counts its instances and is slow to create one. */
static atomic_int made;
static tarn_status (*meanwhile)(void);

static tarn_status slow_create(void *config, int device, void *context, void **self_out)
{
    (void)config;
    (void)device;
    *self_out = context;
    if (meanwhile && meanwhile() != TARN_OK)
        return tarn_error_last()->status;
    atomic_fetch_add(&made, 1);
    return TARN_OK;
}

static void slow_destroy(void *self)
{
    (void)self;
}

static tarn_status slow_memalloc(void *self, size_t bytes, tarn_stream stream,
                                 tarn_pointer **out)
{
    (void)self;
    (void)stream;
    (void)out;
    return tarn_error_set(TARN_OUT_OF_MEMORY, "slow: %zu bytes", bytes);
}

static const tarn_manager_ops slow = {
    .size = sizeof slow,
    .name = "slow",
    .interface_version = TARN_MANAGER_INTERFACE_VERSION,
    .create = slow_create,
    .destroy = slow_destroy,
    .initialize = tarn_host_only_initialize,
    .reset = tarn_host_only_reset,
    .memalloc = slow_memalloc,
    .memhostalloc = tarn_host_only_memhostalloc,
    .mempin = tarn_host_only_mempin,
};

enum { THREADS = 8 };

static void *ask(void *out)
{
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, out));
    return NULL;
}

static void ask_from_threads(void)
{
    pthread_t threads[THREADS];
    tarn_manager *managers[THREADS];

    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, NULL));
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, ask, &managers[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(managers[i] == managers[0]);
    CHILD_CHECK(made == 1);
}

TEST(process_has_one_instance_whichever_thread_comes_first)
{
    in_child(ask_from_threads);
}

/* The first caller decides, and the others get an error. */
static atomic_int taken, rejected;

static void *set_or_ask(void *data)
{
    const tarn_manager_ops *ops = data;
    tarn_manager *manager;

    if (ops) {
        tarn_status status = tarn_set_memory_manager(ops, NULL);
        CHILD_CHECK(status == TARN_OK || status == TARN_ALREADY_SET);
        atomic_fetch_add(status == TARN_OK ? &taken : &rejected, 1);
        return NULL;
    }
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &manager));
    tarn_manager_release(manager);
    return NULL;
}

static void set_from_threads(void)
{
    pthread_t threads[THREADS];
    const tarn_manager_ops *all[THREADS] = {
        &slow, tarn_native_manager_ops(), NULL, tarn_pool_manager_ops(), NULL, &slow};

    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, set_or_ask,
                                   (void *)(uintptr_t)all[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHILD_CHECK(taken + rejected == 4 && taken <= 2); /* one exists twice */
}

TEST(threads_agree_on_one_manager)
{
    in_child(set_from_threads);
}

static tarn_status ask_within(void)
{
    tarn_manager *manager;

    return tarn_memory_manager(0, &manager);
}

static void ask_within_create(void)
{
    tarn_manager *manager = NULL;

    meanwhile = ask_within;
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, NULL));
    CHILD_STATUS(TARN_REENTRANT_CALL, tarn_memory_manager(0, &manager));
    CHILD_MESSAGE("while its manager creates it");
    CHILD_CHECK(manager == NULL);
    meanwhile = NULL; /* no call is blocked */
    serves("slow", 0);
}

TEST(manager_that_requests_itself_while_it_is_created_gets_an_error)
{
    in_child(ask_within_create);
}

/* --- the two checks --- */

static void set_another(void)
{
    tarn_manager_ops copy = slow;
    int config;

    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, &config));
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, &config));
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&copy, &config));
    CHILD_STATUS(TARN_ALREADY_SET, tarn_set_memory_manager(&slow, NULL));
    CHILD_STATUS(TARN_ALREADY_SET,
                 tarn_set_memory_manager(tarn_native_manager_ops(), NULL));
    CHILD_MESSAGE("cannot set native, slow was set before");
    serves("slow", 0);
    CHILD_STATUS(TARN_OK,
                 tarn_set_memory_manager(&slow, &config)); /* a cell runs twice */
    CHILD_STATUS(TARN_ALREADY_SET, tarn_set_memory_manager(NULL, NULL));
    serves("slow", last_device());
}

TEST(manager_is_set_once_a108)
{
    in_child(set_another);
}

__attribute__((noinline)) static void leave_bytes_on_the_stack(unsigned char byte)
{
    volatile unsigned char bytes[8192];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = byte;
}

/* A table from before the optional operations. */
static void set_a_shorter_table(void)
{
    tarn_manager_ops shorter = slow;
    int config;

    shorter.size = offsetof(tarn_manager_ops, memallocmanaged);
    for (unsigned char i = 1; i < 4; i++) {
        leave_bytes_on_the_stack(i);
        CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&shorter, &config));
    }
}

TEST(manager_with_a_shorter_table_may_be_set_again)
{
    in_child(set_a_shorter_table);
}

static void set_late(void)
{
    serves("resource", 0);
    CHILD_STATUS(TARN_ALREADY_SET,
                 tarn_set_memory_manager(tarn_native_manager_ops(), NULL));
    CHILD_MESSAGE("cannot set native, the process has used");
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(tarn_resource_manager_ops(), NULL));
    serves("resource", last_device());
}

TEST(manager_is_set_before_the_first_use_a107)
{
    in_child(set_late);
}

/* By a plugin that the environment names, so that no manager is set yet. */
static void set_while_one_is_made(void)
{
    char text[700];

    snprintf(text, sizeof text, "%s:that_sets_another", plugin());
    setenv("TARN_MEMORY_MANAGER", text, 1);
    tarn_set_warning_handler(NULL, NULL);
    serves("fake", 0);
    void *library = dlopen(plugin(), RTLD_NOW | RTLD_NOLOAD);
    const tarn_status *notified = library ? dlsym(library, "plugin_was_told") : NULL;
    CHILD_CHECK(notified && *notified == TARN_ALREADY_SET);
    dlclose(library);
    serves("fake", last_device());
}

TEST(manager_is_not_set_while_one_is_made)
{
    in_child(set_while_one_is_made);
}

/* --- a call while another thread creates an instance that the environment names --- */

static atomic_int *is_creating, *goes_on;
static const tarn_manager_ops *setting;
static atomic_int set_status = -1; /* -1: the call has not returned */

static void *ask_for_the_plugin(void *wanted)
{
    tarn_manager *manager = NULL;

    CHILD_STATUS(*(tarn_status *)wanted, tarn_memory_manager(0, &manager));
    tarn_manager_release(manager);
    return NULL;
}

static void *set_from_a_thread(void *unused)
{
    (void)unused;
    atomic_store(&set_status, (int)tarn_set_memory_manager(setting, NULL));
    return NULL;
}

/* Return the status of setting `ops` (NULL: the plugin's own table) while `create` runs,
 * which then returns `created`. */
static tarn_status set_during_create(const tarn_manager_ops *ops, tarn_status created)
{
    pthread_t asking, other;
    char text[700];
    void *library = dlopen(plugin(), RTLD_NOW);

    CHILD_CHECK(library != NULL);
    is_creating = dlsym(library, "plugin_is_creating");
    goes_on = dlsym(library, "plugin_goes_on");
    setting = ops;
    if (!ops)
        CHILD_STATUS(TARN_OK, tarn_manager_load(plugin(), "that_waits", &setting));
    snprintf(text, sizeof text, "%s:that_waits", plugin());
    setenv("TARN_MEMORY_MANAGER", text, 1);
    tarn_set_warning_handler(NULL, NULL);
    CHILD_CHECK(pthread_create(&asking, NULL, ask_for_the_plugin, &created) == 0);
    while (!atomic_load(is_creating))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHILD_CHECK(pthread_create(&other, NULL, set_from_a_thread, NULL) == 0);
    for (int i = 0; i < 50 && atomic_load(&set_status) < 0; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* let it begin */
    atomic_store(goes_on, (int)created + 1);
    pthread_join(asking, NULL);
    pthread_join(other, NULL);
    dlclose(library);
    return (tarn_status)atomic_load(&set_status);
}

static void set_the_same_during_create(void)
{
    CHILD_STATUS(TARN_OK, set_during_create(NULL, TARN_OK));
    serves("fake", 0);
}

static void set_another_during_create(void)
{
    CHILD_STATUS(TARN_ALREADY_SET, set_during_create(tarn_native_manager_ops(), TARN_OK));
    serves("fake", 0);
}

static void set_another_during_a_create_that_fails(void)
{
    CHILD_STATUS(TARN_OK,
                 set_during_create(tarn_native_manager_ops(), TARN_OUT_OF_MEMORY));
    serves("native", 0);
}

TEST(manager_that_is_set_while_a_thread_creates_one_gets_the_status_of_a_later_call)
{
    in_child(set_the_same_during_create);
    in_child(set_another_during_create);
    in_child(set_another_during_a_create_that_fails);
}

static void set_broken(void)
{
    tarn_manager_ops broken = slow;

    broken.interface_version = 2;
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_set_memory_manager(&broken, NULL));
    CHILD_MESSAGE("version 1 required");
    broken = slow;
    broken.memalloc = NULL;
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_set_memory_manager(&broken, NULL));
    CHILD_MESSAGE("slow has no memalloc");
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(NULL, NULL)); /* that decided nothing */
    serves("resource", 0);
}

TEST(manager_that_does_not_fit_decides_nothing)
{
    in_child(set_broken);
}

static void fail_once(void)
{
    tarn_manager *manager = NULL;

    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(0));
    setenv("TARN_MEMORY_MANAGER", "/nowhere/x.so", 1);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_memory_manager(0, &manager));
    CHILD_MESSAGE("TARN_MEMORY_MANAGER=/nowhere/x.so: manager: cannot find the file");
    CHILD_CHECK(manager == NULL);
    unsetenv("TARN_MEMORY_MANAGER");
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, NULL));
    serves("slow", 0);
}

TEST(instance_that_cannot_be_made_decides_nothing)
{
    in_child(fail_once);
}

/* --- the environment --- */

static void name_known(void)
{
    const char *names[] = {"native", "pool", "resource"};

    for (int i = 0; i < 3; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            setenv("TARN_MEMORY_MANAGER", names[i], 1);
            serves(names[i], 0);
            setenv("TARN_MEMORY_MANAGER", "resource", 1);
            serves(names[i], last_device()); /* one manager for all contexts */
            _exit(0);
        }
        CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

TEST(environment_names_a_manager_of_tarn)
{
    in_child(name_known);
}

static void name_none(void)
{
    tarn_manager *manager;

    setenv("TARN_MEMORY_MANAGER", "rmm", 1);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_memory_manager(0, &manager));
    CHILD_MESSAGE("TARN_MEMORY_MANAGER=rmm is not resource, native, pool");
    setenv("TARN_MEMORY_MANAGER", "", 1); /* as if it were not there */
    serves("resource", 0);
}

TEST(environment_that_names_no_manager_gets_an_error)
{
    in_child(name_none);
}

static void name_plugin(void)
{
    char text[700];
    tarn_manager *manager;

    snprintf(text, sizeof text, "%s:of_version_2", plugin());
    setenv("TARN_MEMORY_MANAGER", text, 1);
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_memory_manager(0, &manager));
    CHILD_MESSAGE("version 1 required");
    snprintf(text, sizeof text, "%s:", plugin());
    setenv("TARN_MEMORY_MANAGER", text, 1);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_memory_manager(0, &manager));
    CHILD_MESSAGE("has no symbol");
    setenv("TARN_MEMORY_MANAGER", plugin(), 1);
    serves("fake", 0);
    void *library = dlopen(plugin(), RTLD_NOW | RTLD_NOLOAD);
    int *instances = library ? dlsym(library, "plugin_instances") : NULL;
    CHILD_CHECK(instances && *instances == 1);
    serves("fake", 0);
    CHILD_CHECK(*instances == 1);
    dlclose(library);
}

TEST(environment_names_a_plugin)
{
    in_child(name_plugin);
}

static void name_symbol(void)
{
    char text[700];

    snprintf(text, sizeof text, "%s:tarn_manager_plugin", plugin());
    setenv("TARN_MEMORY_MANAGER", text, 1);
    serves("fake", last_device());
}

TEST(environment_names_a_plugin_and_its_symbol)
{
    in_child(name_symbol);
}

static void set_and_name(void)
{
    tarn_set_warning_handler(count_warning, &warnings);
    setenv("TARN_MEMORY_MANAGER", plugin(), 1);
    CHILD_CHECK(strcmp(tarn_warning_last(), "") == 0);
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, NULL));
    CHILD_CHECK(warnings == 1);
    CHILD_CHECK(strstr(tarn_warning_last(), "is ignored, the program has set slow"));
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(&slow, NULL));
    CHILD_CHECK(warnings == 1);
    serves("slow", 0);
}

TEST(call_wins_over_the_environment_and_warns)
{
    in_child(set_and_name);
}

static void set_what_is_named(void)
{
    tarn_set_warning_handler(count_warning, &warnings);
    setenv("TARN_MEMORY_MANAGER", "native", 1);
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(tarn_native_manager_ops(), NULL));
    CHILD_CHECK(warnings == 0);
}

TEST(call_that_agrees_with_the_environment_does_not_warn)
{
    in_child(set_what_is_named);
}

/* --- the end --- */

static void ask_after_a_fork(void)
{
    tarn_manager *manager;
    int status = 0;

    serves("resource", 0);
    pid_t child = fork();
    if (child == 0) {
        CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_memory_manager(0, &manager));
        CHILD_MESSAGE("forked child");
        _exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
}

TEST(forked_child_has_no_manager)
{
    in_child(ask_after_a_fork);
}
