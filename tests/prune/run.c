/* run.c -- one run of a function on a memory that counts.
 *
 * Decisions that the function does not determine come from the world's seed, in order:
 * the direction of a branch, the object that a call returns. The pruned version of a
 * function makes the same requests, so it makes the same run.
 *
 * A callback, and a called function that releases what it did not take, release a reference
 * of another owner. It is one of the caller's, or one that was transferred by a store. The
 * reference of the function itself is never theirs.
 */
#include "run.h"

#include <string.h>

uint64_t run_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* A number below `limit` that depends on the seed and on the number of earlier requests.
 */
static int decide(struct run *run, int limit)
{
    uint64_t random = run_mix(run->world->seed + 0x9E3779B97F4A7C15u * ++run->decisions);
    return (int)(random >> 33) % limit;
}

static int any_object(struct run *run)
{
    int choice = decide(run, run->world->shared * 8 + 1);
    return choice == run->world->shared * 8 ? NO_OBJECT : choice % run->world->shared;
}

static enum verdict blame(struct run *run, int object, enum verdict verdict)
{
    run->blamed = object;
    return verdict;
}

/* Drop one reference; at the last one, also those that the object holds. */
static enum verdict release(struct run *run, int object)
{
    if (run->objects[object].count == 0)
        return blame(run, object, FREED_TWICE);
    run->dropped[object] += run->others_release;
    if (--run->objects[object].count > 0)
        return FINE;
    if (object < run->world->shared && run->passed[object])
        return blame(run, object, FREED_TWICE);
    enum verdict verdict = FINE;
    for (int i = 0; i < 2 && verdict == FINE; i++)
        if (run->objects[object].children[i] != NO_OBJECT)
            verdict = release(run, run->objects[object].children[i]);
    return verdict;
}

/* Drop the reference of another owner. */
static enum verdict release_of_others(struct run *run, int object)
{
    if (run->kept[object] > 0 && decide(run, 2) == 1)
        run->kept[object]--;
    else if (object < run->world->shared && run->callers[object] > 0)
        run->callers[object]--;
    else if (run->kept[object] > 0)
        run->kept[object]--;
    else
        return blame(run, object, FREED_TWICE);
    run->others_release = true;
    enum verdict verdict = release(run, object);
    run->others_release = false;
    return verdict;
}

/* Drop all references of other owners, apart from those of objects and to parameters. */
static enum verdict release_all_of_others(struct run *run, int object)
{
    int count = run->kept[object];
    enum verdict verdict = FINE;

    if (object < run->world->shared)
        count += run->callers[object];
    while (count-- > 0 && verdict == FINE)
        verdict = release_of_others(run, object);
    return verdict;
}

/* Code that the function does not see releases references to an object, or none. */
static enum verdict call_back(struct run *run)
{
    int object = decide(run, 4) == 0 ? NO_OBJECT : decide(run, run->object_count);
    if (object == NO_OBJECT || (object >= run->world->shared && run->kept[object] == 0))
        return FINE;
    if (decide(run, 2) == 0)
        return release_of_others(run, object);
    return release_all_of_others(run, object);
}

static int make_object(struct run *run)
{
    struct object *object = &run->objects[run->object_count];
    *object = (struct object){.count = 1, .children = {NO_OBJECT, NO_OBJECT}};
    return run->object_count++;
}

/* A function that runs, with the objects of its values. */
struct frame {
    const struct function *function;
    int *values;
    int *scratch;           /* as many again, for phis, which all change at once */
    int taken[MAX_OBJECTS]; /* references that a called function took and still has */
    int own
        [MAX_OBJECTS]; /* references that the function has; the judged one's are in the run */
    bool raised;
    int depth; /* 0: the function that is judged */
};

static enum verdict call(struct run *run, const struct frame *caller,
                         const struct operation *operation);

static enum verdict decref(struct run *run, struct frame *frame, int object)
{
    if (object == NO_OBJECT)
        return FINE;
    if (frame->depth == 0 || frame->taken[object] > 0) {
        frame->taken[object]--;
        return release(run, object);
    }
    return release_of_others(run, object);
}

/* Note what an operation does to the references of its function. */
static void note_own(struct run *run, struct frame *frame, enum operation_kind kind,
                     int object)
{
    int *own = frame->depth == 0 ? run->own : frame->own;

    if (object != NO_OBJECT)
        own[object] += kind == DECREF || kind == KEEP || kind == PUT ? -1 : 1;
}

/* Transfer a reference of the function to an object with room for it, or to an owner that
 * outlives the function. */
