/* log_file.c -- the file of the log: its name, its format, and when it is opened.
 *
 * One process has the name itself, the others add their process id. A file is opened
 * with the first row. So processes that use no memory leave no file, and a forked child
 * needs no Python code to get its own.
 */
#include "log_file.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUFFIX_BYTES = 24 }; /* a dot and a process id */

static struct {
    char path[PATH_MAX + 1]; /* "": none; one that is cut is too long for the system */
    long owner;              /* the process that has the name itself */
    tarn_trace_writer_options options;
    bool is_due;
} the_file;

static atomic_bool has_figures = true;

bool tarn__log_file_has_figures(void)
{
    return atomic_load_explicit(&has_figures, memory_order_relaxed);
}

bool tarn__log_file_is_due(void)
{
    return the_file.is_due;
}

/* Open a file and write its header: a full disk is reported here and not at the end.
 * `each_row`: each row is written at once. */
static tarn_status open_path(const char *path, bool each_row, tarn_trace_writer **out)
{
    tarn_trace_writer *writer;
    tarn_status status = tarn_trace_writer_open_with(path, &the_file.options, &writer);

    if (status != TARN_OK)
        return status;
    status = tarn_trace_writer_set_auto_flush(writer, each_row);
    if (status == TARN_OK)
        *out = writer;
    else
        tarn_trace_writer_release(writer);
    return status;
}

tarn_status tarn__log_file_open(tarn_trace_writer **out)
{
    bool is_child = getpid() != the_file.owner;
    char suffix[SUFFIX_BYTES] = "", path[PATH_MAX + SUFFIX_BYTES];

    if (is_child)
        snprintf(suffix, sizeof suffix, ".%ld", (long)getpid());
    snprintf(path, sizeof path, "%s%s", the_file.path, suffix);
    the_file.is_due = false;
    /* Another process may end this one with a signal. Then no thread writes the rows that
     * wait in a text format, so children write each row at once. */
    return open_path(path, is_child, out);
}

void tarn__log_file_forget(void)
{
    the_file.is_due = the_file.path[0] != '\0';
}

void tarn__log_file_set(const char *path, long owner,
                        const tarn_trace_writer_options *options)
{
    if (strcmp(the_file.path, path) != 0)
        the_file.is_due = true;
    snprintf(the_file.path, sizeof the_file.path, "%s", path);
    the_file.owner = owner;
    the_file.options = *options;
    atomic_store(&has_figures, options->format == TARN_TRACE_NBEP7);
}
