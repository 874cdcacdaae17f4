/* resources.c -- resources by name, and the simulator's controls if it is the driver. */
#define _GNU_SOURCE
#include "bench.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <tarn/sim.h>

/* --- null: addresses without memory ------------------------------------------------- */

enum { NULL_ALIGNMENT = 2 << 20 };

struct null {
    atomic_uint_fast64_t next; /* the first address that was never allocated */
    atomic_uint_fast64_t out;  /* bytes */
};

static tarn_status null_allocate(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct null *null = self;
    uint64_t step = alignment > NULL_ALIGNMENT ? alignment : NULL_ALIGNMENT;
    /* One unit between blocks, so that no two are neighbours. */
    uint64_t padded_bytes = (bytes + step - 1) / step * step + step;

    (void)stream;
    atomic_fetch_add(&null->out, bytes);
    *out = (atomic_fetch_add(&null->next, padded_bytes + step) + step - 1) / step * step;
    return TARN_OK;
}

static tarn_status null_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    (void)block, (void)alignment, (void)stream;
    atomic_fetch_sub(&((struct null *)self)->out, bytes);
    return TARN_OK;
}

static const tarn_resource_ops null_ops = {.size = sizeof null_ops,
                                           .name = "null",
                                           .allocate = null_allocate,
                                           .deallocate = null_deallocate,
                                           .destroy = free};

static tarn_resource *make_null(void)
{
    struct null *null = bench_allocate(1, sizeof *null);
    tarn_resource *resource;

    null->next = (uint64_t)1 << 45; /* there is no memory, and no code accesses it */
    bench_must(tarn_resource_create(&null_ops, null, 0, &resource), "null");
    return resource;
}

/* --- by name ------------------------------------------------------------------------ */

uint64_t bench_bytes(const char *text)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0},     {"B", 0},  {"KiB", 10}, {"K", 10},
                 {"MiB", 20}, {"M", 20}, {"GiB", 30}, {"G", 30}};
    char *end;
    uint64_t number = strtoull(text, &end, 0);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcasecmp(end, units[i].name) == 0)
            return number << units[i].shift;
    bench_die("%s is not a number of bytes", text);
}

/* The options of a pool by name: a number of bytes, a flag, or one value of an
 * enumeration (`oom_policy=fail`). A new option of the pool is one line here. */
enum option_kind { BYTES, FLAG, CHOICE };

static const struct pool_option {
    const char *name, *value; /* `value` only of a CHOICE */
    enum option_kind kind;
    size_t offset;
    int choice;
} pool_options[] = {
#define OPTION(name, kind, member) \
    {name, NULL, kind, offsetof(tarn_pool_options, member), 0}
#define CHOICE_OF(name, value, member, number) \
    {name, value, CHOICE, offsetof(tarn_pool_options, member), number}
    OPTION("growth", BYTES, growth_bytes),
    OPTION("maximum", BYTES, maximum_bytes),
    OPTION("initial", BYTES, initial_bytes),
    OPTION("release", BYTES, release_threshold_bytes),
    OPTION("no_stream_limit", BYTES, no_stream_limit_bytes),
    OPTION("grow_first", FLAG, grow_first),
    OPTION("background_thread", FLAG, background_thread),
    CHOICE_OF("oom_policy", "synchronize", oom_policy, TARN_POOL_OOM_SYNCHRONIZE),
    CHOICE_OF("oom_policy", "fail", oom_policy, TARN_POOL_OOM_FAIL),
    CHOICE_OF("no_stream_policy", "synchronize", no_stream_policy,
              TARN_POOL_NO_STREAM_SYNCHRONIZE),
    CHOICE_OF("no_stream_policy", "event", no_stream_policy, TARN_POOL_NO_STREAM_EVENT),
    CHOICE_OF("no_stream_policy", "single", no_stream_policy, TARN_POOL_NO_STREAM_SINGLE),
    CHOICE_OF("moves", "default", moves, TARN_POOL_MOVES_DEFAULT),
    CHOICE_OF("moves", "never", moves, TARN_POOL_MOVES_NEVER),
    CHOICE_OF("policy", "default", policy, TARN_POOL_POLICY_DEFAULT),
    CHOICE_OF("policy", "tight", policy, TARN_POOL_POLICY_TIGHT),
#undef OPTION
#undef CHOICE_OF
};

static void set_option(tarn_pool_options *options, const struct pool_option *option,
                       const char *value)
{
    char *member = (char *)options + option->offset;

    if (option->kind == BYTES)
        *(size_t *)(void *)member = (size_t)bench_bytes(value);
    else if (option->kind == FLAG)
        *(bool *)(void *)member = true;
    else
        *(int *)(void *)member = option->choice;
}

static void take_option(tarn_pool_options *options, char *option)
{
    char *value = strchr(option, '=');

    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < sizeof pool_options / sizeof *pool_options; i++) {
        const struct pool_option *known = &pool_options[i];
        bool fits = known->kind == FLAG    ? !value
                    : known->kind == BYTES ? value != NULL
                                           : value && strcmp(value, known->value) == 0;
        if (fits && strcmp(option, known->name) == 0) {
            set_option(options, known, value);
            return;
        }
    }
    bench_die("a pool has no option %s%s%s", option, value ? "=" : "",
              value ? value : "");
}

_Static_assert(sizeof(tarn_pool_oom_policy) == sizeof(int), "a CHOICE is set as an int");

