/* Test binary logs of processes that are killed, that fork, and whose disk is full. */
#define _GNU_SOURCE
#include "decoder.h"
#include "file.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { THREADS = 3 };

/* --- faults of the system, which tests switch on --- */

static atomic_int allocations_left = -1; /* posix_fallocate() fails after so many */

static bool fails(atomic_int *left)
{
    return atomic_load(left) >= 0 && atomic_fetch_sub(left, 1) <= 0 &&
           (atomic_store(left, 0), true);
}

__attribute__((visibility("default"))) int posix_fallocate(int file, off_t offset,
                                                           off_t bytes)
{
    if (fails(&allocations_left))
        return ENOSPC;
    return fallocate(file, 0, offset, bytes) == 0 ? 0 : errno;
}

/* The sanitizers call mmap() before a program can replace it. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define MAPS_CAN_FAIL

static atomic_int maps_left = -1; /* mmap() of files fails after so many */

typedef void *map_fn(void *, size_t, int, int, int, off_t);

__attribute__((visibility("default"))) void *mmap(void *at, size_t bytes, int protection,
                                                  int flags, int file, off_t offset)
{
    static map_fn *map;

    if (!map) {
        void *found = dlsym(RTLD_NEXT, "mmap");
        memcpy(&map, &found, sizeof map);
    }
    if (file >= 0 && (flags & MAP_SHARED) && fails(&maps_left)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return map(at, bytes, protection, flags, file, offset);
}
#endif

static atomic_int warnings;
static char last_warning[512];

static void count_warning(void *data, const char *message)
{
    (void)data;
    snprintf(last_warning, sizeof last_warning, "%s", message);
    atomic_fetch_add(&warnings, 1);
}

static void watch_warnings(void)
{
    atomic_store(&warnings, 0);
    tarn_set_warning_handler(count_warning, NULL);
}

/* --- rows that are numbered --- */

static struct {
    tarn_trace_writer *writer;
    atomic_uint_least64_t *counts; /* rows of each thread that are in the log */
    atomic_bool stops;
} its;

static tarn_status write_row(unsigned thread, uint64_t number)
{
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE,
                              .address = (uint64_t)thread << 40 | number,
                              .bytes = number * 3};
    char place[32];

    snprintf(place, sizeof place, "a.py:%u", (unsigned)(number % 200) + 1);
    event.location = place;
    event.end_ns = number;
    return tarn_trace_write(its.writer, &event);
}

static void *write_on(void *data)
{
    unsigned thread = (unsigned)(uintptr_t)data;

    for (uint64_t i = 1; !atomic_load(&its.stops); i++) {
        if (write_row(thread, i) != TARN_OK)
            return data;
        if (its.counts)
            atomic_store(&its.counts[thread], i);
    }
    return NULL;
}

/* Check that the rows of each thread are numbered without gaps. Returns how many there
 * are. */
static uint64_t check_numbers(const struct decoded *log, uint64_t counts[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        counts[i] = 0;
    for (size_t i = 0; i < log->count; i++) {
        uint64_t thread = log->rows[i].address >> 40;
        CHECK(thread < THREADS);
        CHECK_EQUAL(++counts[thread], log->rows[i].address & ((UINT64_C(1) << 40) - 1));
        CHECK_EQUAL(3 * counts[thread], log->rows[i].bytes);
    }
    return log->count;
}

/* --- kill --- */

static void log_until_killed(const char *path)
{
    pthread_t threads[THREADS];

    if (tarn_trace_writer_open(path, TARN_TRACE_BINARY, &its.writer) != TARN_OK)
        _exit(1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, write_on, (void *)i) != 0)
            _exit(2);
    for (;;)
        pause();
}

static bool has_counted(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < THREADS; i++)
        sum += atomic_load(&its.counts[i]);
    return sum > 0;
}

