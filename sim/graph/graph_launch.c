/* graph_launch.c -- a launch: one operation that begins it, one per step, and one that
 * ends it. The first and the last are on the launching stream.
 *
 * All that can fail happens before anything is queued. The end is queued before the
 * steps: it waits for a position in each branch, and those are known.
 */
#include "sim/graph/graph_launch.h"
#include "sim/core/misuse.h"
#include "sim/memory/graph_memory.h"
#include "sim/module/launch.h"
#include "sim/races/races.h"
#include "sim/work/event.h"
#include "sim/work/work.h"
#include <stdlib.h>

struct launch {
    struct sim_exec *exec;
    struct sim_stream *stream;
    struct sim_stream **branches;
    struct sim_op *begin, *end, **ops; /* NULL once they are queued */
    struct sim_block **blocks;         /* by step: the memory that it allocates */
    struct sim_point begun, *points;   /* of the begin, and by step; for races.h */
};

struct end {
    struct sim_exec *exec; /* counted */
};

static void finish_end(void *data)
{
    sim_graph_exec_release(((struct end *)data)->exec);
}

/* --- checks before a launch --- */

/* Memory that the driver knew when the node was added must still be known. Otherwise it
 * may be unmapped. */
static bool is_memory(uintptr_t address, size_t bytes, bool is_known)
{
    enum sim_place place = sim_place_of(address, bytes);

    return sim_graph_memory_find(address, bytes) ||
           (place != PLACE_BAD && !(is_known && place == PLACE_PAGEABLE));
}

/* The memory of a copy may have been freed since it was captured. */
static bool is_copy_sound(const struct sim_box *box)
{
    size_t to = (box->depth - 1) * box->to_slice + (box->height - 1) * box->to_pitch,
           from =
               (box->depth - 1) * box->from_slice + (box->height - 1) * box->from_pitch;

    return is_memory((uintptr_t)box->to, to + box->width, box->to_is_known) &&
           is_memory((uintptr_t)box->from, from + box->width, box->from_is_known);
}

static bool is_fill_sound(const struct sim_fill *fill)
{
    enum sim_place place;
    size_t bytes = (fill->rows - 1) * fill->pitch + fill->count * fill->element;

    return sim_graph_memory_find((uintptr_t)fill->to, bytes) ||
           sim_fill_check(fill, NULL, &place) == CUDA_SUCCESS;
}

/* Plan one step: it may allocate only what is not allocated, and free only what is.
 * is_planned is the state at this step of the launch. */
static CUresult plan_memory(const struct sim_exec *exec, const struct sim_node *node)
{
    struct sim_graph_memory *memory = node->memory;

    if (node->kind == NODE_FREE) {
        if (!memory->is_planned)
            return CUDA_ERROR_INVALID_VALUE;
        memory->is_planned = false;
        return CUDA_SUCCESS;
    }
    if (memory->is_planned && !(exec->flags & SIM_GRAPH_AUTO_FREE))
        return CUDA_ERROR_INVALID_VALUE;
    memory->is_planned = true;
    return CUDA_SUCCESS;
}

static CUresult check_step(const struct sim_exec *exec, const struct sim_step *step)
{
    const struct sim_node *node = step->node;

    if (!node)
        return CUDA_SUCCESS;
    switch (node->kind) {
    case NODE_ALLOCATE:
    case NODE_FREE:
        return plan_memory(exec, node);
    case NODE_COPY:
        return is_copy_sound(&node->box) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case NODE_FILL:
        return is_fill_sound(&node->fill) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case NODE_WAIT:
    case NODE_RECORD:
        return sim_event_check(node->event);
    case NODE_KERNEL:
        return sim_launch_check(&node->kernel);
    case NODE_CONDITION: /* a loop that a kernel would have to end */
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_SUCCESS;
    }
}

static CUresult check(const struct sim_exec *exec)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < exec->step_count; i++) {
        const struct sim_node *node = exec->steps[i].node;
        if (node && (node->kind == NODE_ALLOCATE || node->kind == NODE_FREE))
            node->memory->is_planned = node->memory->block != NULL;
    }
    for (size_t i = 0; i < exec->step_count && result == CUDA_SUCCESS; i++)
        result = check_step(exec, &exec->steps[i]);
    return result;
}

