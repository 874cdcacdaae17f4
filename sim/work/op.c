/* op.c -- operations: creation, dependencies, and dropping. */
#include "sim/work/op.h"
#include "sim/races/races.h"
#include <stdlib.h>

struct sim_op *sim_op_new(size_t bytes, void (*run)(void *), void (*finish)(void *))
{
    struct sim_op *op = calloc(1, sizeof *op + bytes);

    if (op) {
        op->run = run;
        op->finish = finish;
    }
    return op;
}

bool sim_op_after(struct sim_op *op, struct sim_stream *stream, uint64_t until)
{
    struct sim_waiter *waiter;

    sim_races_after(op, stream, until);
    if (stream->done >= until)
        return true;
    waiter = malloc(sizeof *waiter);
    if (!waiter)
        return false;
    *waiter = (struct sim_waiter){stream->waiters, until, op};
    stream->waiters = waiter;
    op->pending++;
    return true;
}

void sim_op_drop(struct sim_op *op)
{
    if (op->failed)
        op->failed(op->data);
    sim_races_drop(op);
    op->is_dropped = true; /* streams that it was to wait for still refer to it */
    if (op->pending == 0)
        free(op);
}