/* The threads count their rows in memory that outlives the process. */
TEST(a_process_that_is_killed_loses_no_row)
{
    struct file file = file_new();
    const char *turns = getenv("TARN_TEST_KILLS");
    int kills = turns ? atoi(turns) : 12;
    uint64_t rows = 0, found[THREADS];
    void *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    its.counts = memory;
    for (int i = 0; i < kills; i++) {
        memset(memory, 0, 4096);
        unlink(file.path);
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process */
            log_until_killed(file.path);
        }
        CHECK(child > 0);
        for (int tries = 0; tries < test_patience(60000) && !has_counted(); tries++)
            usleep(1000);
        CHECK(has_counted());
        usleep(1777 * (unsigned)(i % 37));
        kill(child, SIGKILL);
        CHECK_EQUAL(child, waitpid(child, NULL, 0));
        struct decoded log = decode(file.path);
        rows += check_numbers(&log, found);
        CHECK(log.torn <= THREADS);
        for (int t = 0; t < THREADS; t++)
            CHECK(found[t] >= atomic_load(&its.counts[t]));
        decoded_free(&log);
    }
    CHECK(rows > 0);
    munmap(memory, 4096);
    its.counts = NULL;
    unlink(file.path);
}

static int log_and_leave(void *path)
{
    if (tarn_trace_writer_open(path, TARN_TRACE_BINARY, &its.writer) != TARN_OK)
        return 1;
    for (uint64_t i = 1; i <= 3000; i++)
        if (write_row(0, i) != TARN_OK)
            return 2;
    _exit(0);
}

TEST(a_process_that_ends_without_exit_loses_no_row)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(log_and_leave, file.path));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(3000, log.count);
    decoded_free(&log);
    unlink(file.path);
}

static int log_and_exit(void *path)
{
    if (tarn_trace_writer_open(path, TARN_TRACE_BINARY, &its.writer) != TARN_OK)
        return 1;
    return write_row(0, 1) == TARN_OK ? 0 : 2;
}

TEST(exit_returns_the_space_behind_the_last_chunk)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(log_and_exit, file.path));
    CHECK_EQUAL(4096 + 2 * 65536, size_of(file.path));
    unlink(file.path);
}

/* Log rows before and after the flush of all logs, and end by a signal. */
static int log_and_be_interrupted(void *path)
{
    if (tarn_trace_writer_open(path, TARN_TRACE_BINARY, &its.writer) != TARN_OK)
        return 1;
    for (uint64_t i = 1; i <= 3000; i++) {
        if (write_row(0, i) != TARN_OK)
            return 2;
        if (i % 1000 == 0) /* the log goes on after each */
            tarn_trace_flush_all();
    }
    signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
    raise(SIGINT);
    return 3;
}

TEST(a_process_that_flushes_all_logs_and_ends_by_a_signal_leaves_a_log_with_an_end)
{
    struct file file = file_new();
    pid_t child = fork();
    int how = 0;

    if (child == 0)
        _exit(log_and_be_interrupted(file.path));
    CHECK_EQUAL(child, waitpid(child, &how, 0));
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
    struct decoded log = decode(file.path);
    CHECK_EQUAL(3000, log.count);
    /* the header, one chunk of records and three of rows: nothing is unused */
    CHECK_EQUAL(4096 + 4 * 65536, size_of(file.path));
    decoded_free(&log);
    unlink(file.path);
}

/* --- fork --- */

static void path_of_child(const struct file *file, pid_t child, char out[64])
{
    snprintf(out, 64, "%s.%d", file->path, (int)child);
}

static void check_fork(const struct file *file)
{
    char path[64];
    int result;
    uint64_t found[THREADS];
    pid_t child = fork();

    if (child == 0) {
        for (uint64_t i = 1; i <= 2000; i++)
            if (write_row(0, i) != TARN_OK)
                _exit(1);
        _exit(tarn_trace_writer_release(its.writer) == TARN_OK ? 0 : 2);
    }
    CHECK(child > 0);
    CHECK_EQUAL(child, waitpid(child, &result, 0));
    CHECK(WIFEXITED(result));
    CHECK_EQUAL(0, WEXITSTATUS(result));
    path_of_child(file, child, path);
    struct decoded log = decode(path);
    CHECK_EQUAL(2000, check_numbers(&log, found));
    CHECK_EQUAL(child, log.pid);
    CHECK_EQUAL(getpid(), log.parent_pid);
    CHECK(decoded_text(&log, "host") != NULL);
    decoded_free(&log);
    unlink(path);
}