/* --- preparing --- */

static CUresult new_op(struct launch *launch, const struct sim_step *step,
                       struct sim_op **out)
{
    struct sim_stream *branch = launch->branches[step->branch];
    const struct sim_node *node = step->node;

    if (node && node->kind == NODE_COPY)
        return sim_copy_op(branch, &node->box, out);
    if (node && node->kind == NODE_FILL)
        return sim_fill_op(branch, &node->fill, out);
    if (node && node->kind == NODE_RECORD)
        return sim_event_record_op(node->event, out);
    if (node && node->kind == NODE_KERNEL) {
        *out = sim_launch_op(&node->kernel);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = node && node->kind == NODE_HOST ? sim_host_function_op(&node->host)
                                           : sim_op_new(0, NULL, NULL);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Add the dependencies of `op` of `step`: the launch's begin, earlier steps, an event.
 */
static CUresult order_op(struct launch *launch, const struct sim_step *step,
                         struct sim_op *op)
{
    const struct sim_node *node = step->node;

    if (!sim_op_after(op, launch->stream, launch->stream->queued + 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < step->after_count; i++) {
        const struct sim_step *before = &launch->exec->steps[step->after[i]];
        if (before->branch != step->branch &&
            !sim_op_after(op, launch->branches[before->branch], before->position))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (node && node->kind == NODE_WAIT)
        return sim_event_order_op(node->event, op, launch->branches[step->branch]);
    if (node && node->kind == NODE_ALLOCATE && node->memory->stream &&
        !sim_op_after(op, node->memory->stream, node->memory->freed_at))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult prepare_step(struct launch *launch, size_t number)
{
    const struct sim_step *step = &launch->exec->steps[number];

    if (step->node && step->node->kind == NODE_ALLOCATE) {
        launch->blocks[number] =
            sim_graph_memory_block(step->node->memory, launch->stream->context);
        if (!launch->blocks[number])
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return new_op(launch, step, &launch->ops[number]);
}

/* A launch begins when the previous one of the same executable has ended. It ends when
 * all branches have. */
static CUresult prepare_ends(struct launch *launch)
{
    struct sim_exec *exec = launch->exec;

    launch->begin = sim_op_new(0, NULL, NULL);
    launch->end = sim_op_new(sizeof(struct end), NULL, finish_end);
    if (!launch->begin || !launch->end ||
        (exec->stream && !sim_op_after(launch->begin, exec->stream, exec->done_at)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < exec->step_count; i++)
        if (exec->steps[i].is_last &&
            !sim_op_after(launch->end, launch->branches[exec->steps[i].branch],
                          exec->steps[i].position))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult prepare(struct launch *launch)
{
    const struct sim_exec *exec = launch->exec;
    CUresult result = CUDA_SUCCESS;

    launch->branches = calloc(exec->branches + 1, sizeof *launch->branches);
    launch->ops = calloc(exec->step_count + 1, sizeof(struct sim_op *));
    launch->blocks = calloc(exec->step_count + 1, sizeof *launch->blocks);
    launch->points = calloc(exec->step_count + 1, sizeof *launch->points);
    if (!launch->branches || !launch->ops || !launch->blocks || !launch->points)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < exec->branches; i++) {
        launch->branches[i] =
            sim_stream_new(launch->stream->context, CU_STREAM_NON_BLOCKING);
        if (!launch->branches[i])
            return CUDA_ERROR_OUT_OF_MEMORY;
        launch->branches[i]->is_internal = true;
    }
    for (size_t i = 0; i < exec->step_count && result == CUDA_SUCCESS; i++)
        result = prepare_step(launch, i);
    if (result == CUDA_SUCCESS)
        result = prepare_ends(launch);
    for (size_t i = 0; i < exec->step_count && result == CUDA_SUCCESS; i++)
        result = order_op(launch, &exec->steps[i], launch->ops[i]);
    return result;
}

/* Free what was prepared and not used. */
static void release_unused(struct launch *launch)
{
    const struct sim_exec *exec = launch->exec;

    if (launch->begin)
        sim_op_drop(launch->begin);
    if (launch->end)
        sim_op_drop(launch->end);
    for (size_t i = 0; launch->ops && i < exec->step_count; i++)
        if (launch->ops[i])
            sim_op_drop(launch->ops[i]);
    for (size_t i = 0; launch->blocks && i < exec->step_count; i++)
        free(launch->blocks[i]);
    for (size_t i = 0; launch->points && i < exec->step_count; i++)
        sim_races_drop_point(&launch->points[i]);
    sim_races_drop_point(&launch->begun);
    for (size_t i = 0; launch->branches && i < exec->branches; i++)
        if (launch->branches[i])
            sim_stream_release(launch->branches[i]);
    free(launch->branches);
    free(launch->ops);
    free(launch->blocks);
    free(launch->points);
}

/* --- queueing: from here on nothing fails --- */

/* From this call on, the memory has the state that it will have when the launch is
 * complete. */
static void commit_memory(struct launch *launch)
{
    for (size_t i = 0; i < launch->exec->step_count; i++) {
        const struct sim_node *node = launch->exec->steps[i].node;
        if (node && node->kind == NODE_ALLOCATE && !node->memory->block) {
            sim_graph_memory_set_allocated(node->memory, launch->blocks[i]);
            launch->blocks[i] = NULL;
        } else if (node && node->kind == NODE_FREE) {
            sim_graph_memory_set_freed(node->memory, launch->stream,
                                       launch->exec->done_at);
            sim_graph_memory_release(node->memory); /* the node holds another reference */
        }
    }
}

/* Set the point that a step comes after, for races.h. */
static void order_points(struct launch *launch, const struct sim_step *step)
{
    struct sim_stream *branch = launch->branches[step->branch];

    sim_races_order(branch, &launch->begun);
    for (size_t i = 0; i < step->after_count; i++)
        sim_races_order(branch, &launch->points[step->after[i]]);
}

static void queue_steps(struct launch *launch)
{
    const struct sim_exec *exec = launch->exec;

    for (size_t i = 0; i < exec->step_count; i++) {
        const struct sim_step *step = &exec->steps[i];
        struct sim_stream *branch = launch->branches[step->branch];
        struct sim_op *op = launch->ops[i];
        launch->ops[i] = NULL;
        order_points(launch, step);
        CUresult result = step->node && step->node->kind == NODE_RECORD
                              ? sim_event_record_with(step->node->event, branch, op)
                              : sim_work_queue(branch, op);
        if (result != CUDA_SUCCESS)
            sim_misuse_abort("cuGraphLaunch", "a node could not be queued: error %d",
                             result);
        sim_races_get_point(&launch->points[i], branch);
    }
    for (size_t i = 0; i < exec->step_count; i++)
        sim_races_order(launch->stream, &launch->points[i]);
}

static CUresult queue(struct launch *launch)
{
    struct sim_exec *exec = launch->exec;
    struct sim_op *begin = launch->begin, *end = launch->end;
    struct sim_stream *stream = launch->stream;
    CUresult result;

    launch->begin = NULL;
    sim_races_order(stream, &exec->point);
    result = sim_work_queue(stream, begin);
    if (result != CUDA_SUCCESS)
        return result;
    sim_races_get_point(&launch->begun, stream);
    ((struct end *)(void *)end->data)->exec = exec;
    exec->references++;
    end->failed = finish_end;
    launch->end = NULL;
    result = sim_work_queue(stream, end);
    if (result != CUDA_SUCCESS)
        return result;
    if (exec->stream)
        sim_stream_release(exec->stream);
    sim_stream_retain(stream);
    exec->stream = stream;
    exec->done_at = stream->queued;
    commit_memory(launch);
    queue_steps(launch);
    sim_races_get_point(&exec->point, stream);
    return CUDA_SUCCESS;
}

CUresult sim_graph_launch(struct sim_exec *exec, struct sim_stream *stream)
{
    struct launch launch = {.exec = exec, .stream = stream};
    CUresult result = check(exec);

    if (result == CUDA_SUCCESS && !sim_work_ready())
        result = CUDA_ERROR_OPERATING_SYSTEM;
    if (result == CUDA_SUCCESS)
        result = prepare(&launch);
    if (result == CUDA_SUCCESS)
        result = queue(&launch);
    release_unused(&launch);
    return result;
}
