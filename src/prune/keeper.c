/* keeper.c -- keepers: does another reference of the function keep an object alive while
 * the pair of an incref is gone? */
#include "prune/keeper.h"

/* The most decrefs that a search wants. A path on which more increfs than this have no
 * decref is given up. */
enum { MOST_WANTED = 2 };

/* As for regions, a guard against graphs built to be slow. */
enum { STEPS_PER_BLOCK = 64, STEPS_ALWAYS = 1 << 20 };

bool tarn__keeper_open(struct tarn__keeper *keeper,
                       struct tarn__function_index *function_index,
                       const struct tarn__cfg *cfg)
{
    struct tarn__arena *arena = &function_index->pruning->arena;

    *keeper = (struct tarn__keeper){
        .function_index = function_index,
        .cfg = cfg,
        .most_steps = STEPS_ALWAYS + STEPS_PER_BLOCK * (cfg->edges + cfg->blocks),
        .seen = TARN__TAKE(arena, uint32_t, cfg->blocks),
        .found = TARN__TAKE(arena, signed char, cfg->blocks),
        .stack = TARN__TAKE(arena, uint32_t, cfg->blocks),
        .waits = TARN__TAKE(arena, bool, cfg->blocks),
    };
    return !arena->failed;
}

/* Follow the refops of a value from one of a block to its end; the result is the number of
 * decrefs without an incref, `wanted` as soon as that is reached. */
static int follow(struct tarn__keeper *keeper, uint32_t value, uint32_t refop,
                  uint32_t block, int found)
{
    const struct tarn__function_index *function_index = keeper->function_index;

    for (; refop < function_index->first_refop[block + 1] && found < keeper->wanted;
         refop++) {
        const struct tarn__refop *at = &function_index->refops[refop];
        keeper->steps++;
        if (at->call && at->value_number == value)
            found += at->incref ? -1 : 1;
    }
    return found;
}

/* Enter the successors of a block later, unless a path that found more did. The block that
 * defines the value makes it another object. */
static size_t enter_targets(struct tarn__keeper *keeper, uint32_t block, int found,
                            uint32_t definition, size_t depth)
{
    const struct tarn__cfg *cfg = keeper->cfg;

    for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++) {
        uint32_t target = cfg->targets[i];
        keeper->steps++;
        if (target == definition ||
            (keeper->seen[target] == keeper->search && keeper->found[target] >= found))
            continue;
        keeper->waits[target] &= keeper->seen[target] == keeper->search;
        keeper->seen[target] = keeper->search;
        keeper->found[target] = (signed char)found;
        if (!keeper->waits[target])
            keeper->stack[depth++] = target;
        keeper->waits[target] = true;
    }
    return depth;
}

static bool is_held(struct tarn__keeper *keeper, uint32_t incref, uint32_t definition)
{
    const struct tarn__function_index *function_index = keeper->function_index;
    const struct tarn__refop *refop = &function_index->refops[incref];
    int found = follow(keeper, refop->value_number, incref + 1, refop->block, 0);
    size_t depth = 0;

    keeper->search++;
    if (found > -MOST_WANTED && found < keeper->wanted)
        depth = enter_targets(keeper, refop->block, found, definition, depth);
    while (depth > 0 && found < keeper->wanted && keeper->steps <= keeper->most_steps) {
        uint32_t block = keeper->stack[--depth];
        keeper->waits[block] = false;
        found = follow(keeper, refop->value_number, function_index->first_refop[block],
                       block, keeper->found[block]);
        if (found > -MOST_WANTED && found < keeper->wanted)
            depth = enter_targets(keeper, block, found, definition, depth);
    }
    return found >= keeper->wanted;
}

bool tarn__keeper_holds(struct tarn__keeper *keeper, uint32_t incref)
{
    const struct tarn__function_index *function_index = keeper->function_index;
    LLVMValueRef value = function_index->refops[incref].value;
    uint32_t number = function_index->refops[incref].value_number;
    uint32_t decrefs =
        function_index->first_place[number + 1] - function_index->first_place[number];
    uint32_t definition = TARN__NONE;

    keeper->wanted =
        tarn__function_index_caller_holds(function_index, value) ? 1 : MOST_WANTED;
    if (LLVMIsAInstruction(value))
        definition = tarn__cfg_number(keeper->cfg, LLVMGetInstructionParent(value));
    else if (!LLVMIsAArgument(value))
        return false;
    if (decrefs < (uint32_t)keeper->wanted)
        return false;
    if (keeper->steps > keeper->most_steps) {
        function_index->pruning->report.gave_up++;
        return false;
    }
    return is_held(keeper, incref, definition);
}
