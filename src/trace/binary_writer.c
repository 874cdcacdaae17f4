/* binary_writer.c -- the writer of a binary log: open, end, forks, pool rows and marks.
 *
 * binary_rows.c writes the rows of events.
 */
#define _GNU_SOURCE
#include "trace/binary_writer.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "trace/binary_folder.h"
#include "trace/binary_output.h"
#include "trace/stack_table.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RING_BYTES_MIN = 1 << 20 };

/* All writers, for forks and for the end of the program. */
static struct {
    struct tarn__mutex lock;
    LIST_HEAD(, tarn__binary_writer) writers;
    uint64_t last_id;
} all;

/* --- pool rows and marks --- */

/* After an attempt to write an event: return true if it is to be made again. */
static bool must_retry(struct tarn__binary_writer *writer, enum tarn__binary_take *taken,
                       int attempt)
{
    if (*taken != TARN__BINARY_FULL || attempt >= TARN__BINARY_FOLDS)
        return false;
    if (!tarn__binary_ring_fold(&writer->ring, &writer->chunks, 1))
        *taken = TARN__BINARY_FAILED;
    return *taken == TARN__BINARY_FULL;
}

/* Return the status of a record. A ring that has no space for it leaves it out. */
static tarn_status end_record(struct tarn__binary_writer *writer,
                              enum tarn__binary_take taken)
{
    if (taken != TARN__BINARY_FAILED)
        return TARN_OK;
    tarn__binary_output_break(writer, errno);
    return tarn__binary_output_fail(writer);
}

tarn_status tarn__binary_writer_pool(struct tarn__binary_writer *writer,
                                     const tarn_trace_pool_row *row)
{
    tarn_trace_pool_row copy = *row;
    enum tarn__binary_take taken;
    int attempt = 0;

    if (!tarn__binary_output_is_ready(writer))
        return tarn__binary_output_fail(writer);
    copy.stack = tarn__binary_output_define_stack(writer, row->stack);
    do
        taken = tarn__binary_records_add_pool(&writer->records, &writer->chunks, &copy);
    while (must_retry(writer, &taken, attempt++));
    return end_record(writer, taken);
}

tarn_status tarn__binary_writer_mark(struct tarn__binary_writer *writer, const char *name,
                                     uint64_t time_ns)
{
    uint32_t string = tarn__stack_table_string(name);
    enum tarn__binary_take taken;
    int attempt = 0;

    if (!tarn__binary_output_is_ready(writer))
        return tarn__binary_output_fail(writer);
    if (string == 0)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no space for the mark %.200s",
                              name);
    taken = tarn__binary_records_define_string(&writer->records, &writer->chunks, string);
    if (taken != TARN__BINARY_TAKEN)
        return end_record(writer, taken);
    do
        taken = tarn__binary_records_add_mark(&writer->records, &writer->chunks, string,
                                              time_ns);
    while (must_retry(writer, &taken, attempt++));
    return end_record(writer, taken);
}

/* --- lifecycle --- */

static void enlist(struct tarn__binary_writer *writer)
{
    tarn__mutex_lock(&all.lock);
    writer->slots.writer = ++all.last_id;
    LIST_INSERT_HEAD(&all.writers, writer, link);
    tarn__mutex_unlock(&all.lock);
}

static void delist(struct tarn__binary_writer *writer)
{
    tarn__mutex_lock(&all.lock);
    LIST_REMOVE(writer, link);
    tarn__mutex_unlock(&all.lock);
}

/* In a forked child: leave the parent's file. What other threads were changing stays as it
 * is, also their memory. */
static void leave_file(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    atomic_store(&chunks->floor_ns, UINT64_MAX);
    tarn__binary_file_close(&chunks->file);
    pthread_mutex_init(&chunks->lock, NULL);
    chunks->next_number = chunks->start_ns = 0;
    chunks->place_count = chunks->place_capacity = chunks->next_free = 0;
    chunks->places = NULL;
    tarn__binary_window_forget(chunks->window);
    tarn__binary_window_forget(writer->records.definitions.part.window);
    tarn__binary_window_forget(writer->records.events.part.window);
    chunks->window = NULL;
    memset(chunks->used, 0, sizeof chunks->used);
    writer->records.definitions = writer->records.events =
        (struct tarn__binary_stream){0};
    tarn__binary_ring_init(&writer->ring);
    tarn__binary_slots_in_child(&writer->slots);
    writer->is_inherited = true;
    writer->broken = 0;
    writer->has_folder = writer->folder_runs = false;
    atomic_store(&writer->lost, 0);
    atomic_store(&writer->told, false);
}

static void leave_files(struct tarn__mutex *lock)
{
    struct tarn__binary_writer *writer;

    (void)lock;
    LIST_FOREACH (writer, &all.writers, link)
        leave_file(writer);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tarn__mutex_init(&all.lock, leave_files);
}

