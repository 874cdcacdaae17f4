/* nrt_loops.c -- loops over any core of Numba's runtime, given as function pointers.
 *
 * nrt.py loads this and passes it Numba's own core and Tarn's in turn. Each loop returns
 * nanoseconds per block (allocated and released): the median of short stretches, so that
 * other load on the machine has little effect.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct core {
    void *(*alloc)(size_t size);
    void (*release)(void *block);
    void *(*aligned)(size_t size, unsigned alignment); /* in place of `alloc`, or NULL */
};

/* Numba's arrays are aligned like this. */
enum { ALIGNMENT = 32 };

double nrt_pairs(const struct core *core, size_t size, long count);
double nrt_pairs_two(const struct core *core, size_t size, long count);
double nrt_pairs_among(const struct core *core, size_t size, long count, long live);
double nrt_batches(const struct core *core, size_t size, long count, long batch);
double nrt_passed_on(const struct core *core, size_t size, long count, long batch);
void *nrt_many(const struct core *core, size_t size, long count);
void nrt_many_end(const struct core *core, void **blocks, long count);

static inline void *allocate(const struct core *core, size_t size)
{
    return core->aligned ? core->aligned(size, ALIGNMENT) : core->alloc(size);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Frees `times`. */
static double median(double *times, long count)
{
    qsort(times, (size_t)count, sizeof *times, by_size);
    double middle = times[count / 2];
    free(times);
    return middle;
}

enum { STRETCH = 5000 };

double nrt_pairs(const struct core *core, size_t size, long count)
{
    long stretches = count / STRETCH;
    double *times = malloc((size_t)stretches * sizeof *times);

    for (long i = 0; i < stretches; i++) {
        double start = now();
        for (int j = 0; j < STRETCH; j++)
            core->release(allocate(core, size));
        times[i] = (now() - start) / STRETCH;
    }
    return median(times, stretches);
}

/* --- two threads, each for itself ---------------------------------------------------- */

struct half {
    const struct core *core;
    size_t size;
    long count;
    atomic_int *waiting;
    double took;
};

static void *run_half(void *data)
{
    struct half *half = data;

    atomic_fetch_sub(half->waiting, 1);
    while (atomic_load(half->waiting) > 0)
        ;
    half->took = nrt_pairs(half->core, half->size, half->count);
    return NULL;
}

double nrt_pairs_two(const struct core *core, size_t size, long count)
{
    atomic_int waiting = 2;
    struct half halves[2];
    pthread_t thread;

    for (int i = 0; i < 2; i++)
        halves[i] = (struct half){core, size, count, &waiting, 0};
    pthread_create(&thread, NULL, run_half, &halves[1]);
    run_half(&halves[0]);
    pthread_join(thread, NULL);
    return (halves[0].took + halves[1].took) / 2;
}

/* --- among many live blocks ---------------------------------------------------------- */

void *nrt_many(const struct core *core, size_t size, long count)
{
    void **blocks = malloc((size_t)count * sizeof *blocks);

    for (long i = 0; i < count; i++)
        blocks[i] = allocate(core, size);
    return blocks;
}

void nrt_many_end(const struct core *core, void **blocks, long count)
{
    for (long i = 0; i < count; i++)
        core->release(blocks[i]);
    free(blocks);
}

double nrt_pairs_among(const struct core *core, size_t size, long count, long live)
{
    void **blocks = nrt_many(core, size, live);
    double took = nrt_pairs(core, size, count);

    nrt_many_end(core, blocks, live);
    return took;
}

/* --- batches: allocated here, freed here or there ----------------------------------- */

double nrt_batches(const struct core *core, size_t size, long count, long batch)
{
    void **blocks = malloc((size_t)batch * sizeof *blocks);
    long rounds = count / batch;
    double *times = malloc((size_t)rounds * sizeof *times);

    for (long i = 0; i < rounds; i++) {
        double start = now();
        for (long j = 0; j < batch; j++)
            blocks[j] = allocate(core, size);
        for (long j = 0; j < batch; j++)
            core->release(blocks[j]);
        times[i] = (now() - start) / (double)batch;
    }
    free(blocks);
    return median(times, rounds);
}

/* Two arrays of blocks between the threads; each belongs to one side at a time. */
struct belt {
    const struct core *core;
    size_t size;
    long rounds, batch;
    void **blocks[2];
    atomic_int full[2];
    double *took; /* by the other side, working and not waiting */
};

static void *free_all(void *data)
{
    struct belt *belt = data;

    for (long i = 0; i < belt->rounds; i++) {
        int side = (int)(i % 2);
        while (!atomic_load_explicit(&belt->full[side], memory_order_acquire))
            sched_yield();
        double start = now();
        for (long j = 0; j < belt->batch; j++)
            belt->core->release(belt->blocks[side][j]);
        belt->took[i] = now() - start;
        atomic_store_explicit(&belt->full[side], 0, memory_order_release);
    }
    return NULL;
}

/* The work of both threads per block, without waiting. */
double nrt_passed_on(const struct core *core, size_t size, long count, long batch)
{
    struct belt belt = {
        .core = core, .size = size, .rounds = count / batch, .batch = batch};
    double *took = malloc((size_t)belt.rounds * sizeof *took);
    pthread_t thread;

    belt.took = malloc((size_t)belt.rounds * sizeof *took);
    for (int i = 0; i < 2; i++)
        belt.blocks[i] = malloc((size_t)batch * sizeof(void *));
    pthread_create(&thread, NULL, free_all, &belt);
    for (long i = 0; i < belt.rounds; i++) {
        int side = (int)(i % 2);
        while (atomic_load_explicit(&belt.full[side], memory_order_acquire))
            sched_yield();
        double start = now();
        for (long j = 0; j < batch; j++)
            belt.blocks[side][j] = allocate(core, size);
        took[i] = now() - start;
        atomic_store_explicit(&belt.full[side], 1, memory_order_release);
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        free(belt.blocks[i]);
    return (median(took, belt.rounds) + median(belt.took, belt.rounds)) / (double)batch;
}
