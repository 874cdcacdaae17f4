/* binary_output.c -- the file of a binary log: its begin, forked children, failures.
 *
 * A failure breaks the log permanently: a full disk, mostly. No thread writes a row after
 * that, so the log ends at one time. A record of it tells how many rows are lost.
 *
 * A forked child has no part of its parent's file in its memory. With its first row it
 * creates a file of its own, PATH.PID.
 */
#define _GNU_SOURCE
#include "trace/binary_output.h"
#include "base/mutex_assert.h"
#include "base/warn.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tarn__binary_output_break(struct tarn__binary_writer *writer, int why)
{
    pthread_mutex_lock(&writer->chunks.lock);
    if (!writer->broken)
        writer->broken = why ? why : EIO;
    atomic_store(&writer->chunks.floor_ns, UINT64_MAX);
    pthread_mutex_unlock(&writer->chunks.lock);
}

int tarn__binary_output_why_broken(struct tarn__binary_writer *writer)
{
    pthread_mutex_lock(&writer->chunks.lock);
    int why = writer->broken;
    pthread_mutex_unlock(&writer->chunks.lock);
    return why;
}

tarn_status tarn__binary_output_reject(const struct tarn__binary_writer *writer, int why)
{
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                 "trace: cannot write %.200s: %s", writer->path,
                                 strerror(why));
}

tarn_status tarn__binary_output_fail(struct tarn__binary_writer *writer)
{
    tarn_status status =
        tarn__binary_output_reject(writer, tarn__binary_output_why_broken(writer));

    if (!atomic_exchange(&writer->told, true))
        tarn__warn("%s; the log ends early", tarn_error_last()->message);
    return status;
}

void tarn__binary_output_write_lost(struct tarn__binary_writer *writer)
{
    uint64_t lost = atomic_load(&writer->lost);

    if (lost)
        tarn__binary_records_set_lost(&writer->records, &writer->chunks,
                                      atomic_load(&writer->lost_ns), lost);
}

tarn_status tarn__binary_output_lose(struct tarn__binary_writer *writer, uint64_t time_ns)
{
    if (atomic_fetch_add(&writer->lost, 1) == 0) {
        atomic_store(&writer->lost_ns, time_ns);
        tarn__binary_output_write_lost(writer);
    }
    return tarn__binary_output_fail(writer);
}

bool tarn__binary_output_begin(struct tarn__binary_writer *writer, const char *path)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    tarn__assert_mutex_held(&chunks->lock);

    tarn__binary_header_begin(&writer->head);
    chunks->id = writer->head.header.id;
    if (!tarn__binary_file_open(path, &chunks->file))
        return false;
    tarn__binary_records_reset(&writer->records);
    bool begun =
        tarn__binary_file_begin(&chunks->file, &writer->head, sizeof writer->head) &&
        tarn__binary_records_begin(&writer->records, chunks) == TARN__BINARY_TAKEN;
    if (begun)
        atomic_store(&chunks->floor_ns, 0);
    return begun;
}

/* The path of a forked child's file. */
static void child_path(const struct tarn__binary_writer *writer, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s.%d", PATH_MAX - 16, writer->path, (int)getpid());
}

bool tarn__binary_output_open_in_child(struct tarn__binary_writer *writer)
{
    char path[PATH_MAX];

    pthread_mutex_lock(&writer->chunks.lock);
    if (writer->is_inherited && !writer->broken) {
        child_path(writer, path);
        if (!tarn__binary_output_begin(writer, path))
            writer->broken = errno ? errno : EIO;
        writer->is_inherited = false;
    }
    bool is_whole = !writer->broken;
    pthread_mutex_unlock(&writer->chunks.lock);
    return is_whole;
}

bool tarn__binary_output_is_ready(struct tarn__binary_writer *writer)
{
    return atomic_load_explicit(&writer->chunks.floor_ns, memory_order_acquire) !=
               UINT64_MAX ||
           tarn__binary_output_open_in_child(writer);
}

tarn_stack tarn__binary_output_define_stack(struct tarn__binary_writer *writer,
                                            tarn_stack stack)
{
    if (stack == TARN_STACK_UNKNOWN || !tarn__binary_output_is_ready(writer))
        return TARN_STACK_UNKNOWN;
    if (tarn__binary_records_has(&writer->records, stack))
        return stack;
    enum tarn__binary_take taken =
        tarn__binary_records_define_stack(&writer->records, &writer->chunks, stack);
    if (taken == TARN__BINARY_FAILED)
        tarn__binary_output_break(writer, errno);
    return taken == TARN__BINARY_TAKEN ? stack : TARN_STACK_UNKNOWN;
}
