/* cmd_convert.c -- `tarn convert`: a log in another form, or for another program. */
#define _GNU_SOURCE
#include "convert.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Those with longer suffixes come first. */
static const struct convert_form *const forms[] = {
    &form_rmm,       &form_speedscope, &form_nbep7, &form_binary,
    &form_collapsed, &form_perfetto,   &form_torch};
enum { FORMS = sizeof forms / sizeof forms[0] };

static const struct convert_form *form_named(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i]->name, name) == 0)
            return forms[i];
    return NULL;
}

static const struct convert_form *form_of_path(const char *path)
{
    for (int i = 0; i < FORMS; i++) {
        size_t count = strlen(path), suffix = strlen(forms[i]->suffix);
        if (count > suffix && strcmp(path + count - suffix, forms[i]->suffix) == 0)
            return forms[i];
    }
    return NULL;
}

/* --- the log ------------------------------------------------------------------------ */

static tarn_status on_process(void *data, const tarn_trace_process *process)
{
    struct convert *convert = data;

    convert->seen |= PART_PROCESS;
    convert->pid = process->pid;
    convert->start_unix_ns = process->start_unix_ns;
    return convert->form->on_process ? convert->form->on_process(convert, process)
                                     : TARN_OK;
}

static tarn_status on_stack(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count)
{
    struct convert *convert = data;

    if (count > 1)
        convert->seen |= PART_STACKS;
    return stacks_add(&convert->stacks, stack, frames, count);
}

static tarn_status on_event(void *data, const tarn_trace_event *event, uint64_t line)
{
    struct convert *convert = data;
    tarn_trace_event own = *event;

    own.stack = stacks_find(&convert->stacks, event->stack);
    convert->seen |= (event->thread ? PART_THREADS : 0) |
                     (event->device >= 0 ? PART_DEVICES : 0) |
                     (event->location && *event->location ? PART_PLACES : 0) |
                     (event->free_bytes ? PART_FREE_MEMORY : 0);
    return convert->form->on_event(convert, &own, line);
}

static tarn_status on_pool(void *data, const tarn_trace_pool_row *row)
{
    struct convert *convert = data;
    tarn_trace_pool_row own = *row;

    convert->seen |= PART_POOLS;
    own.stack = stacks_find(&convert->stacks, row->stack);
    return convert->form->on_pool ? convert->form->on_pool(convert, &own) : TARN_OK;
}

static tarn_status on_mark(void *data, const char *name, uint64_t time_ns)
{
    struct convert *convert = data;

    convert->seen |= PART_MARKS;
    return convert->form->on_mark ? convert->form->on_mark(convert, name, time_ns)
                                  : TARN_OK;
}

static const tarn_trace_handlers handlers = {.size = sizeof handlers,
                                             .on_process = on_process,
                                             .on_stack = on_stack,
                                             .on_event = on_event,
                                             .on_pool = on_pool,
                                             .on_mark = on_mark};

/* Say what the log has and the form cannot keep. */
static void tell_lost(const struct convert *convert)
{
    static const char *const names[PARTS] = {
        "threads",   "devices", "locations",   "call stacks",
        "pool rows", "marks",   "the process", "free memory of the device"};
    unsigned lost = convert->seen & ~convert->form->keeps;
    const char *before = ": ";

    if (!lost)
        return;
    fprintf(stderr, "tarn convert: %s has no place for", convert->form->name);
    for (int i = 0; i < PARTS; i++) {
        if (!(lost & 1u << i))
            continue;
        fprintf(stderr, "%s%s", before, names[i]);
        before = ", ";
    }
    fputc('\n', stderr);
}

/* --- the output --------------------------------------------------------------------- */

/* Close the output; false: it could not be written. */
static bool close_output(struct convert *convert)
{
    FILE *out = convert->out;

    convert->out = NULL;
    if (!out)
        return true;
    bool written = fflush(out) == 0 && !ferror(out);
    if (out == stdout)
        return written;
    int error = errno;
    bool closed = fclose(out) == 0;
    if (!written)
        errno = error;
    return written && closed;
}

/* Read the log and write the output, which is open. */
static int transfer(struct convert *convert, struct source *source)
{
    if (tarn_trace_read_all(source->name, source_read, source, NULL, &handlers, convert,
                            NULL) != TARN_OK)
        return source_failed(&verb_convert, source);
    if (convert->form->end(convert) != TARN_OK)
        return failed_with_last_error(&verb_convert);
    return 0;
}

static bool is_stdout(const struct convert *convert)
{
    return strcmp(convert->path, "-") == 0;
}

