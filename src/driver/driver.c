/* driver.c -- finding the driver, once for each process.
 *
 * The order is: the path argument, TARN_DRIVER, libcuda.so.1. `sim` selects the driver
 * simulator, which lies beside libtarn in tarn/sim/. (It is unrelated to Numba's
 * NUMBA_ENABLE_CUDASIM.) Opening fails in a process that has another driver loaded: two
 * drivers would each know half of the memory. Every symbol comes from cuGetProcAddress_v2
 * with the version in calls.h. A library that has only newer or older variants therefore
 * cannot be called with the wrong arguments.
 *
 * A process that was forked while another thread opened the driver has no driver: a
 * half-opened one is as unusable as an open one.
 *
 * The file also turns results of the driver's calls into statuses and messages.
 */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "base/mutex_assert.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OLDEST_VERSION = 12000, PATH_BYTES = 512, NEEDED = 1, OPTIONAL = 0 };

static struct {
    /* taken to open, never by a driver call */
    pthread_mutex_t lock;
    atomic_bool is_begun;                        /* it is open, or about to be */
    _Atomic(const struct tarn__calls *) current; /* NULL until a driver is open */
    struct tarn__calls calls;
    tarn_driver_info info;
    /* the argument of tarn_driver_open(), or the environment's value */
    char requested[PATH_BYTES];
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

atomic_bool tarn__driver_is_gone;

int tarn__driver_device_count(void)
{
    return atomic_load(&driver.current) ? driver.info.device_count : 0;
}

/* Registered after cuInit, so it runs before the driver's own shutdown. */
static void mark_gone(void)
{
    atomic_store(&tarn__driver_is_gone, true);
}

/* Code of the driver, and of others, runs under the lock, so a fork does not wait for
 * it. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&driver.lock, NULL);
    if (atomic_load(&driver.is_begun))
        mark_gone();
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* Find the file that defines cuInit for `library`; else false. The simulator's alias and
 * wrappers such as libcuda.so -> libcuda.so.1 lead to the real one. */
static bool file_of(void *library, char path[PATH_BYTES])
{
    void *symbol = dlsym(library, "cuInit");
    Dl_info info;

    if (!symbol || !dladdr(symbol, &info) || !info.dli_fname)
        return false;
    snprintf(path, PATH_BYTES, "%s", info.dli_fname);
    return true;
}

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;

    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* The paths of libraries in this process that have a driver's name. */
struct loaded {
    char paths[8][PATH_BYTES];
    int count;
};

static int note_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
    struct loaded *loaded = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (slash && strncmp(slash + 1, "libcuda.so", 10) == 0 && loaded->count < 8)
        snprintf(loaded->paths[loaded->count++], PATH_BYTES, "%s", info->dlpi_name);
    return 0;
}

