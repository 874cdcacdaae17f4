/* file.h -- a log in a file, for tests, and processes that write it. */
#ifndef TARN_TEST_FILE_H
#define TARN_TEST_FILE_H

#include "text.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const tarn_trace_event allocation = {
    .action = TARN_ACTION_ALLOCATE,
    .device = 0,
    .address = 0x7fae06600000,
    .bytes = 80,
    .thread = 4711,
    .free_bytes = 1000,
    .total_bytes = 2000,
    .live_blocks = 1,
    .start_ns = 1105490000,
    .end_ns = 1107400001,
    .location = "/home/me/example.py:7",
};

static inline size_t size_of(const char *path)
{
    struct stat facts;

    CHECK_EQUAL(0, stat(path, &facts));
    return (size_t)facts.st_size;
}

/* Run `body` in a forked child that ends with exit(); its exit code. */
static inline int in_child(int (*body)(void *data), void *data)
{
    int result;
    pid_t child = fork();

    if (child == 0)
        exit(body(data));
    CHECK(child > 0);
    CHECK_EQUAL(child, waitpid(child, &result, 0));
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

/* A log in a new file. */
struct file {
    char path[32];
};

static inline struct file file_new(void)
{
    struct file file = {"/tmp/tarn-log-XXXXXX"};

    close(mkstemp(file.path));
    return file;
}

/* The text of the file. */
static inline struct text file_text(const struct file *file)
{
    struct text text = {0};
    char part[4096];
    size_t count;
    FILE *from = fopen(file->path, "r");

    CHECK(from != NULL);
    if (!from)
        return text; /* not reached: clang-tidy does not know that CHECK() ends the test */
    while ((count = fread(part, 1, sizeof part, from)) > 0)
        CHECK(text_write(&text, part, count));
    fclose(from);
    return text;
}

/* The number of whole lines after the header. */
static inline size_t file_rows(const struct file *file)
{
    struct text text = file_text(file);
    size_t lines = 0;

    for (size_t i = 0; i < text.count; i++)
        lines += text.bytes[i] == '\n';
    text_free(&text);
    return lines ? lines - 1 : 0;
}

/* Wait until the file has that many rows; a minute is as good as never. */
static inline void file_await_rows(const struct file *file, size_t rows)
{
    for (int i = 0; i < test_patience(6000) && file_rows(file) < rows; i++)
        usleep(10000);
    CHECK_EQUAL(rows, file_rows(file));
}

#endif