static void check_forks(uint64_t ring_bytes, int forks)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options, .format = TARN_TRACE_BINARY, .ring_bytes = ring_bytes};
    struct file file = file_new();
    pthread_t threads[THREADS];
    uint64_t found[THREADS];

    atomic_store(&its.stops, false);
    CHECK_OK(tarn_trace_writer_open_with(file.path, &options, &its.writer));
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, write_on, (void *)i));
    for (int i = 0; i < forks; i++)
        check_fork(&file);
    atomic_store(&its.stops, true);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        CHECK_EQUAL(0, pthread_join(threads[i], &failed));
        CHECK(failed == NULL);
    }
    CHECK_OK(tarn_trace_writer_release(its.writer));
    struct decoded log = decode(file.path);
    if (!ring_bytes)
        check_numbers(&log, found);
    decoded_free(&log);
    unlink(file.path);
}

#ifdef __SANITIZE_THREAD__
enum { FORKS = 2 };
#else
enum { FORKS = 30 };
#endif

TEST(a_child_that_is_forked_while_threads_write_has_a_log_of_its_own)
{
    check_forks(0, FORKS);
}

TEST(a_child_of_a_ring_has_a_ring_of_its_own)
{
    check_forks(1 << 20, FORKS);
}

static int release_inherited(void *unused)
{
    (void)unused;
    return tarn_trace_writer_release(its.writer) == TARN_OK ? 0 : 1;
}

TEST(a_child_that_writes_no_row_makes_no_file)
{
    struct file file = file_new();
    char pattern[64];

    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    CHECK_OK(write_row(0, 1));
    CHECK_EQUAL(0, in_child(release_inherited, NULL));
    CHECK_OK(write_row(0, 2));
    CHECK_OK(tarn_trace_writer_release(its.writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(2, log.count);
    decoded_free(&log);
    snprintf(pattern, sizeof pattern, "ls %s.* >/dev/null 2>&1", file.path);
    CHECK(system(pattern) != 0);
    unlink(file.path);
}

static int write_in_child(void *unused)
{
    (void)unused;
    watch_warnings();
    atomic_store(&allocations_left, 0);
    for (uint64_t i = 1; i <= 5; i++)
        if (write_row(0, i) != TARN_SYSTEM_FAILURE)
            return 1;
    return atomic_load(&warnings) == 1 ? 0 : 2;
}

TEST(a_child_that_cannot_open_its_log_goes_on_with_one_warning)
{
    struct file file = file_new();

    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    CHECK_EQUAL(0, in_child(write_in_child, NULL));
    CHECK_OK(tarn_trace_writer_release(its.writer));
    unlink(file.path);
}

/* --- no space --- */

/* Write rows until some are lost. Returns how many are in the log. */
static uint64_t fill(uint64_t most)
{
    uint64_t written = 0;

    while (written < most && write_row(0, written + 1) == TARN_OK)
        written++;
    CHECK(written < most);
    for (int i = 0; i < 9; i++)
        CHECK_STATUS(TARN_SYSTEM_FAILURE, write_row(0, 1));
    return written;
}

static void check_lost(const struct file *file, uint64_t written, uint64_t lost)
{
    uint64_t found[THREADS];
    struct decoded log = decode(file->path);

    CHECK_EQUAL(written, check_numbers(&log, found));
    CHECK_EQUAL(1, decoded_records(&log, 6));
    for (size_t i = 0; i < log.record_count; i++)
        if (log.records[i].kind == 6) {
            CHECK_EQUAL(written + 1, decoder_number(log.records[i].payload, 8));
            CHECK_EQUAL(lost, decoder_number(log.records[i].payload + 8, 8));
        }
    decoded_free(&log);
}

TEST(a_full_disk_is_one_warning_and_the_log_tells_what_is_lost)
{
    struct file file = file_new();

    watch_warnings();
    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    atomic_store(&allocations_left, 1);
    uint64_t written = fill(1000000);
    CHECK_EQUAL(1, atomic_load(&warnings));
    CHECK(strstr(last_warning, "No space left on device; the log ends early") != NULL);
    CHECK(strstr(last_warning, file.path) != NULL);
    atomic_store(&allocations_left, -1);
    CHECK_STATUS(TARN_SYSTEM_FAILURE, write_row(0, 1)); /* it stays broken */
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_flush(its.writer));
    CHECK_EQUAL(ENOSPC, tarn_error_last()->native);
    check_lost(&file, written, 11);
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_write_mark(its.writer, "m", UINT64_MAX));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(its.writer));
    CHECK_EQUAL(1, atomic_load(&warnings));
    check_lost(&file, written, 11);
    tarn_set_warning_handler(NULL, NULL);
    unlink(file.path);
}

