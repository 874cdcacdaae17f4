/* Test logs whose file cannot be written to its end. A limit on the size of files replaces
 * a full disk. */
#define _GNU_SOURCE
#include "file.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

static atomic_int warnings;

static void count_warning(void *data, const char *message)
{
    if (strstr(message, data) && strstr(message, "File too large"))
        atomic_fetch_add(&warnings, 1);
    else
        atomic_fetch_add(&warnings, 100);
}

/* In a child: no file may have more than `bytes`. */
static bool limit_files(rlim_t bytes, char *path)
{
    struct rlimit limit = {bytes, bytes};

    atomic_store(&warnings, 0);
    tarn_set_warning_handler(count_warning, path);
    return signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* Check that the log ends with the reason, after `least` whole rows or more. */
static void check_end(const struct file *file, size_t least)
{
    static const char reason[] = "\n# incomplete: File too large\n";
    struct text text = file_text(file);
    struct events events = {0};
    char message[80];

    CHECK(text.count > sizeof reason);
    CHECK_TEXT(reason, text.bytes + text.count - strlen(reason));
    CHECK_STATUS(TARN_BAD_FORMAT, events_read(text.bytes, &events));
    snprintf(message, sizeof message, "log.csv:%zu: the program could not write the log",
             events.count + 2);
    CHECK_MESSAGE(message);
    CHECK(events.count >= least);
    events_free(&events);
    text_free(&text);
}

/* Log through a logger until long after the file is full. */
static int fill(void *path)
{
    tarn_trace_writer *writer;
    tarn_resource *host, *logger;
    tarn_device_ptr block;

    if (!limit_files(150000, path) || tarn_host_create(&host) != TARN_OK ||
        tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK ||
        tarn_logger_create(host, writer, &logger) != TARN_OK)
        return 1;
    for (int i = 0; i < 5000; i++)
        if (tarn_resource_allocate(logger, 80, 0, NULL, &block) != TARN_OK ||
            tarn_resource_deallocate(logger, block, 80, 0, NULL) != TARN_OK)
            return 2; /* the program goes on */
    if (tarn_trace_flush(writer) != TARN_SYSTEM_FAILURE)
        return 3;
    if (tarn_trace_writer_release(writer) != TARN_OK)
        return 4;
    if (tarn_resource_release(logger) != TARN_OK ||
        tarn_resource_release(host) != TARN_OK)
        return 5;
    return atomic_load(&warnings) == 1 ? 0 : 6;
}

TEST(log_on_a_full_disk_is_one_warning_and_ends_with_the_reason)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(fill, file.path));
    CHECK(size_of(file.path) <= 150000);
    check_end(&file, 2500);
    unlink(file.path);
}

/* The flusher finds the disk full, and then the program ends with exit(). */
static int wait_for_warning(void *path)
{
    tarn_trace_writer *writer;

    if (!limit_files(200, path) ||
        tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK)
        return 1;
    for (int i = 0; i < 8; i++)
        if (tarn_trace_write(writer, &allocation) != TARN_OK)
            return 2;
    for (int i = 0; i < 6000 && atomic_load(&warnings) == 0; i++)
        usleep(10000);
    if (tarn_trace_write(writer, &allocation) != TARN_SYSTEM_FAILURE)
        return 3;
    return atomic_load(&warnings) == 1 ? 0 : 4;
}

TEST(log_that_breaks_while_the_program_logs_no_more_is_one_warning)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(wait_for_warning, file.path));
    check_end(&file, 2);
    unlink(file.path);
}

/* The limit leaves no space for a reason. */
static int fill_with_a_header(void *path)
{
    tarn_trace_writer *writer;

    if (!limit_files(sizeof RMM_HEADER, path) ||
        tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK ||
        tarn_trace_flush(writer) != TARN_OK ||
        tarn_trace_write(writer, &allocation) != TARN_OK ||
        tarn_trace_flush(writer) != TARN_SYSTEM_FAILURE)
        return 1;
    tarn_trace_writer_release(writer);
    return atomic_load(&warnings) == 0 ? 0 : 2; /* the flush has told it */
}

TEST(log_without_space_for_the_reason_ends_with_a_whole_line)
{
    struct file file = file_new();
    struct text text;

    CHECK_EQUAL(0, in_child(fill_with_a_header, file.path));
    text = file_text(&file);
    CHECK_TEXT(RMM_HEADER, text.bytes);
    text_free(&text);
    unlink(file.path);
}

static int release_last(void *path)
{
    tarn_trace_writer *writer;

    if (!limit_files(100, path) ||
        tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK ||
        tarn_trace_write(writer, &allocation) != TARN_OK ||
        tarn_trace_write(writer, &allocation) != TARN_OK ||
        tarn_trace_writer_release(writer) != TARN_SYSTEM_FAILURE)
        return 1;
    return atomic_load(&warnings) == 1 ? 0 : 2;
}

TEST(log_that_breaks_at_its_release_is_one_warning)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(release_last, file.path));
    unlink(file.path);
}
