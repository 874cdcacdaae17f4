/* log_rows.c -- measure what a row of a log costs, by its format.
 *
 *     bench-log_rows [FOLDER]             a table: formats and call stacks, 1 to N threads
 *     bench-log_rows --threads N [FOLDER] the same; N is not the number of cores
 *     bench-log_rows --count NAME ROWS    write rows only, for counting instructions:
 *                                         rmm, nbep7, binary, ring, native16
 *
 * The files are in FOLDER, default /tmp. The columns of the table are nanoseconds a row of
 * processor time for 1, 2, 4 ... threads, and bytes a row. Rows have the time of the clock,
 * which a thread reads for each BURST rows. For instructions a row:
 *
 *     valgrind --tool=callgrind bench-log_rows --count binary 100000
 */
#define _GNU_SOURCE
#include "bench.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 400000, ROUNDS = 5, THREADS_MOST = 64, FRAMES = 16, BURST = 64 };

struct form {
    const char *name;
    tarn_trace_format format;
    uint64_t ring_bytes;
    unsigned depth; /* native frames that are captured for each row */
    bool has_stack; /* of FRAMES frames, known before */
};

static const struct form forms[] = {
    {"rmm", TARN_TRACE_RMM, 0, 0, false},
    {"nbep7", TARN_TRACE_NBEP7, 0, 0, false},
    {"binary", TARN_TRACE_BINARY, 0, 0, false},
    {"stack16", TARN_TRACE_BINARY, 0, 0, true},
    {"native16", TARN_TRACE_BINARY, 0, FRAMES, false},
    {"ring", TARN_TRACE_BINARY, 16 << 20, 0, false},
};

static struct {
    const struct form *form;
    tarn_trace_writer *writer;
    tarn_stack stack;
    unsigned rows; /* of each thread */
} its;

/* The time of the processor, so that other programs do not count. */
static double thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The time of the clock as the log has it. */
static uint64_t log_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return tarn_trace_writer_time_ns(its.writer, (uint64_t)now.tv_sec * 1000000000 +
                                                     (uint64_t)now.tv_nsec);
}

/* Allocations and frees of a few blocks, as a loop makes them. */
static void write_rows(uint64_t thread)
{
    tarn_trace_event event = {.bytes = 1 << 20, .thread = thread + 1};

    for (unsigned i = 0; i < its.rows; i++) {
        if (i % BURST == 0)
            event.start_ns = log_ns();
        event.action = i % 2 ? TARN_ACTION_FREE : TARN_ACTION_ALLOCATE;
        event.address = 0x7f0000000000 + (thread << 30) + (i / 2 % 64 << 20);
        event.start_ns += 10;
        event.end_ns = event.start_ns + 5;
        event.stack = its.form->depth ? tarn_stack_capture(its.form->depth) : its.stack;
        bench_must(tarn_trace_write(its.writer, &event), "write");
    }
}

static void *run(void *data)
{
    double *took = data;
    double start = thread_ns();

    write_rows((uint64_t)*took);
    *took = thread_ns() - start;
    return NULL;
}

/* Nanoseconds a row on so many threads. */
static double measure(unsigned count)
{
    pthread_t threads[THREADS_MOST];
    double took[THREADS_MOST], sum = 0;

    for (unsigned i = 0; i < count; i++) {
        took[i] = i;
        if (pthread_create(&threads[i], NULL, run, &took[i]) != 0)
            bench_die("no thread");
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += took[i];
    }
    return sum / count / its.rows;
}

static void open_log(const struct form *form, const char *path)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options, .format = form->format, .ring_bytes = form->ring_bytes};
    uint32_t frames[FRAMES];

    its.form = form;
    its.stack = TARN_STACK_UNKNOWN;
    for (int i = 0; form->has_stack && i < FRAMES; i++) {
        tarn_stack_frame frame = {.function = "f", .file = "bench.py", .line = i};
        frames[i] = tarn_stack_add_frame(&frame);
    }
    if (form->has_stack)
        its.stack = tarn_stack_add(frames, FRAMES);
    bench_must(tarn_trace_writer_open_with(path, &options, &its.writer), "open");
}

/* Bytes a row of a log of ROWS rows. */
static double size_of_row(const struct form *form, const char *path)
{
    struct stat file;

    its.rows = ROWS;
    open_log(form, path);
    measure(1);
    bench_must(tarn_trace_writer_release(its.writer), "release");
    return stat(path, &file) == 0 ? (double)file.st_size / ROWS : 0;
}

static void print_form(const struct form *form, const char *path, unsigned most)
{
    printf("%-10s", form->name);
    for (unsigned threads = 1; threads <= most; threads *= 2) {
        double times[ROUNDS];
        its.rows = form->depth ? ROWS / 20 : ROWS;
        for (int i = 0; i < ROUNDS; i++) {
            open_log(form, path);
            times[i] = measure(threads);
            bench_must(tarn_trace_writer_release(its.writer), "release");
        }
        printf(" %10.1f", bench_median(times, ROUNDS));
    }
    printf(" %10.1f\n", size_of_row(form, path));
}

static int count(const char *path, const char *name, const char *rows)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, name) != 0)
            continue;
        its.rows = (unsigned)strtoul(rows, NULL, 10);
        open_log(&forms[i], path);
        write_rows(0);
        bench_must(tarn_trace_writer_release(its.writer), "release");
        unlink(path);
        return 0;
    }
    bench_die("no format %s", name);
}

int main(int argc, char **argv)
{
    bool counts = argc == 4 && strcmp(argv[1], "--count") == 0;
    bool has_threads = argc >= 3 && strcmp(argv[1], "--threads") == 0;
    long cores = has_threads ? strtol(argv[2], NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = cores < THREADS_MOST ? (unsigned)cores : THREADS_MOST;
    const char *folder = argc % 2 == 0 && !counts ? argv[argc - 1] : "/tmp";
    char path[4096];

    snprintf(path, sizeof path, "%s/bench-log-%d", folder, (int)getpid());
    if (counts)
        return count(path, argv[2], argv[3]);
    printf("%-10s", "format");
    for (unsigned threads = 1; threads <= most; threads *= 2)
        printf(" %7u thr", threads);
    printf(" %10s\n", "bytes/row");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        print_form(&forms[i], path, most);
    unlink(path);
    return 0;
}
