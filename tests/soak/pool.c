/* pool.c -- a pool with 32 streams and handles between processes, for hours.
 *
 *     soak --samples FILE --log FILE [--seconds N] [--window MS] [--turns N] [--every N]
 *          [--seed N] [--turn N] [--part N] [--after MS] [--plant WHAT]
 *
 * The program has turns. In a turn four threads allocate and free at random, each on eight
 * of the 32 streams, through a logger. Then the importer, a second process, opens a handle
 * and compares its bytes. All blocks are free at the end of a turn. So each figure of
 * figures.h has the same value after the 1,000th turn and after the millionth.
 *
 * A window has many turns: those of a time, or --every N turns. After each window the
 * program writes a row for each process into FILE: growth.py has the columns. The run ends
 * after its seconds or with turn --turns. --turn, --part and --after continue an earlier run.
 * SIGTERM ends the run after a turn; its window has no row, so its turns are repeated.
 *
 * --plant makes a fault that growth.py has to find: heap, pages, device, descriptor,
 * thread or slow.
 */
#define _GNU_SOURCE
#include "figures.h"
#include "importer.h"
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tarn/tarn.h>
#include <time.h>
#include <unistd.h>

enum {
    STREAMS = 32,
    WORKERS = 4,
    OWN = STREAMS / WORKERS, /* streams of a worker */
    SLOTS = 64,              /* live blocks of a worker, at most */
    STEPS = 500,             /* of a worker in a turn */
    BATCHES = 8,        /* of measured pairs in a turn, of which the fastest counts */
    PAIRS = 64,         /* of a batch */
    REOPEN_EVERY = 256, /* turns with one log */
    PLANT_EVERY = 16,   /* turns */
    SHARED = 64 << 10   /* bytes of a block for the importer */
};

static struct {
    const char *samples, *log, *plant;
    uint64_t seconds, window_ms, turns, every, seed, turn, part, after_ms;
} option = {.plant = "", .seconds = 20, .window_ms = 500, .turns = UINT64_MAX, .seed = 1};

static struct {
    tarn_resource *cuda, *pool, *logged, *exportable, *shared;
    tarn_trace_writer *writer;
    tarn_stream raw[STREAMS], streams[STREAMS]; /* every fourth one is registered */
    FILE *samples;
    struct times pair_ns, open_ns;   /* of this window */
    struct importer_answer importer; /* of the last turn */
} soak;

static volatile sig_atomic_t is_asked_to_end;

