/* resources.c -- resources by name, and the simulator's controls if it is the driver. */
#define _GNU_SOURCE
#include "bench.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <tarn/sim.h>

/* --- null: addresses without memory ---------------------------------------------------- */

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

/* --- by name --------------------------------------------------------------------------- */

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

static void take_option(tarn_pool_options *options, char *option)
{
    char *value = strchr(option, '=');

    if (value)
        *value++ = '\0';
    if (strcmp(option, "grow_first") == 0)
        options->grow_first = true;
    else if (strcmp(option, "give_up") == 0)
        options->oom_policy = TARN_POOL_OOM_FAIL;
    else if (value && strcmp(option, "growth") == 0)
        options->growth_bytes = bench_bytes(value);
    else if (value && strcmp(option, "maximum") == 0)
        options->maximum_bytes = bench_bytes(value);
    else if (value && strcmp(option, "initial") == 0)
        options->initial_bytes = bench_bytes(value);
    else if (value && strcmp(option, "release") == 0)
        options->release_threshold_bytes = bench_bytes(value);
    else
        bench_die("a pool has no option %s", option);
}

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

/* --- the device ------------------------------------------------------------------------ */

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
    tarn_driver_info info;
    void *library, *found;

    bench_must(tarn_driver_get_info(&info), "driver");
    library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    found = library ? dlsym(library, "tarn_timed_pass") : NULL;
    if (found)
        ((void (*)(const char *))found)(pass);
}
