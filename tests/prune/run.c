/* run.c -- one run of a function on a memory that counts.
 *
 * Decisions that the function does not determine come from the world's seed, in order:
 * the direction of a branch, the object that a call returns. The pruned version of a
 * function makes the same requests, so it makes the same run.
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
    if (--run->objects[object].count > 0)
        return FINE;
    enum verdict verdict = FINE;
    for (int i = 0; i < 2 && verdict == FINE; i++)
        if (run->objects[object].children[i] != NO_OBJECT)
            verdict = release(run, run->objects[object].children[i]);
    return verdict;
}

static int make_object(struct run *run)
{
    struct object *object = &run->objects[run->object_count];
    *object = (struct object){.count = 1, .children = {NO_OBJECT, NO_OBJECT}};
    return run->object_count++;
}

static enum verdict perform(struct run *run, const struct operation *operation)
{
    const int *operands = operation->operands;
    int object = operands[0] == NO_OBJECT ? NO_OBJECT : run->values[operands[0]];

    switch (operation->kind) {
    case INCREF:
    case USE:
    case KEEP:
        if (object == NO_OBJECT)
            return FINE;
        if (run->objects[object].count == 0)
            return blame(run, object, USED_FREED);
        run->objects[object].count += operation->kind == INCREF;
        run->kept[object] += operation->kind == KEEP;
        return FINE;
    case DECREF:
        return object == NO_OBJECT ? FINE : release(run, object);
    case PICK:
        run->values[operation->result] = any_object(run);
        return FINE;
    case MAKE:
        if (run->object_count == MAX_OBJECTS)
            return CUT;
        run->values[operation->result] = make_object(run);
        return FINE;
    case SELECT:
        if (decide(run, 2) == 1)
            object = operands[1] == NO_OBJECT ? NO_OBJECT : run->values[operands[1]];
        run->values[operation->result] = object;
        return FINE;
    case COPY:
        run->values[operation->result] = object;
        return FINE;
    case RAISE:
        run->last_raise = run->steps;
        return FINE;
    }
    return FINE;
}

static void enter(struct run *run, const struct block *block, int from)
{
    for (int i = 0; i < block->phi_count; i++) {
        const struct phi *phi = &block->phis[i];
        int arm = 0;
        while (phi->blocks[arm] != from)
            arm++;
        int value = phi->values[arm];
        run->scratch[i] = value == NO_OBJECT ? NO_OBJECT : run->values[value];
    }
    for (int i = 0; i < block->phi_count; i++)
        run->values[block->phis[i].result] = run->scratch[i];
}

static void start(struct run *run)
{
    const struct world *world = run->world;
    run->object_count = world->shared;
    run->decisions = 0;
    run->last_raise = -1;
    run->returned = false;
    run->steps = 0;
    memset(run->kept, 0, sizeof run->kept);
    for (int i = 0; i < world->shared; i++) {
        run->objects[i] = (struct object){.count = world->callers[i]};
        memcpy(run->objects[i].children, world->children[i], sizeof world->children[i]);
    }
    for (int i = 0; i < world->shared; i++) /* a holder of references has to be alive */
        for (int k = 0; run->objects[i].count > 0 && k < 2; k++)
            if (world->children[i][k] != NO_OBJECT)
                run->objects[world->children[i][k]].count++;
    for (int i = 0; i < run->function->value_count; i++)
        run->values[i] = NO_OBJECT;
    for (int i = 0; i < run->function->parameter_count; i++)
        run->values[i] = i == run->function->excinfo ? NO_OBJECT : any_object(run);
}

enum verdict run_go(struct run *run)
{
    start(run);
    int current = 0, from = NO_OBJECT;
    for (; run->steps < MAX_BLOCKS_RUN; run->steps++) {
        const struct block *block = &run->function->blocks[current];
        enter(run, block, from);
        for (int i = 0; i < block->operation_count; i++) {
            enum verdict verdict = perform(run, &block->operations[i]);
            run->where[0] = current;
            run->where[1] = i;
            if (verdict != FINE)
                return verdict;
        }
        for (int i = 0; i < MAX_OBJECTS; i++)
            run->history[run->steps][i] =
                i < run->object_count ? run->objects[i].count : 0;
        run->returned = block->returns;
        if (block->successor_count == 0)
            return FINE;
        from = current;
        current = block->successors[decide(run, block->successor_count)];
    }
    return CUT;
}

struct run run_make(const struct function *function)
{
    size_t count = (size_t)function->value_count + 1;
    struct run run = {.function = function,
                      .values = function_allocate(count, sizeof(int)),
                      .scratch = function_allocate(count, sizeof(int))};
    return run;
}