/* Fail if a driver other than `ours` is loaded. */
static tarn_status check_other_drivers(const char *ours)
{
    struct loaded loaded = {.count = 0};

    dl_iterate_phdr(note_loaded, &loaded);
    for (int i = 0; i < loaded.count; i++) {
        char path[PATH_BYTES];
        void *library = dlopen(loaded.paths[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        bool is_driver = file_of(library, path);
        dlclose(library);
        if (is_driver && !same_file(path, ours))
            return tarn_error_set(
                TARN_NO_DRIVER,
                "driver: this process has loaded %.150s, Tarn was set to %.150s; two "
                "drivers in one process cannot share memory",
                path, ours);
    }
    return TARN_OK;
}

/* Return the path of the simulator: tarn/sim/ beside the file that holds this
 * function. */
static tarn_status simulator_path(char path[PATH_BYTES])
{
    Dl_info info;
    char here[PATH_BYTES], *slash;

    if (!dladdr((void *)(uintptr_t)&simulator_path, &info) || !info.dli_fname)
        return tarn_error_set(TARN_NO_DRIVER,
                              "driver: cannot determine the path of libtarn");
    snprintf(here, sizeof here, "%s", info.dli_fname);
    slash = strrchr(here, '/');
    if (slash)
        *slash = 0;
    int length =
        snprintf(path, PATH_BYTES, "%s/tarn/sim/libcuda.so.1", slash ? here : ".");
    if (length >= PATH_BYTES)
        return tarn_error_set(TARN_NO_DRIVER, "driver: the path of libtarn is too long");
    return TARN_OK;
}

/* Turn `requested` into a path for dlopen. */
static tarn_status resolve(const char *requested, char path[PATH_BYTES])
{
    if (strcmp(requested, "sim") == 0)
        return simulator_path(path);
    if (strlen(requested) >= PATH_BYTES)
        return tarn_error_set(TARN_NO_DRIVER,
                              "driver: the path has %zu bytes, which is too long",
                              strlen(requested));
    snprintf(path, PATH_BYTES, "%s", requested);
    return TARN_OK;
}

typedef CUresult_ get_proc_address_fn(const char *symbol, void **out, int version,
                                      uint64_t flags, int *status_out);

/* Fill the table from the library; a missing needed call is named. */
static tarn_status load_calls(void *library, const char *path, struct tarn__calls *calls)
{
    get_proc_address_fn *get =
        (get_proc_address_fn *)dlsym(library, "cuGetProcAddress_v2");

    if (!get)
        return tarn_error_set(TARN_NO_DRIVER,
                              "driver: %s is not a CUDA driver of version 12.0 or newer: "
                              "it has no cuGetProcAddress_v2",
                              path);
#define X(field, symbol, version, need, arguments)                                       \
    {                                                                                    \
        void *found = NULL;                                                              \
        int how = 0;                                                                     \
        if ((get(symbol, &found, version, 0, &how) != CUDA_SUCCESS_ || !found) && need)  \
            return tarn_error_set(TARN_NO_DRIVER, "driver: %s has no %s", path, symbol); \
        calls->field = (CUresult_(*) arguments)found;                                    \
    }
    TARN__CUDA_CALLS(X)
#undef X
    return TARN_OK;
}

/* Start the driver and query its properties. */
static tarn_status start(const char *path, const struct tarn__calls *calls,
                         tarn_driver_info *info)
{
    CUresult_ result = calls->driver_get_version(&info->version);

    if (result != CUDA_SUCCESS_)
        return tarn_error_set_native(
            TARN_NO_DRIVER, result, "driver: %s: cuDriverGetVersion failed with error %d",
            path, result);
    if (info->version < OLDEST_VERSION)
        return tarn_error_set(
            TARN_NO_DRIVER, "driver: %s supports CUDA %d.%d, Tarn requires 12.0 or newer",
            path, info->version / 1000, info->version % 1000 / 10);
    result = calls->init(0);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get_count(&info->device_count);
    if (result == CUDA_ERROR_NO_DEVICE_ ||
        (result == CUDA_SUCCESS_ && info->device_count < 1))
        return tarn_error_set_native(TARN_NO_DRIVER, result,
                                     "driver: %s found no GPU; TARN_DRIVER=sim selects "
                                     "the driver simulator, which needs no GPU",
                                     path);
    if (result != CUDA_SUCCESS_)
        return tarn_error_set_native(TARN_NO_DRIVER, result,
                                     "driver: %s: cuInit failed with error %d", path,
                                     result);
    return TARN_OK;
}

static tarn_status no_library(const char *requested, const char *path)
{
    const char *why = dlerror();

    if (strcmp(requested, "libcuda.so.1") == 0)
        return tarn_error_set(
            TARN_NO_DRIVER,
            "driver: no CUDA driver found (libcuda.so.1); TARN_DRIVER=sim selects the "
            "driver simulator, which needs no GPU");
    return tarn_error_set(TARN_NO_DRIVER, "driver: cannot load %s: %s", path,
                          why ? why : "no reason given");
}

/* Open the requested driver into the state. `lock` held; nothing changes on
 * failure. */
static tarn_status load_and_start(const char *requested)
{
    tarn__assert_mutex_held(&driver.lock);

    struct tarn__calls calls = {0};
    tarn_driver_info info = {0};
    char path[PATH_BYTES];
    tarn_status status = resolve(requested, path);

    if (status != TARN_OK)
        return status;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return no_library(requested, path);
    if (!file_of(library, info.path)) {
        dlclose(library);
        return tarn_error_set(TARN_NO_DRIVER,
                              "driver: %s is not a CUDA driver: it has no cuInit", path);
    }
    status = check_other_drivers(info.path);
    if (status == TARN_OK)
        status = load_calls(library, info.path, &calls);
    if (status == TARN_OK)
        status = start(info.path, &calls, &info);
    if (status != TARN_OK) {
        dlclose(library);
        return status;
    }
    info.is_simulator = dlsym(library, "tarn_sim_configure") != NULL;
    driver.calls = calls;
    driver.info = info;
    snprintf(driver.requested, sizeof driver.requested, "%s", requested);
    atexit(mark_gone);
    atomic_store(&driver.current, &driver.calls);
    return TARN_OK;
}

/* Open the requested driver. `lock` held. */
static tarn_status open_locked(const char *requested)
{
    tarn__assert_mutex_held(&driver.lock);

    tarn_status status = tarn__driver_check();

    if (status != TARN_OK)
        return status;
    atomic_store(&driver.is_begun, true);
    status = load_and_start(requested);
    atomic_store(&driver.is_begun, status == TARN_OK);
    return status;
}

/* Return true if `requested` is the open driver: by name, or by the file that it leads
 * to. */
static bool is_open_as(const char *requested)
{
    char path[PATH_BYTES];

    if (strcmp(requested, driver.requested) == 0)
        return true;
    return resolve(requested, path) == TARN_OK && same_file(path, driver.info.path);
}

/* A program with more rights than its caller (set-user-ID) loads no library that the
 * caller names. */
static const char *default_path(void)
{
    const char *named = secure_getenv("TARN_DRIVER");

    return named && *named ? named : "libcuda.so.1";
}

tarn_status tarn_driver_open(const char *path)
{
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&driver.lock);
    if (!atomic_load(&driver.current))
        status = open_locked(path ? path : default_path());
    else if (path && !is_open_as(path))
        status = tarn_error_set(TARN_ALREADY_SET,
                                "driver: %.200s is already open, cannot open %.200s",
                                driver.info.path, path);
    pthread_mutex_unlock(&driver.lock);
    return status;
}

tarn_status tarn__driver(const struct tarn__calls **out)
{
    const struct tarn__calls *calls =
        atomic_load_explicit(&driver.current, memory_order_acquire);

    if (!calls) {
        tarn_status status = tarn_driver_open(NULL);
        if (status != TARN_OK)
            return status;
        calls = atomic_load(&driver.current);
    }
    *out = calls;
    return TARN_OK;
}

tarn_status tarn__driver_check(void)
{
    if (!tarn__driver_gone())
        return TARN_OK;
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "driver: the driver can no longer be called: this process is "
                          "exiting or is a forked child");
}