/* Return a path that stays right when the program changes its folder. */
static char *absolute(const char *path)
{
    char folder[PATH_MAX], *out = NULL;

    if (*path == '/' || !getcwd(folder, sizeof folder))
        return strdup(path);
    return asprintf(&out, "%s/%s", folder, path) < 0 ? NULL : out;
}

static void free_writer(struct tarn__binary_writer *writer)
{
    tarn__binary_records_free(&writer->records);
    tarn__binary_ring_free(&writer->ring);
    pthread_mutex_destroy(&writer->chunks.lock);
    free(writer->chunks.places);
    free(writer->path);
    free(writer);
}

static struct tarn__binary_writer *make_writer(const char *path,
                                               const struct tarn__binary_options *options)
{
    struct tarn__binary_writer *writer = tarn__cache_line_allocate(
        (sizeof *writer + TARN__CACHE_LINE - 1) / TARN__CACHE_LINE * TARN__CACHE_LINE);

    if (!writer)
        return NULL;
    pthread_mutex_init(&writer->chunks.lock, NULL);
    tarn__binary_ring_init(&writer->ring);
    writer->path = absolute(path);
    if (!tarn__binary_records_init(&writer->records) || !writer->path) {
        free_writer(writer);
        return NULL;
    }
    writer->is_ring = options->ring_bytes > 0;
    writer->chunks.file.descriptor = -1;
    writer->chunks.chunk_bytes = TARN__BINARY_CHUNK_BYTES;
    writer->chunks.ring_chunks =
        (uint32_t)(options->ring_bytes / TARN__BINARY_CHUNK_BYTES);
    tarn__binary_header_describe(&writer->head, options->made_ns);
    writer->head.header.stack_depth = options->stack_depth;
    writer->head.header.ring_chunks = writer->chunks.ring_chunks;
    writer->head.header.flags = writer->is_ring ? TARN__BINARY_RING : 0;
    return writer;
}

tarn_status tarn__binary_writer_open(const char *path,
                                     const struct tarn__binary_options *options,
                                     struct tarn__binary_writer **out)
{
    if (options->ring_bytes && (options->ring_bytes < RING_BYTES_MIN ||
                                options->ring_bytes / TARN__BINARY_CHUNK_BYTES > INT_MAX))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_open: ring_bytes is %llu; it has to be at "
                              "least %d and less than "
                              "128 TiB",
                              (unsigned long long)options->ring_bytes, RING_BYTES_MIN);
    struct tarn__binary_writer *writer = make_writer(path, options);
    if (!writer)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a writer");
    pthread_mutex_lock(&writer->chunks.lock);
    bool begun = tarn__binary_output_begin(writer, writer->path);
    int why = errno;
    if (!begun)
        tarn__binary_chunks_end(&writer->chunks);
    pthread_mutex_unlock(&writer->chunks.lock);
    if (!begun) {
        tarn_status status =
            tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                  "trace: cannot create %.200s: %s", path, strerror(why));
        tarn__binary_file_close(&writer->chunks.file);
        free_writer(writer);
        return status;
    }
    enlist(writer);
    *out = writer;
    return TARN_OK;
}

tarn_status tarn__binary_writer_check(struct tarn__binary_writer *writer)
{
    int why = tarn__binary_output_why_broken(writer);

    if (!why)
        return TARN_OK;
    tarn__binary_output_write_lost(writer);
    atomic_store(&writer->told, true);
    return tarn__binary_output_reject(writer, why);
}

/* The end of the chunks in the file. `lock` of the chunks held. */
static bool trim(struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    return tarn__binary_file_trim(
        &chunks->file, tarn__binary_chunks_offset(chunks, chunks->place_count));
}

tarn_status tarn__binary_writer_end(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    delist(writer);
    tarn__binary_folder_stop(writer);
    tarn_status status = TARN_OK;
    if (tarn__binary_output_why_broken(writer)) {
        tarn__binary_output_write_lost(writer);
        status = tarn__binary_output_fail(writer);
    }
    tarn__binary_slots_end(&writer->slots);
    pthread_mutex_lock(&chunks->lock);
    tarn__binary_records_end(&writer->records, chunks);
    tarn__binary_chunks_end(chunks);
    bool is_closed = trim(chunks);
    is_closed = tarn__binary_file_close(&chunks->file) && is_closed;
    int why = errno;
    pthread_mutex_unlock(&chunks->lock);
    if (!is_closed && status == TARN_OK)
        status = tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                       "trace: cannot close %.200s: %s", writer->path,
                                       strerror(why));
    free_writer(writer);
    return status;
}

void tarn__binary_writer_trim_all(void)
{
    struct tarn__binary_writer *writer;

    tarn__mutex_lock(&all.lock);
    LIST_FOREACH (writer, &all.writers, link) {
        struct tarn__binary_chunks *chunks = &writer->chunks;
        if (pthread_mutex_trylock(&chunks->lock) != 0)
            continue; /* it does not wait: a fork takes this lock and not that one */
        trim(chunks);
        pthread_mutex_unlock(&chunks->lock);
    }
    tarn__mutex_unlock(&all.lock);
}