static void ask_to_end(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

static uint64_t draw(uint64_t *random, uint64_t limit)
{
    uint64_t z = (*random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % limit;
}

/* --- the work of a turn ---------------------------------------------------------------- */

struct block {
    tarn_device_ptr address; /* 0: none */
    size_t bytes;
    tarn_stream stream; /* that allocated it and used it last */
};

struct worker {
    uint64_t random;
    const tarn_stream *streams; /* OWN of them */
    struct block blocks[SLOTS];
};

static void allocate(struct worker *worker, struct block *block)
{
    size_t bytes = (size_t)1 << (4 + draw(&worker->random, 17));

    block->bytes = bytes + draw(&worker->random, bytes);
    block->stream = worker->streams[draw(&worker->random, OWN)];
    NEED(tarn_resource_allocate(soak.logged, block->bytes, 0, block->stream,
                                &block->address));
    NEED(tarn_memset_async(0, block->address, 1, block->bytes < 256 ? block->bytes : 256,
                           block->stream));
}

/* Free a block on its stream, or on another one, or without a stream. */
static void deallocate(struct worker *worker, struct block *block)
{
    tarn_stream stream = block->stream;
    uint64_t kind = draw(&worker->random, 16);

    if (kind < 3) {
        stream = worker->streams[draw(&worker->random, OWN)];
        if (stream != block->stream)
            NEED(tarn_stream_wait(0, stream, block->stream));
    } else if (kind == 3) {
        stream = TARN_STREAM_NONE;
    }
    NEED(tarn_resource_deallocate(soak.logged, block->address, block->bytes, 0, stream));
    block->address = 0;
}

static void *work(void *data)
{
    struct worker *worker = data;

    for (int i = 0; i < STEPS; i++) {
        struct block *block = &worker->blocks[draw(&worker->random, SLOTS)];
        if (block->address)
            deallocate(worker, block);
        else
            allocate(worker, block);
    }
    for (int i = 0; i < SLOTS; i++)
        if (worker->blocks[i].address)
            deallocate(worker, &worker->blocks[i]);
    return NULL;
}

static void run_workers(void)
{
    static struct worker workers[WORKERS];
    pthread_t threads[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].random = (option.seed << 40) + option.turn * WORKERS + i;
        workers[i].streams = soak.streams + (size_t)i * OWN;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            fail("no thread for worker %u", i);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

/* Let the importer read a block of this process. */
static void share(void)
{
    unsigned char value = (unsigned char)(option.turn % 251);
    tarn_ipc_handle handle;
    tarn_pointer *pointer;

    NEED(tarn_pointer_allocate(soak.shared, SHARED, TARN_STREAM_NONE, &pointer));
    NEED(tarn_memset_async(0, tarn_pointer_address(pointer), value, SHARED,
                           TARN_STREAM_NONE));
    NEED(tarn_stream_synchronize(0, TARN_STREAM_NONE));
    NEED(tarn_ipc_export(pointer, option.turn % 2 ? TARN_IPC_SERVED : TARN_IPC_PLAIN,
                         &handle));
    soak.importer = importer_open(&handle, value);
    NEED(tarn_pointer_release_checked(pointer));
    times_add(&soak.open_ns, soak.importer.open_ns);
}

static bool planted(const char *what)
{
    return strcmp(option.plant, what) == 0;
}

/* Return the CPU time of a pair: allocate and free a block, on one stream after the other. */
static uint64_t batch_ns(void)
{
    uint64_t from = thread_ns();

    for (size_t i = 0; i < PAIRS; i++) {
        tarn_stream stream = soak.streams[i % STREAMS];
        tarn_device_ptr block;
        NEED(tarn_resource_allocate(soak.logged, 4096, 0, stream, &block));
        NEED(tarn_resource_deallocate(soak.logged, block, 4096, 0, stream));
    }
    while (planted("slow") && thread_ns() - from < option.turn * PAIRS * 30)
        ;
    return (thread_ns() - from) / PAIRS;
}

static void measure(void)
{
    uint64_t fastest = UINT64_MAX;

    for (int i = 0; i < BATCHES; i++) {
        uint64_t ns = batch_ns();
        fastest = ns < fastest ? ns : fastest;
    }
    times_add(&soak.pair_ns, fastest);
}

/* --- the log ---------------------------------------------------------------------------- */

static void open_log(void)
{
    const tarn_trace_writer_options options = {.size = sizeof options,
                                               .format = TARN_TRACE_BINARY,
                                               .stack_depth = 4,
                                               .ring_bytes = 1 << 20};

    NEED(tarn_trace_writer_open_with(option.log, &options, &soak.writer));
    NEED(tarn_logger_create(soak.pool, soak.writer, &soak.logged));
}

static void close_log(void)
{
    NEED(tarn_resource_release(soak.logged));
    NEED(tarn_trace_writer_release(soak.writer));
}

/* --- faults on purpose ------------------------------------------------------------------ */

static void *sleep_on(void *data)
{
    for (;;)
        pause();
    return data;
}

/* Add 64 bytes to a list that nothing reads. */
static void grow_heap(void)
{
    static void **newest;
    void **next = malloc(64);

    if (!next)
        fail("no host memory");
    *next = newest;
    newest = next;
}

static void plant(void)
{
    tarn_device_ptr block;
    pthread_t thread;
    bool is_due = option.turn % PLANT_EVERY == 0;

    if (planted("heap"))
        grow_heap();
    if (planted("pages"))
        *(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    if (planted("device") && is_due)
        NEED(tarn_resource_allocate(soak.pool, 4096, 0, soak.streams[0], &block));
    if (planted("descriptor") && is_due && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        fail("no descriptor");
    if (planted("thread") && is_due && pthread_create(&thread, NULL, sleep_on, NULL) != 0)
        fail("no thread");
}

/* --- samples ---------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void write_row(const char *process, uint64_t ms, const struct figures *figures,
                      uint64_t device, uint64_t live, uint64_t peak, uint64_t ns)
{
    fprintf(soak.samples,
            "%s\t%" PRIu64 "\t%.1f\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
            "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
            process, option.part, (double)ms / 1000, option.turn, figures->rss_bytes,
            figures->heap_bytes, device, live, peak, figures->descriptors,
            figures->threads, ns);
}

/* Write the rows of a window. The pool is trimmed first: it then holds what it cannot release. */
static void sample(uint64_t ms)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    NEED(tarn_pool_get_statistics(soak.pool, &statistics));
    NEED(tarn_resource_trim(soak.pool, 0, NULL));
    NEED(tarn_pool_reset_peaks(soak.pool));
    struct figures figures = figures_now();
    write_row("owner", ms, &figures, device_bytes(soak.cuda), statistics.live,
              statistics.recent_peak_reserved, times_take_median(&soak.pair_ns));
    write_row("importer", ms, &soak.importer.figures, soak.importer.device_bytes, 0, 0,
              times_take_median(&soak.open_ns));
    if (fflush(soak.samples) != 0)
        fail("%s cannot be written", option.samples);
}

static void run_turn(void)
{
    run_workers();
    share();
    if (option.turn % REOPEN_EVERY == 0) {
        close_log();
        open_log();
    }
    NEED(tarn_driver_synchronize(0));
    measure();
    plant();
    NEED(tarn_driver_synchronize(0));
}

static void run_turns(void)
{
    uint64_t begin = now_ms(), next = option.window_ms, ms = 0;

    while (ms < option.seconds * 1000 && option.turn < option.turns && !is_asked_to_end) {
        option.turn++;
        run_turn();
        ms = now_ms() - begin;
        if (option.every ? option.turn % option.every == 0 : ms >= next) {
            sample(option.after_ms + ms);
            next = ms + option.window_ms;
        }
    }
}

/* --- begin and end ---------------------------------------------------------------------- */

static void make(void)
{
    const tarn_pool_options options = {.size = sizeof options, .background_thread = true};
    /* Few turns fill what a free without a stream defers. */
    const tarn_pool_options shared = {.size = sizeof shared,
                                      .no_stream_limit_bytes = 16 * SHARED};

    NEED(tarn_cuda_create(0, &soak.cuda));
    NEED(tarn_pool_create(0, NULL, &options, &soak.pool));
    NEED(tarn_exportable_create(0, NULL, &soak.exportable));
    NEED(tarn_pool_create(0, soak.exportable, &shared, &soak.shared));
    for (int i = 0; i < STREAMS; i++) {
        NEED(tarn_stream_create(0, i % 2 == 0, &soak.raw[i]));
        soak.streams[i] = soak.raw[i];
        if (i % 4 == 0)
            NEED(tarn_stream_register(0, soak.raw[i], &soak.streams[i]));
    }
    open_log();
}

/* Release everything; a block that is still live fails the release of its pool. */
static void end(void)
{
    close_log();
    for (int i = 0; i < STREAMS; i++) {
        if (i % 4 == 0)
            NEED(tarn_stream_unregister(soak.streams[i]));
        NEED(tarn_stream_destroy(0, soak.raw[i]));
    }
    if (*option.plant == '\0') {
        NEED(tarn_resource_release(soak.pool));
        NEED(tarn_resource_release(soak.shared));
        NEED(tarn_resource_release(soak.exportable));
        NEED(tarn_resource_release(soak.cuda));
    }
}

static void read_options(int argc, char **argv)
{
    static const struct {
        const char *name;
        const char **text;
        uint64_t *number;
    } all[] = {
        {"samples", &option.samples, NULL},  {"log", &option.log, NULL},
        {"plant", &option.plant, NULL},      {"seconds", NULL, &option.seconds},
        {"window", NULL, &option.window_ms}, {"turns", NULL, &option.turns},
        {"every", NULL, &option.every},      {"seed", NULL, &option.seed},
        {"turn", NULL, &option.turn},        {"part", NULL, &option.part},
        {"after", NULL, &option.after_ms},
    };
    struct option known[sizeof all / sizeof all[0] + 1] = {{0}};
    int i, letter;

    for (i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
        known[i] = (struct option){all[i].name, required_argument, NULL, 0};
    while ((letter = getopt_long(argc, argv, "", known, &i)) != -1)
        if (letter == '?')
            exit(2);
        else if (all[i].text)
            *all[i].text = optarg;
        else
            *all[i].number = strtoull(optarg, NULL, 10);
    if (!option.log || option.window_ms == 0)
        fail("--log and a window of at least 1 ms are needed");
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    if (!option.samples || !(soak.samples = fopen(option.samples, "ae")))
        fail("the file of --samples cannot be opened");
    signal(SIGTERM, ask_to_end);
    importer_start();
    make();
    run_turns();
    importer_end();
    end();
    printf("%" PRIu64 " turns so far\n", option.turn);
    return 0;
}
