/* sim_calls.c -- measure the calls of the simulator, with few and with many live objects.
 *
 *     build/release/bin/bench-sim_calls [path of libcuda.so.1]
 *
 * Each line is the mean of a loop, in the best of three rounds, as other programs share
 * the machine. A call whose time grows from few to many has a quadratic step.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 3, STREAMS = 1000, BLOCKS = 100000, CALLS = 20000, NON_BLOCKING = 1 };

typedef unsigned long long address;

static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(address *, size_t);
    int (*cuMemFree_v2)(address);
    int (*cuMemAllocAsync)(address *, size_t, void *);
    int (*cuMemFreeAsync)(address, void *);
    int (*cuMemsetD8Async)(address, unsigned char, size_t, void *);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamDestroy_v2)(void *);
    int (*cuStreamQuery)(void *);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamGetId)(void *, unsigned long long *);
    int (*cuStreamWaitEvent)(void *, void *, unsigned);
    int (*cuEventCreate)(void **, unsigned);
    int (*cuEventRecord)(void *, void *);
    int (*cuEventQuery)(void *);
    int (*tarn_sim_configure)(const char *);
} driver;

static void must(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}
#define CU(call) must(driver.call, #call)

static void open_driver(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);

    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FIND(name) *(void **)(void *)&driver.name = dlsym(library, #name)
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuCtxSynchronize);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemAllocAsync);
    FIND(cuMemFreeAsync);
    FIND(cuMemsetD8Async);
    FIND(cuStreamCreate);
    FIND(cuStreamDestroy_v2);
    FIND(cuStreamQuery);
    FIND(cuStreamSynchronize);
    FIND(cuStreamGetId);
    FIND(cuStreamWaitEvent);
    FIND(cuEventCreate);
    FIND(cuEventRecord);
    FIND(cuEventQuery);
    FIND(tarn_sim_configure);
#undef FIND
    if (!driver.tarn_sim_configure) {
        fprintf(stderr, "%s is not the driver simulator\n", path);
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *streams[STREAMS], *event;
static address blocks[BLOCKS];

/* --- measured functions: each makes `calls` of them --- */

static void alloc_free(int calls)
{
    for (int i = 0; i < calls; i++) {
        address block;
        CU(cuMemAlloc_v2(&block, 1000));
        CU(cuMemFree_v2(block));
    }
}

static void alloc_free_async(int calls)
{
    for (int i = 0; i < calls; i++) {
        address block;
        CU(cuMemAllocAsync(&block, 1000, streams[i % STREAMS]));
        CU(cuMemFreeAsync(block, streams[i % STREAMS]));
    }
}

static void record_wait(int calls)
{
    for (int i = 0; i < calls; i++) {
        CU(cuEventRecord(event, streams[i % STREAMS]));
        CU(cuStreamWaitEvent(streams[(i + 1) % STREAMS], event, 0));
    }
}

static void query(int calls)
{
    for (int i = 0; i < calls; i++) {
        driver.cuStreamQuery(streams[i % STREAMS]);
        driver.cuEventQuery(event);
    }
}

static void synchronize(int calls)
{
    for (int i = 0; i < calls; i++) {
        CU(cuStreamSynchronize(streams[i % STREAMS]));
        CU(cuStreamSynchronize(streams[(i + 7) % STREAMS]));
    }
}

static void get_id(int calls)
{
    unsigned long long id;

    for (int i = 0; i < calls; i++) {
        CU(cuStreamGetId(streams[i % STREAMS], &id));
        CU(cuStreamGetId(streams[(i + 7) % STREAMS], &id));
    }
}

static void create_destroy(int calls)
{
    for (int i = 0; i < calls; i++) {
        void *stream;
        CU(cuStreamCreate(&stream, NON_BLOCKING));
        CU(cuStreamDestroy_v2(stream));
    }
}

static void fill_all(int calls)
{
    for (int i = 0; i < calls; i++)
        CU(cuMemsetD8Async(blocks[i % BLOCKS], 1, 8, streams[i % STREAMS]));
    CU(cuCtxSynchronize());
}

/* The best mean of a call in ns, over rounds of CALLS pairs. */
static double measure(void (*what)(int), int calls_each)
{
    double best = 1e18;

    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        what(CALLS);
        double mean = (now_ns() - start) / CALLS / calls_each;
        best = mean < best ? mean : best;
    }
    return best;
}

static const struct {
    const char *name;
    void (*what)(int);
    int calls_each;
} rows[] = {
    {"cuMemAlloc, cuMemFree", alloc_free, 2},
    {"cuMemAllocAsync, cuMemFreeAsync", alloc_free_async, 2},
    {"cuEventRecord, cuStreamWaitEvent", record_wait, 2},
    {"cuStreamQuery, cuEventQuery", query, 2},
    {"cuStreamSynchronize, idle", synchronize, 2},
    {"cuStreamGetId", get_id, 2},
    {"cuStreamCreate, cuStreamDestroy", create_destroy, 2},
    {"memset of 8 bytes, and its run", fill_all, 1},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

/* Allocate and free the first `count` blocks; return ns per call. */
static double fill_up(int count)
{
    double start = now_ns();

    for (int i = 0; i < count; i++)
        CU(cuMemAlloc_v2(&blocks[i], 1000));
    return (now_ns() - start) / count;
}

static double empty(int count)
{
    double start = now_ns();

    for (int i = 0; i < count; i++)
        CU(cuMemFree_v2(blocks[i * 7919LL % count]));
    return (now_ns() - start) / count;
}

/* Both, of `count` blocks: the best of some rounds. */
static void measure_many(int count, double *filling, double *emptying)
{
    *filling = *emptying = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double ns = fill_up(count);
        *filling = ns < *filling ? ns : *filling;
        ns = empty(count);
        *emptying = ns < *emptying ? ns : *emptying;
    }
}

static void print_mode(const char *options)
{
    double few[ROW_COUNT], filling[2], emptying[2];

    must(driver.tarn_sim_configure(options), options);
    measure_many(1000, &filling[0], &emptying[0]);
    measure_many(BLOCKS, &filling[1], &emptying[1]);
    CU(cuMemAlloc_v2(&blocks[0], STREAMS * 8));
    for (int i = 1; i < BLOCKS; i++) /* 8 bytes of it for each stream */
        blocks[i] = blocks[0] + (unsigned)(i % STREAMS) * 8;
    for (int i = 0; i < ROW_COUNT; i++)
        few[i] = measure(rows[i].what, rows[i].calls_each);
    CU(cuMemFree_v2(blocks[0]));
    fill_up(BLOCKS);
    printf("%-36s %12s %16s\n", options, "1 block", "100,000 blocks");
    for (int i = 0; i < ROW_COUNT; i++)
        printf("%-36s %9.0f ns %13.0f ns\n", rows[i].name, few[i],
               measure(rows[i].what, rows[i].calls_each));
    empty(BLOCKS);
    printf("%-36s %9.0f ns %13.0f ns\n", "cuMemAlloc, 1,000 / 100,000 in a row",
           filling[0], filling[1]);
    printf("%-36s %9.0f ns %13.0f ns\n\n", "cuMemFree of them, in another order",
           emptying[0], emptying[1]);
}

int main(int count, char **arguments)
{
    void *context;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_driver(count > 1 ? arguments[1] : TARN_SIM_PATH);
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    CU(cuEventCreate(&event, 0));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], NON_BLOCKING));
    print_mode("mode=eager");
    print_mode("mode=seeded");
    print_mode("mode=eager,races=on");
    return 0;
}