static enum verdict put(struct run *run, struct frame *frame, int object, int holder)
{
    if (object == NO_OBJECT)
        return FINE;
    if (run->objects[object].count == 0)
        return blame(run, object, USED_FREED);
    note_own(run, frame, PUT, object);
    for (int i = 0; holder != NO_OBJECT && holder != object && i < 2; i++)
        if (run->objects[holder].children[i] == NO_OBJECT) {
            run->objects[holder].children[i] = object;
            return FINE;
        }
    run->kept[object]++;
    return FINE;
}

/* Give the function a reference that it did not count: one that an object or the caller
 * had, or, if `get`, a new one. */
static enum verdict own_one(struct run *run, struct frame *frame, int holder,
                            const struct operation *operation)
{
    bool get = operation->kind == GET;
    int object = NO_OBJECT;

    for (int i = 0; holder != NO_OBJECT && object == NO_OBJECT && i < 2; i++) {
        object = run->objects[holder].children[i];
        run->objects[holder].children[i] = NO_OBJECT;
    }
    if (object == NO_OBJECT) {
        object = any_object(run);
        if (object != NO_OBJECT && run->objects[object].count == 0)
            return blame(run, object, USED_FREED);
        if (object != NO_OBJECT && !get && run->callers[object]-- == 0)
            return blame(run, object, FREED_TWICE);
    }
    frame->values[operation->result] = object;
    if (object == NO_OBJECT)
        return FINE;
    run->objects[object].count += get;
    frame->taken[object]++;
    note_own(run, frame, operation->kind, object);
    return FINE;
}

static enum verdict perform(struct run *run, struct frame *frame,
                            const struct operation *operation)
{
    const int *operands = operation->operands;
    int object = operands[0] == NO_OBJECT ? NO_OBJECT : frame->values[operands[0]];

    switch (operation->kind) {
    case INCREF:
    case USE:
    case KEEP:
        if (object == NO_OBJECT)
            return FINE;
        if (run->objects[object].count == 0)
            return blame(run, object, USED_FREED);
        run->objects[object].count += operation->kind == INCREF;
        frame->taken[object] += operation->kind == INCREF;
        run->kept[object] += operation->kind == KEEP;
        if (operation->kind != USE)
            note_own(run, frame, operation->kind, object);
        return FINE;
    case DECREF:
        note_own(run, frame, DECREF, object);
        return decref(run, frame, object);
    case PUT:
        return put(run, frame, object,
                   operands[1] == NO_OBJECT ? NO_OBJECT : frame->values[operands[1]]);
    case PICK:
        frame->values[operation->result] = any_object(run);
        return FINE;
    case GET:
    case TAKE:
        return own_one(run, frame, operation->kind == GET ? NO_OBJECT : object,
                       operation);
    case MAKE:
        if (run->object_count == MAX_OBJECTS)
            return CUT;
        object = make_object(run);
        frame->taken[object]++;
        note_own(run, frame, MAKE, object);
        frame->values[operation->result] = object;
        return FINE;
    case SELECT:
        if (decide(run, 2) == 1)
            object = operands[1] == NO_OBJECT ? NO_OBJECT : frame->values[operands[1]];
        frame->values[operation->result] = object;
        return FINE;
    case COPY:
        frame->values[operation->result] = object;
        return FINE;
    case RAISE:
        frame->raised = true;
        if (frame->depth == 0)
            run->last_raise = run->steps;
        return FINE;
    case CALLBACK:
        return call_back(run);
    case CALL:
        if (operation->result != NO_OBJECT)
            frame->values[operation->result] = any_object(run);
        return call(run, frame, operation);
    }
    return FINE;
}

static void enter(struct frame *frame, const struct block *block, int from)
{
    for (int i = 0; i < block->phi_count; i++) {
        const struct phi *phi = &block->phis[i];
        int arm = 0;
        while (phi->blocks[arm] != from)
            arm++;
        int value = phi->values[arm];
        frame->scratch[i] = value == NO_OBJECT ? NO_OBJECT : frame->values[value];
    }
    for (int i = 0; i < block->phi_count; i++)
        frame->values[block->phis[i].result] = frame->scratch[i];
}

/* Run the operations of a block; `*at` is the one that failed. */
static enum verdict run_block(struct run *run, struct frame *frame, int current, int from,
                              int *at)
{
    const struct block *block = &frame->function->blocks[current];
    enter(frame, block, from);
    for (*at = 0; *at < block->operation_count; ++*at) {
        enum verdict verdict = perform(run, frame, &block->operations[*at]);
        if (verdict != FINE)
            return verdict;
    }
    return FINE;
}

