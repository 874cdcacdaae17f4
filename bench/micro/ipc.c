/* ipc.c -- measure the cost of opening memory of another process.
 *
 *     bench-ipc
 *
 * The owner is a child with two blocks of one allocation (of a pool over it) of each kind
 * of memory that has handles. The benchmark opens them in three cases. `first`: one of
 * them while nothing is open. `again`: the same handle while it is open. `other`: the
 * other block's handle meanwhile. Each figure includes the close, in ns: the median, of
 * many for the latter two.
 */
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, FIRSTS = 30, BATCHES = 60, BATCH = 1000, SERVED_BATCH = 20 };

struct offer {
    char name[32];
    tarn_ipc_handle handles[2];
    bool is_last;
};

/* --- the owner --- */

static tarn_status make_cuda(tarn_resource **out)
{
    return tarn_cuda_create(0, out);
}

static tarn_status make_exportable(tarn_resource **out)
{
    return tarn_exportable_create(0, NULL, out);
}

static tarn_status make_async(tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};

    return tarn_async_create(0, &options, out);
}

static const struct {
    const char *name;
    tarn_status (*make)(tarn_resource **out);
    tarn_ipc_kind kind;
} offers[] = {
    {"cuda, plain", make_cuda, TARN_IPC_PLAIN},
    {"cuda, served", make_cuda, TARN_IPC_SERVED},
    {"exportable, plain", make_exportable, TARN_IPC_PLAIN},
    {"exportable, served", make_exportable, TARN_IPC_SERVED},
    {"driver's pool, plain", make_async, TARN_IPC_PLAIN},
    {"driver's pool, served", make_async, TARN_IPC_SERVED},
};

enum { OFFERS = sizeof offers / sizeof *offers };

static tarn_resource *make_pool(size_t i)
{
    tarn_resource *upstream, *pool;

    bench_must(offers[i].make(&upstream), offers[i].name);
    bench_must(tarn_pool_create(0, upstream, NULL, &pool), "pool");
    bench_must(tarn_resource_release(upstream), "release");
    return pool;
}

/* The blocks exist as long as the process. */
static void offer(size_t i, int line)
{
    struct offer offer = {.is_last = i + 1 == OFFERS};
    tarn_resource *pool = make_pool(i);
    tarn_pointer *blocks[2];

    snprintf(offer.name, sizeof offer.name, "%s", offers[i].name);
    for (size_t k = 0; k < 2; k++) {
        bench_must(tarn_pointer_allocate(pool, BLOCK, TARN_STREAM_NONE, &blocks[k]),
                   "allocate");
        bench_must(tarn_driver_synchronize(0), "wait");
        bench_must(tarn_ipc_export(blocks[k], offers[i].kind, &offer.handles[k]),
                   "export");
    }
    if (write(line, &offer, sizeof offer) != sizeof offer)
        bench_die("the importer is gone");
}

static void own(int line, int end)
{
    char mark;

    for (size_t i = 0; i < OFFERS; i++)
        offer(i, line);
    exit(read(end, &mark, 1) != 0); /* the server removes its socket */
}

/* --- the importer --- */

static void open_and_close(const tarn_ipc_handle *handle, int times)
{
    tarn_pointer *opened;

    for (int i = 0; i < times; i++) {
        bench_must(tarn_ipc_open(handle, NULL, &opened), "open");
        tarn_pointer_release(opened);
    }
}

/* The median of batches, in ns per open and close. */
static double time_opens(const tarn_ipc_handle *handle, int batches, int batch)
{
    double found[BATCHES];

    for (int i = 0; i < batches; i++) {
        uint64_t began = bench_now_ns();
        open_and_close(handle, batch);
        found[i] = (double)(bench_now_ns() - began) / batch;
    }
    return bench_median(found, (size_t)batches);
}

static void measure(const struct offer *offer)
{
    bool is_served = strstr(offer->name, "served") != NULL;
    tarn_pointer *kept;
    double first = time_opens(&offer->handles[0], FIRSTS, 1);

    bench_must(tarn_ipc_open(&offer->handles[0], NULL, &kept), "open");
    double again = time_opens(&offer->handles[0], BATCHES, BATCH);
    /* A served block has a lease of its own, which its owner grants. */
    double other =
        time_opens(&offer->handles[1], BATCHES, is_served ? SERVED_BATCH : BATCH);
    tarn_pointer_release(kept);
    printf("%-24s %12.0f %12.0f %12.0f\n", offer->name, first, again, other);
    fflush(stdout);
}

int main(void)
{
    struct offer offer = {.is_last = false};
    int line[2], end[2], status = 0;

    if (pipe(line) != 0 || pipe(end) != 0)
        bench_die("no pipe");
    pid_t owner = fork(); /* before this process opens the driver */
    if (owner == 0) {
        close(end[1]);
        own(line[1], end[0]);
    }
    close(line[1]);
    close(end[0]);
    printf("%-24s %12s %12s %12s\n", "ns, opened and closed", "first", "again", "other");
    while (!offer.is_last) {
        if (read(line[0], &offer, sizeof offer) != sizeof offer)
            bench_die("the owner is gone");
        measure(&offer);
    }
    close(end[1]);
    waitpid(owner, &status, 0);
    return status != 0;
}
