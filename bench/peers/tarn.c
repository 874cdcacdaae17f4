/* tarn.c -- Tarn's resources, the driver's pool and the empty loop as peers. */
#define _GNU_SOURCE
#include "peers.h"
#include <stdlib.h>
#include <string.h>

/* --- resources ---------------------------------------------------------------------- */

struct tarn_peer {
    tarn_resource *resource;
};

static void *open_resource(const struct peer *peer, const struct peer_setup *setup)
{
    struct tarn_peer *self = bench_allocate(1, sizeof *self);
    char spec[256];

    snprintf(spec, sizeof spec, "%s", peer->spec);
    if (setup->initial_bytes)
        snprintf(spec, sizeof spec, "%s%cinitial=%zu", peer->spec,
                 strchr(peer->spec, ':') ? ',' : ':', setup->initial_bytes);
    self->resource = bench_resource(spec, setup->most_bytes);
    return self;
}

static unsigned long long allocate(void *self, size_t bytes, void *stream)
{
    tarn_device_ptr block;

    return tarn_resource_allocate(((struct tarn_peer *)self)->resource, bytes, 0, stream,
                                  &block) == TARN_OK
               ? block
               : 0;
}

static void deallocate(void *self, unsigned long long block, size_t bytes, void *stream)
{
    bench_must(tarn_resource_deallocate(((struct tarn_peer *)self)->resource, block,
                                        bytes, 0, stream),
               "free");
}

static size_t pool_peak(void *self)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    bench_must(
        tarn_pool_get_statistics(((struct tarn_peer *)self)->resource, &statistics),
        "statistics");
    return statistics.peak_reserved;
}

static void close_resource(void *self)
{
    bench_must(tarn_resource_release(((struct tarn_peer *)self)->resource), "release");
    free(self);
}

static void *begin_stream(void *self, void *raw)
{
    tarn_stream stream;

    (void)self;
    bench_must(tarn_stream_register(0, raw, &stream), "register");
    return stream;
}

static void end_stream(void *self, void *stream)
{
    (void)self;
    bench_must(tarn_stream_unregister(stream), "unregister");
}

/* --- the empty loop ----------------------------------------------------------------- */

/* One block, which every allocation returns, so that the busy loop can fill it. */
enum { EMPTY_BYTES = 64 << 10 };

struct empty {
    tarn_resource *resource;
    tarn_device_ptr block;
};

static void *open_empty(const struct peer *peer, const struct peer_setup *setup)
{
    struct empty *empty = bench_allocate(1, sizeof *empty);

    (void)peer, (void)setup;
    empty->resource = bench_resource("cuda", 0);
    bench_must(
        tarn_resource_allocate(empty->resource, EMPTY_BYTES, 0, NULL, &empty->block),
        "allocate");
    return empty;
}

static unsigned long long allocate_nothing(void *self, size_t bytes, void *stream)
{
    (void)bytes, (void)stream;
    return ((struct empty *)self)->block;
}

static void free_nothing(void *self, unsigned long long block, size_t bytes, void *stream)
{
    (void)self, (void)block, (void)bytes, (void)stream;
}

static size_t peak_of_nothing(void *self)
{
    (void)self;
    return 0;
}

static void close_empty(void *self)
{
    struct empty *empty = self;

    bench_must(
        tarn_resource_deallocate(empty->resource, empty->block, EMPTY_BYTES, 0, NULL),
        "free");
    bench_must(tarn_resource_release(empty->resource), "release");
    free(empty);
}

/* --- by name ------------------------------------------------------------------------ */

static const struct peer empty_loop = {.name = "empty loop",
                                       .reserves = true,
                                       .open = open_empty,
                                       .allocate = allocate_nothing,
                                       .deallocate = free_nothing,
                                       .reserved_peak = peak_of_nothing,
                                       .close = close_empty};

/* "Tarn raw, growth=64MiB". */
static const char *name_of(const char *name, const char *spec, bool initial)
{
    const char *options = strchr(spec, ':');
    char *text;

    if (asprintf(&text, "%s%s%s%s", name, options ? ", " : "", options ? options + 1 : "",
                 initial ? ", initial" : "") < 0)
        bench_die("no host memory");
    return text;
}

size_t bench_tarn_peers(const char *spec, bool initial, struct peer *peers,
                        size_t capacity)
{
    bool is_pool = bench_is_pool(spec);
    size_t count = 0;

    if (strcmp(spec, "empty") == 0) {
        if (capacity == 0 || initial)
            return 0;
        peers[0] = empty_loop;
        return 1;
    }
    if (initial && !is_pool)
        return 0;
    for (int registered = 0; registered <= is_pool && count < capacity; registered++) {
        const char *name = !is_pool ? strcmp(spec, "async") == 0 ? "driver pool" : spec
                           : registered ? "Tarn registered"
                                        : "Tarn raw";
        peers[count++] = (struct peer){.name = name_of(name, spec, initial),
                                       .limits = is_pool && !initial,
                                       .reserves = is_pool,
                                       .starts = initial,
                                       .open = open_resource,
                                       .allocate = allocate,
                                       .deallocate = deallocate,
                                       .reserved_peak = is_pool ? pool_peak : NULL,
                                       .close = close_resource,
                                       .begin_stream = registered ? begin_stream : NULL,
                                       .end_stream = registered ? end_stream : NULL,
                                       .spec = spec};
    }
    return count;
}

tarn_resource *bench_peer_pool(const struct peer *peer, void *self)
{
    return peer->open == open_resource && bench_is_pool(peer->spec)
               ? ((struct tarn_peer *)self)->resource
               : NULL;
}