/* A called function that raised does not release what it has. */
static void note_lost(struct run *run, const struct frame *frame)
{
    for (int i = 0; i < run->object_count && frame->raised; i++)
        run->lost[i] += frame->own[i] > 0 ? frame->own[i] : 0;
}

/* Run a called function to its end. */
static enum verdict call(struct run *run, const struct frame *caller,
                         const struct operation *operation)
{
    const struct function *function = operation->callee;
    int *values = run->called_values + caller->depth * 2 * run->most_values;
    struct frame frame = {.function = function,
                          .values = values,
                          .scratch = values + run->most_values,
                          .depth = caller->depth + 1};
    if (frame.depth > MAX_CALL_DEPTH || function->value_count >= run->most_values)
        return CUT;
    for (int i = 0; i < function->value_count; i++)
        values[i] = NO_OBJECT;
    for (int i = 0; i < function->parameter_count; i++)
        if (operation->arguments[i] != NO_OBJECT)
            values[i] = caller->values[operation->arguments[i]];
    int current = 0, from = NO_OBJECT, at;
    for (; run->called_steps < MAX_BLOCKS_CALLED; run->called_steps++) {
        enum verdict verdict = run_block(run, &frame, current, from, &at);
        const struct block *block = &function->blocks[current];
        if (verdict == FINE && block->successor_count == 0)
            note_lost(run, &frame);
        if (verdict != FINE || block->successor_count == 0)
            return verdict;
        from = current;
        current = block->successors[decide(run, block->successor_count)];
    }
    return CUT;
}

/* The caller passes some object, or null. */
static void pass(struct run *run, int value)
{
    int object = any_object(run);

    run->values[value] = object;
    if (object != NO_OBJECT)
        run->passed[object] = run->holds_parameters;
}

static void start(struct run *run)
{
    const struct world *world = run->world;
    run->object_count = world->shared;
    run->decisions = 0;
    run->last_raise = -1;
    run->returned = false;
    run->steps = run->called_steps = 0;
    memset(run->kept, 0, sizeof run->kept);
    memset(run->own, 0, sizeof run->own);
    memset(run->lost, 0, sizeof run->lost);
    memset(run->dropped, 0, sizeof run->dropped);
    run->others_release = false;
    for (int i = 0; i < run->function->value_count; i++)
        run->values[i] = NO_OBJECT;
    memset(run->passed, 0, sizeof run->passed);
    for (int i = 0; i < run->function->parameter_count; i++)
        if (run->function->is_object[i])
            pass(run, i);
    for (int i = 0; i < run->function->part_count; i++)
        pass(run, run->function->parts[i]);
    memcpy(run->callers, world->callers, sizeof run->callers);
    for (int i = 0; i < world->shared; i++) {
        run->objects[i] = (struct object){.count = world->callers[i] + run->passed[i]};
        memcpy(run->objects[i].children, world->children[i], sizeof world->children[i]);
    }
    for (int i = 0; i < world->shared; i++) /* a holder of references has to be alive */
        for (int k = 0; run->objects[i].count > 0 && k < 2; k++)
            if (world->children[i][k] != NO_OBJECT)
                run->objects[world->children[i][k]].count++;
}

enum verdict run_go(struct run *run)
{
    struct frame frame = {
        .function = run->function, .values = run->values, .scratch = run->scratch};
    start(run);
    int current = 0, from = NO_OBJECT;
    for (; run->steps < run->most_steps; run->steps++) {
        const struct block *block = &run->function->blocks[current];
        run->where[0] = current;
        enum verdict verdict = run_block(run, &frame, current, from, &run->where[1]);
        if (verdict != FINE)
            return verdict;
        if (run->steps < MAX_BLOCKS_RUN) {
            run->made[run->steps] = run->object_count;
            for (int i = 0; i < run->object_count; i++)
                run->history[run->steps][i] = run->objects[i].count + run->dropped[i];
        }
        run->returned = block->returns;
        if (block->successor_count == 0)
            return FINE;
        from = current;
        current = block->successors[decide(run, block->successor_count)];
    }
    return CUT;
}

int run_count(const struct run *run, int step, int object)
{
    bool exists = step >= 0 && object < run->made[step];
    return exists ? run->history[step][object] : 0;
}

struct run run_make(const struct function *function)
{
    size_t count = (size_t)function->value_count + 1;
    struct run run = {.function = function,
                      .values = function_allocate(count, sizeof(int)),
                      .scratch = function_allocate(count, sizeof(int)),
                      .most_values = (int)(count > 64 ? count : 64)};
    run.called_values = function_allocate(
        (size_t)run.most_values * 2 * (MAX_CALL_DEPTH + 1), sizeof(int));
    return run;
}
