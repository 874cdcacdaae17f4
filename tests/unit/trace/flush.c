/* Test when the rows of a log reach its file, and which a killed process has lost. */
#define _GNU_SOURCE
#include "file.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

/* --- threads, whose creation tests can let fail --- */

static atomic_bool no_threads; /* creating one fails */
static atomic_int threads;     /* threads that run, besides the first */

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct thread {
    void *(*function)(void *);
    void *data;
};

static void *run_thread(void *data)
{
    struct thread thread = *(struct thread *)data;

    free(data);
    void *result = thread.function(thread.data);
    atomic_fetch_sub(&threads, 1);
    return result;
}

__attribute__((visibility("default"))) int pthread_create(
    pthread_t *out, const pthread_attr_t *attributes, void *(*function)(void *),
    void *data)
{
    create_fn *create;
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    struct thread *thread = atomic_load(&no_threads) ? NULL : malloc(sizeof *thread);

    if (!thread)
        return EAGAIN;
    *thread = (struct thread){function, data};
    atomic_fetch_add(&threads, 1);
    memcpy(&create, &found, sizeof create);
    return create(out, attributes, run_thread, thread);
}

/* Wait until the thread that writes rows has ended. */
static void await_end_of_thread(void)
{
    for (int i = 0; i < test_patience(6000) && atomic_load(&threads) > 0; i++)
        usleep(10000);
    CHECK_EQUAL(0, atomic_load(&threads));
}

/* --- logs --- */

enum { ROWS = 5 };

/* Open a log and write ROWS rows; NULL: it failed. */
static tarn_trace_writer *begin_log(const char *path, bool auto_flush)
{
    tarn_trace_writer *writer;

    if (tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK)
        return NULL;
    if (auto_flush && tarn_trace_writer_set_auto_flush(writer, true) != TARN_OK)
        return NULL;
    for (int i = 0; i < ROWS; i++)
        if (tarn_trace_write(writer, &allocation) != TARN_OK)
            return NULL;
    return writer;
}

/* Fork a child that runs `body` and never returns from it. */
static pid_t start(void (*body)(const char *path), const struct file *file)
{
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process */
        body(file->path);
        _exit(1);
    }
    CHECK(child > 0);
    return child;
}

static void check_killed(pid_t child)
{
    int result;

    CHECK_EQUAL(child, waitpid(child, &result, 0));
    CHECK(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
}

static void log_and_die(const char *path)
{
    if (begin_log(path, true))
        raise(SIGKILL);
}

TEST(process_that_is_killed_at_once_loses_no_row_with_automatic_flushes)
{
    struct file file = file_new();

    check_killed(start(log_and_die, &file));
    CHECK_EQUAL(ROWS, file_rows(&file));
    unlink(file.path);
}

static void log_and_end(const char *path)
{
    if (begin_log(path, true))
        _exit(0);
}

TEST(process_that_ends_without_exit_loses_no_row_with_automatic_flushes)
{
    struct file file = file_new();
    int result;

    waitpid(start(log_and_end, &file), &result, 0);
    CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    CHECK_EQUAL(ROWS, file_rows(&file));
    unlink(file.path);
}

static void log_and_wait(const char *path)
{
    if (begin_log(path, false))
        for (;;)
            pause();
}

TEST(process_that_logs_no_more_has_its_rows_in_the_file_when_it_is_killed)
{
    struct file file = file_new();
    pid_t child = start(log_and_wait, &file);

    file_await_rows(&file, ROWS);
    kill(child, SIGKILL);
    check_killed(child);
    CHECK_EQUAL(ROWS, file_rows(&file));
    unlink(file.path);
}

TEST(rows_reach_the_file_each_time_and_the_thread_ends_while_none_wait)
{
    struct file file = file_new();
    tarn_trace_writer *writer = begin_log(file.path, false);

    CHECK(writer != NULL);
    file_await_rows(&file, ROWS);
    await_end_of_thread();
    CHECK_OK(tarn_trace_write(writer, &allocation));
    file_await_rows(&file, ROWS + 1);
    CHECK_OK(tarn_trace_write(writer, &allocation));
    file_await_rows(&file, ROWS + 2);
    CHECK_OK(tarn_trace_writer_release(writer));
    unlink(file.path);
}

TEST(forked_child_has_its_own_rows_in_the_file)
{
    struct file file = file_new(), child_file = file_new();
    tarn_trace_writer *writer = begin_log(file.path, false); /* its thread runs */

    CHECK(writer != NULL);
    pid_t child = start(log_and_wait, &child_file);
    file_await_rows(&child_file, ROWS);
    kill(child, SIGKILL);
    check_killed(child);
    file_await_rows(&file, ROWS);
    CHECK_OK(tarn_trace_writer_release(writer));
    unlink(file.path);
    unlink(child_file.path);
}

TEST(rows_go_to_the_file_at_once_where_no_thread_can_be_created)
{
    struct file file = file_new();

    await_end_of_thread();
    atomic_store(&no_threads, true);
    tarn_trace_writer *writer = begin_log(file.path, false);
    atomic_store(&no_threads, false);
    CHECK(writer != NULL);
    CHECK_EQUAL(ROWS, file_rows(&file));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_EQUAL(ROWS, file_rows(&file));
    unlink(file.path);
}

static int choose_in_child(void *writer)
{
    return tarn_trace_writer_set_auto_flush(writer, true) == TARN_NOT_SUPPORTED ? 0 : 1;
}

TEST(automatic_flushes_are_turned_on_and_off)
{
    struct text text = {0};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_trace_writer_set_auto_flush(writer, true));
    CHECK_TEXT(RMM_HEADER, text.bytes);
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_EQUAL(3, text.writes);
    CHECK_OK(tarn_trace_writer_set_auto_flush(writer, false));
    CHECK_EQUAL(0, in_child(choose_in_child, writer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_writer_set_auto_flush(NULL, true));
    CHECK_OK(tarn_trace_writer_release(writer));
    text_free(&text);
}