static tarn_resource *make_pool(char *upstream_name, char *options_text, uint64_t maximum)
{
    tarn_pool_options options = {.size = sizeof options};
    tarn_resource *upstream = NULL, *pool;
    char *rest;

    for (char *option = options_text ? strtok_r(options_text, ",", &rest) : NULL; option;
         option = strtok_r(NULL, ",", &rest))
        take_option(&options, option);
    if (maximum)
        options.maximum_bytes = maximum;
    if (upstream_name)
        upstream = bench_resource(upstream_name, 0);
    bench_must(tarn_pool_create(0, upstream, &options, &pool), "pool");
    tarn_resource_release(upstream);
    return pool;
}

bool bench_is_pool(const char *spec)
{
    return strncmp(spec, "pool", 4) == 0;
}

tarn_resource *bench_resource(const char *spec, uint64_t maximum)
{
    char *name = strdup(spec);
    char *options = strchr(name, ':'), *upstream;
    tarn_resource *resource = NULL;

    if (options)
        *options++ = '\0';
    upstream = strchr(name, '/');
    if (upstream)
        *upstream++ = '\0';
    if (strcmp(name, "pool") == 0)
        resource = make_pool(upstream, options, maximum);
    else if (strcmp(name, "async") == 0)
        bench_must(tarn_async_create(0, NULL, &resource), spec);
    else if (strcmp(name, "cuda") == 0)
        bench_must(tarn_cuda_create(0, &resource), spec);
    else if (strcmp(name, "null") == 0)
        resource = make_null();
    else
        bench_die("unknown resource %s; the resources are cuda, async, null, pool", spec);
    free(name);
    return resource;
}

/* --- the device --------------------------------------------------------------------- */

static uint64_t free_at_start;

static uint64_t device_free(void)
{
    tarn_device_info info;

    bench_must(tarn_driver_device_info(0, &info), "device");
    return info.free_bytes;
}

void bench_memory_start(void)
{
    free_at_start = device_free();
}

uint64_t bench_memory_taken(void)
{
    uint64_t now = device_free();

    return now < free_at_start ? free_at_start - now : 0;
}

/* --- the driver --------------------------------------------------------------------- */

static void *driver_library(void)
{
    static void *library;
    tarn_driver_info info;

    if (!library) {
        bench_must(tarn_driver_get_info(&info), "driver");
        library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    }
    if (!library)
        bench_die("the driver is not loaded");
    return library;
}

void *bench_driver_function(const char *symbol, int version)
{
    int (*get)(const char *, void **, int, uint64_t, int *);
    void *found = dlsym(driver_library(), "cuGetProcAddress_v2"), *out = NULL;
    int how;

    if (found) {
        memcpy(&get, &found, sizeof get);
        if (get(symbol, &out, version, 0, &how) != 0)
            out = NULL;
    }
    if (!out)
        bench_die("the driver has no %s", symbol);
    return out;
}

void bench_must_cuda(int result, const char *symbol)
{
    if (result != 0)
        bench_die("%s: %d", symbol, result);
}

static struct {
    void *context;
    int (*set_current)(void *);
    int (*destroy_stream)(void *);
    int (*fill)(tarn_device_ptr, unsigned char, size_t, void *);
} driver;

static void retain_context(void)
{
    int (*retain)(void **, int);
    void *found = bench_driver_function("cuDevicePrimaryCtxRetain", 7000);

    memcpy(&retain, &found, sizeof retain);
    bench_must_cuda(retain(&driver.context, 0), "cuDevicePrimaryCtxRetain");
    found = bench_driver_function("cuCtxSetCurrent", 4000);
    memcpy(&driver.set_current, &found, sizeof found);
    found = bench_driver_function("cuStreamDestroy", 4000);
    memcpy(&driver.destroy_stream, &found, sizeof found);
    found = bench_driver_function("cuMemsetD8Async", 3020);
    memcpy(&driver.fill, &found, sizeof found);
}

void bench_make_current(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, retain_context);
    bench_must_cuda(driver.set_current(driver.context), "cuCtxSetCurrent");
}

void bench_stream_destroy(tarn_stream raw)
{
    bench_must_cuda(driver.destroy_stream(raw), "cuStreamDestroy");
}

void bench_fill(tarn_device_ptr block, size_t bytes, tarn_stream raw)
{
    bench_must_cuda(driver.fill(block, 1, bytes, raw), "cuMemsetD8Async");
}

bool bench_counted_calls(uint64_t *out)
{
    static uint64_t (*calls)(void);
    static bool looked;

    if (!looked) {
        void *found = dlsym(driver_library(), "tarn_timed_calls");
        memcpy(&calls, &found, sizeof calls);
        looked = true;
    }
    *out = calls ? calls() : 0;
    return calls != NULL;
}

void *bench_sim_control(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    return library ? dlsym(library, name) : NULL;
}

void bench_sim_configure(const char *options)
{
    tarn_driver_info info;

    bench_must(tarn_driver_get_info(&info), "driver");
    tarn_sim_configure_fn *configure =
        (tarn_sim_configure_fn *)bench_sim_control("tarn_sim_configure");
    if (configure && configure(options) != 0)
        bench_die("the simulator rejects %s: %s", options,
                  ((tarn_sim_error_fn *)bench_sim_control("tarn_sim_error"))());
}

uint64_t bench_driver_calls(void)
{
    static tarn_sim_calls_fn *calls;

    if (!calls)
        calls = (tarn_sim_calls_fn *)bench_sim_control("tarn_sim_calls");
    return calls ? calls() : 0;
}

void bench_timed_pass(const char *pass)
{
    void *found = dlsym(driver_library(), "tarn_timed_pass");

    if (found)
        ((void (*)(const char *))found)(pass);
}