enum tarn__failure_kind tarn__driver_classify(int result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY_:
        return TARN__FAILURE_OUT_OF_MEMORY;
    case CUDA_ERROR_NOT_SUPPORTED_:
        return TARN__FAILURE_NOT_SUPPORTED;
    case CUDA_ERROR_DEINITIALIZED_:
        return TARN__FAILURE_DRIVER_ENDED;
    case CUDA_ERROR_CONTEXT_IS_DESTROYED_:
        return TARN__FAILURE_CONTEXT_RESET;
    case 214: /* ECC_UNCORRECTABLE */
    case 220: /* NVLINK_UNCORRECTABLE */
    case 226: /* CONTAINED */
    case 700: /* ILLEGAL_ADDRESS */
    case 702: /* LAUNCH_TIMEOUT */
    case 710: /* ASSERT */
    case 714: /* HARDWARE_STACK_ERROR */
    case 715: /* ILLEGAL_INSTRUCTION */
    case 716: /* MISALIGNED_ADDRESS */
    case 717: /* INVALID_ADDRESS_SPACE */
    case 718: /* INVALID_PC */
    case 719: /* LAUNCH_FAILED */
        return TARN__FAILURE_CONTEXT_LOST;
    default:
        return TARN__FAILURE_OTHER;
    }
}

static tarn_status status_of(CUresult_ result)
{
    switch (tarn__driver_classify(result)) {
    case TARN__FAILURE_OUT_OF_MEMORY:
        return TARN_OUT_OF_MEMORY;
    case TARN__FAILURE_NOT_SUPPORTED:
        return TARN_NOT_SUPPORTED;
    default:
        return TARN_DRIVER_FAILURE;
    }
}

tarn_status tarn__driver_failed(const char *component, const char *call, CUresult_ result,
                                const char *format, ...)
{
    const struct tarn__calls *calls;
    const char *name = NULL;
    char numbers[256];
    va_list arguments;

    if (tarn__driver(&calls) == TARN_OK)
        calls->get_error_name(result, &name);
    va_start(arguments, format);
    vsnprintf(numbers, sizeof numbers, format, arguments);
    va_end(arguments);

    return tarn_error_set_native(status_of(result), result,
                                 "%s: %s failed with %s (%d), %s", component, call,
                                 name ? name : "an unknown error", result, numbers);
}

tarn_status tarn_driver_get_info(tarn_driver_info *out)
{
    const struct tarn__calls *calls;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "driver: get_info: out is NULL");
    tarn_status status = tarn__driver(&calls);
    if (status == TARN_OK)
        *out = driver.info;
    return status;
}