#ifdef MAPS_CAN_FAIL
TEST(a_file_that_cannot_be_mapped_is_one_warning)
{
    struct file file = file_new();

    watch_warnings();
    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    atomic_store(&maps_left, 1);
    uint64_t written = fill(1000000);
    CHECK_EQUAL(31 * 1364, written); /* two windows less the chunk of definitions */
    atomic_store(&maps_left, -1);
    CHECK_EQUAL(1, atomic_load(&warnings));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(its.writer));
    check_lost(&file, written, 10);
    tarn_set_warning_handler(NULL, NULL);
    unlink(file.path);
}

TEST(a_log_that_cannot_be_mapped_at_its_begin_is_an_error)
{
    struct file file = file_new();

    atomic_store(&maps_left, 0);
    CHECK_STATUS(TARN_SYSTEM_FAILURE,
                 tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    CHECK_MESSAGE("Cannot allocate memory");
    atomic_store(&maps_left, -1);
    unlink(file.path);
}
#endif

TEST(a_log_that_cannot_be_opened_is_an_error)
{
    struct file file = file_new();

    atomic_store(&allocations_left, 0);
    CHECK_STATUS(TARN_SYSTEM_FAILURE,
                 tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    CHECK_MESSAGE("No space left on device");
    atomic_store(&allocations_left, -1);
    unlink(file.path);
}

/* In a child: no file may have more than 300 KiB. */
static int fill_limited(void *path)
{
    struct rlimit limit = {300 << 10, 300 << 10};

    watch_warnings();
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        tarn_trace_writer_open(path, TARN_TRACE_BINARY, &its.writer) != TARN_OK)
        return 1;
    uint64_t written = 0;
    while (written < 100000 && write_row(0, written + 1) == TARN_OK)
        written++;
    if (written != 3 * 1364) /* the space that there was is used */
        return 2;
    if (tarn_trace_writer_release(its.writer) != TARN_SYSTEM_FAILURE)
        return 3;
    return atomic_load(&warnings) == 1 ? 0 : 4;
}

TEST(a_log_uses_the_space_that_there_is)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(fill_limited, file.path));
    check_lost(&file, 3 * 1364, 1);
    unlink(file.path);
}

/* A store into the part that is gone would be SIGBUS; the next chunk notices it. */
TEST(a_log_that_another_program_cuts_breaks_at_its_next_chunk)
{
    struct file file = file_new();

    watch_warnings();
    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    for (uint64_t i = 1; i <= 1364; i++) /* one chunk, to its end */
        CHECK_OK(write_row(0, i));
    CHECK_EQUAL(0, truncate(file.path, 4096));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, write_row(0, 1365));
    CHECK_MESSAGE("Input/output error");
    CHECK_EQUAL(1, atomic_load(&warnings));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(its.writer));
    tarn_set_warning_handler(NULL, NULL);
    unlink(file.path);
}

TEST(a_log_that_is_cut_is_not_extended_again)
{
    struct file file = file_new();
    struct stat now;

    watch_warnings();
    CHECK_OK(tarn_trace_writer_open(file.path, TARN_TRACE_BINARY, &its.writer));
    for (uint64_t i = 1; i <= 15 * 1364; i++) /* the rest of the first extent */
        CHECK_OK(write_row(0, i));
    CHECK_EQUAL(0, truncate(file.path, 4096));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, write_row(0, 15 * 1364 + 1));
    CHECK_EQUAL(0, stat(file.path, &now));
    CHECK_EQUAL(4096, now.st_size);
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(its.writer));
    tarn_set_warning_handler(NULL, NULL);
    unlink(file.path);
}
