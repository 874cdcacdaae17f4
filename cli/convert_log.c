/* convert_log.c -- the log forms of `tarn convert`: libtarn's own writers. */
#include "convert.h"

static tarn_status open_writer(struct convert *convert, tarn_trace_format format)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options,
        .format = format,
        .stack_depth = format == TARN_TRACE_BINARY ? TARN_STACK_DEPTH_MAX : 0};
    tarn_trace_writer *writer;
    tarn_status status =
        tarn_trace_writer_open_with(convert->output.file, &options, &writer);

    if (status == TARN_OK)
        convert->state = writer;
    return status;
}

static tarn_status begin_nbep7(struct convert *convert)
{
    return open_writer(convert, TARN_TRACE_NBEP7);
}

static tarn_status begin_rmm(struct convert *convert)
{
    return open_writer(convert, TARN_TRACE_RMM);
}

static tarn_status begin_binary(struct convert *convert)
{
    return open_writer(convert, TARN_TRACE_BINARY);
}

/* Write the row as it is, with the number of live blocks if the log has none. */
static tarn_status write_event(struct convert *convert, const tarn_trace_event *event,
                               uint64_t line)
{
    tarn_trace_event written = *event;
    struct live_block old, block = {.address = event->address, .id = line};
    tarn_status status = TARN_OK;

    if (event->action == TARN_ACTION_ALLOCATE && event->address)
        status = live_blocks_add(&convert->live, &block, &old);
    else if (event->action == TARN_ACTION_FREE)
        live_blocks_take(&convert->live, event->address);
    if (status != TARN_OK)
        return status;
    if (written.live_blocks == 0)
        written.live_blocks = convert->live.count;
    return tarn_trace_write(convert->state, &written);
}

static tarn_status write_pool(struct convert *convert, const tarn_trace_pool_row *row)
{
    return tarn_trace_write_pool(convert->state, row);
}

static tarn_status write_mark(struct convert *convert, const char *name, uint64_t time_ns)
{
    return tarn_trace_write_mark(convert->state, name, time_ns);
}

static tarn_status end(struct convert *convert)
{
    tarn_trace_writer *writer = convert->state;

    convert->state = NULL;
    return tarn_trace_writer_release(writer);
}

static void release(struct convert *convert)
{
    tarn_trace_writer_release(convert->state);
}

const struct convert_form form_nbep7 = {
    .name = "nbep7",
    .suffix = ".csv",
    .keeps = PART_DEVICES | PART_PLACES | PART_FREE_MEMORY,
    .opens_path = true,
    .begin = begin_nbep7,
    .on_event = write_event,
    .end = end,
    .release = release,
};

const struct convert_form form_rmm = {
    .name = "rmm",
    .suffix = ".rmm.csv",
    .keeps = PART_THREADS,
    .opens_path = true,
    .begin = begin_rmm,
    .on_event = write_event,
    .end = end,
    .release = release,
};

const struct convert_form form_binary = {
    .name = "binary",
    .suffix = ".tarn",
    .keeps =
        PART_THREADS | PART_DEVICES | PART_PLACES | PART_STACKS | PART_POOLS | PART_MARKS,
    .opens_path = true,
    .begin = begin_binary,
    .on_event = write_event,
    .on_pool = write_pool,
    .on_mark = write_mark,
    .end = end,
    .release = release,
};