/* Open the output: the form, or a file for it. */
static int open_output(struct convert *convert)
{
    if (!is_stdout(convert) && !output_begin(&convert->output, convert->path))
        return failed(&verb_convert, "cannot create %s: %s", convert->path,
                      strerror(errno));
    if (!convert->form->opens_path) {
        convert->out = is_stdout(convert) ? stdout : fopen(convert->output.file, "we");
        if (!convert->out)
            return failed(&verb_convert, "cannot create %s: %s", convert->path,
                          strerror(errno));
    } else if (is_stdout(convert)) {
        return wrong_use(&verb_convert, "a log of the form %s cannot go to stdout",
                         convert->form->name);
    }
    return convert->form->begin(convert) == TARN_OK
               ? 0
               : failed_with_last_error(&verb_convert);
}

static int convert_log(struct convert *convert, const char *path)
{
    struct source source;

    if (is_same_file(path, convert->path))
        return failed(&verb_convert, "%s is the log itself", convert->path);
    if (!source_open(&source, path))
        return failed(&verb_convert, "cannot open %s: %s", source.name, strerror(errno));
    int code = open_output(convert);
    if (code == 0) {
        code = transfer(convert, &source);
        bool is_written = close_output(convert);
        if (code == 0 && !is_written)
            code = failed(&verb_convert, "cannot write %s: %s", convert->path,
                          strerror(errno));
        convert->form->release(convert);
    }
    if (!is_stdout(convert) && *convert->output.file &&
        !output_finish(&convert->output, code == 0))
        code =
            failed(&verb_convert, "cannot write %s: %s", convert->path, strerror(errno));
    if (code == 0)
        tell_lost(convert);
    stacks_free(&convert->stacks);
    live_blocks_free(&convert->live);
    source_close(&source);
    return code;
}

/* Take the value of --at. */
static bool take_at(struct convert *convert, const char *value)
{
    static const char *const names[] = {"peak", "end", "held", "total"};

    for (int i = 0; i < 4; i++)
        if (strcmp(value, names[i]) == 0) {
            convert->at = (enum profile_at)i;
            return true;
        }
    return false;
}

/* Take one option; WRONG_USE where its value is invalid. */
static int take_option(void *job, int option)
{
    struct convert *convert = job;

    switch (option) {
    case 'o':
        convert->path = optarg;
        break;
    case 't':
        convert->form = form_named(optarg);
        if (!convert->form)
            return wrong_use(&verb_convert,
                             "unknown form %s; the forms are nbep7, rmm, binary, "
                             "torch-snapshot, perfetto, collapsed, speedscope",
                             optarg);
        break;
    case 'a':
        convert->has_at = true;
        if (!take_at(convert, optarg))
            return wrong_use(&verb_convert, "--at is peak, end, held or total, not %s",
                             optarg);
        break;
    }
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"to", required_argument, NULL, 't'},
                                            {"at", required_argument, NULL, 'a'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct convert convert = {.at = AT_PEAK};
    const char *log;
    int code = take_options_and_log(&verb_convert, argc, argv, options, take_option,
                                    &convert, &log);

    if (code != GO_ON)
        return code;
    if (!convert.path)
        return wrong_use(&verb_convert, "--output is required");
    if (!convert.form)
        convert.form = form_of_path(convert.path);
    if (!convert.form)
        return wrong_use(&verb_convert, "%s tells no form; --to is required",
                         convert.path);
    if (convert.has_at && !convert.form->has_at)
        return wrong_use(&verb_convert, "--at is for collapsed and speedscope alone");
    return convert_log(&convert, log);
}

const struct verb verb_convert = {
    "convert", "converts a log for other programs",
    "convert FILE --output OUT [--to FORM] [--at peak|end|held|total]",
    "Reads a log as `tarn log` does and writes it in another form. The suffix of OUT "
    "selects\n"
    "the form, or --to does. stderr names what the form cannot hold.\n"
    "\n"
    "  nbep7           .csv              a log with NBEP 7's columns\n"
    "  rmm             .rmm.csv          a log with RMM's columns\n"
    "  binary          .tarn             Tarn's binary log\n"
    "  torch-snapshot  .pickle           for PyTorch's viewer, pytorch.org/memory_viz\n"
    "  perfetto        .json             for ui.perfetto.dev and chrome://tracing\n"
    "  collapsed       .collapsed        a line for each stack, for flamegraph.pl\n"
    "  speedscope      .speedscope.json  for speedscope.app\n"
    "\n"
    "  --output OUT    the file to write; - is stdout\n"
    "  --to FORM       the form; the suffix of OUT does not matter then\n"
    "  --at TIME       bytes that collapsed and speedscope show: live at the peak (the\n"
    "                  default) or at the end, held until exit, or allocated in total\n",
    run};
