/* input.c -- reads a log of any format into an aggregate. */
#include "input.h"

static tarn_status on_process(void *data, const tarn_trace_process *process)
{
    struct aggregate *aggregate = data;
    struct names *names = &aggregate->stacks.names;

    aggregate->has_process = true;
    aggregate->is_ring = process->is_ring;
    aggregate->pid = process->pid;
    aggregate->parent_pid = process->parent_pid;
    aggregate->start_unix_ns = process->start_unix_ns;
    aggregate->stack_depth = process->stack_depth;
    aggregate->host = names_add(names, process->host);
    aggregate->command = names_add(names, process->command);
    aggregate->tarn = names_add(names, process->tarn);
    aggregate->driver = names_add(names, process->driver);
    if (process->gpu_count > 0)
        aggregate->gpu = names_add(names, process->gpus[0]);
    return TARN_OK;
}

static tarn_status on_stack(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count)
{
    struct aggregate *aggregate = data;

    trie_add(&aggregate->stacks, stack, frames, count);
    return TARN_OK;
}

static tarn_status on_end(void *data, const tarn_trace_end *end)
{
    struct aggregate *aggregate = data;

    aggregate->is_cut = end->is_cut;
    aggregate->torn = end->torn_rows;
    aggregate->lost = end->lost_rows;
    aggregate->moved += end->moved_rows;
    aggregate->begin_ns = end->begin_ns;
    return TARN_OK;
}

tarn_status input_read(struct aggregate *aggregate, const char *name,
                       tarn_trace_read_fn read, void *data)
{
    static const tarn_trace_handlers handlers = {.size = sizeof handlers,
                                                 .on_process = on_process,
                                                 .on_stack = on_stack,
                                                 .on_event = aggregate_event,
                                                 .on_pool = aggregate_pool,
                                                 .on_mark = aggregate_mark,
                                                 .on_end = on_end};
    tarn_status status = tarn_trace_read_all(name, read, data, NULL, &handlers, aggregate,
                                             &aggregate->format);

    if (status == TARN_OK)
        aggregate_finish(aggregate);
    return status;
}
