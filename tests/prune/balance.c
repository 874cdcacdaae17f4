/* balance.c -- check that the reference counts of a function are balanced.
 *
 * For each name the most references that it needs are carried back along the edges until
 * nothing changes: a decref and a transfer need one, an incref provides one. A phi needs
 * what its incoming value provides, so the need goes on under that name. A name may need
 * no more where it begins than it begins with.
 */
#include "balance.h"

#include <string.h>

enum { MOST_NEEDED = 100 }; /* a loop that releases more than it takes gets there */

struct needs {
    const struct function *function;
    int *at_start; /* by block and value */
    int *now;      /* by value */
    int *edge;     /* by value: on one edge */
    bool balanced;
};

static int *at_start(const struct needs *needs, int block)
{
    return &needs->at_start[(size_t)block * (size_t)needs->function->value_count];
}

/* What is needed before an edge. */
static void before_edge(const struct needs *needs, int from, int to, int *out)
{
    const struct block *target = &needs->function->blocks[to];
    const int *behind = at_start(needs, to);

    memcpy(out, behind, (size_t)needs->function->value_count * sizeof *out);
    for (int i = 0; i < target->phi_count; i++)
        out[target->phis[i].result] = 0;
    for (int i = 0; i < target->phi_count; i++) {
        const struct phi *phi = &target->phis[i];
        int arm = 0;
        while (phi->blocks[arm] != from)
            arm++;
        if (phi->values[arm] != NO_OBJECT)
            out[phi->values[arm]] += behind[phi->result];
    }
}

static void need(struct needs *needs, int value, int more)
{
    needs->now[value] += more;
    if (needs->now[value] > MOST_NEEDED)
        needs->now[value] = MOST_NEEDED;
}

/* The references with which the result of an operation begins. */
static int begins_with(enum operation_kind kind)
{
    return kind == MAKE || kind == GET || kind == TAKE;
}

/* Go back over an operation. */
static void leave(struct needs *needs, const struct operation *operation)
{
    int value = operation->operands[0], result = operation->result;

    if (result != NO_OBJECT) {
        needs->balanced &= needs->now[result] <= begins_with(operation->kind);
        needs->now[result] = 0;
    }
    if (value == NO_OBJECT)
        return;
    if (operation->kind == INCREF && needs->now[value] > 0)
        needs->now[value]--;
    else if (operation->kind == DECREF || operation->kind == KEEP ||
             operation->kind == PUT)
        need(needs, value, 1);
}

/* Go back over a block; true: more is needed at its start than before. */
static bool carry_back(struct needs *needs, int number)
{
    const struct block *block = &needs->function->blocks[number];
    int values = needs->function->value_count, *start = at_start(needs, number);

    memset(needs->now, 0, (size_t)values * sizeof *needs->now);
    for (int i = 0; i < block->successor_count; i++) {
        before_edge(needs, number, block->successors[i], needs->edge);
        for (int value = 0; value < values; value++)
            if (needs->edge[value] > needs->now[value])
                needs->now[value] = needs->edge[value];
    }
    for (int value = 0; value < values; value++)
        need(needs, value, 0); /* no more than the most */
    for (int i = block->operation_count; i-- > 0;)
        leave(needs, &block->operations[i]);
    bool changed = memcmp(start, needs->now, (size_t)values * sizeof *start) != 0;
    memcpy(start, needs->now, (size_t)values * sizeof *start);
    return changed;
}

static bool *find_reached(const struct function *function)
{
    bool *reached = function_allocate((size_t)function->block_count, sizeof *reached);
    int *stack = function_allocate((size_t)function->block_count, sizeof *stack);
    int depth = 1;

    reached[0] = true; /* the stack has block 0 */
    while (depth > 0) {
        const struct block *block = &function->blocks[stack[--depth]];
        for (int i = 0; i < block->successor_count; i++) {
            int target = block->successors[i];
            if (!reached[target])
                stack[depth++] = target;
            reached[target] = true;
        }
    }
    return reached;
}

bool references_are_balanced(const struct function *function)
{
    size_t values = (size_t)function->value_count + 1;
    struct needs needs = {
        .function = function,
        .at_start =
            function_allocate((size_t)function->block_count * values, sizeof(int)),
        .now = function_allocate(values, sizeof(int)),
        .edge = function_allocate(values, sizeof(int)),
        .balanced = true,
    };
    const bool *reached = find_reached(function);
    bool changed = true;

    while (changed) {
        changed = false;
        for (int b = function->block_count; b-- > 0;)
            changed |= reached[b] && carry_back(&needs, b);
    }
    for (int i = 0; i < function->parameter_count; i++)
        needs.balanced &= needs.at_start[i] == 0;
    return needs.balanced;
}
