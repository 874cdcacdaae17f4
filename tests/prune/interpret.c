/* interpret.c -- runs functions before and after pruning, on a memory that counts.
 *
 *     prune-interpret BEFORE AFTER [RUNS [SEED [held]]]
 *
 * Both files hold the same functions (.ll or .bc), the second pruned. Each function is
 * run along RUNS paths. A run draws from its seed the direction of each branch, and the
 * object of each pointer (several pointers may be one object, or null). It also draws the
 * references between objects. Then both versions make the same run. The pruned one must
 * neither access a freed object nor free one twice, and must leave the same counts
 * behind.
 *
 * The caller holds as few references as the version before needs. A run begins with none;
 * if that version fails, it gets one more and begins again. So only references of the
 * function itself, or of another object, keep an object alive.
 *
 * A run is cut after a number of blocks. What the function needs behind the cut, such as a
 * reference for each turn of a loop, the caller may not hold then. So if the pruned version
 * fails in a run that was cut, both make a longer run, and the failure counts if the version
 * before reaches its return there.
 *
 * All paths through the blocks count as possible, as for a pruner that reads blocks
 * alone. A run that passed a raise mark may leave fewer references than before: code that
 * raises does not release its references, and pruning such a pair mends that. But it may
 * not leave fewer than the references of others: the caller, live objects, and the
 * receiver of a transferred reference (a store to @kept). This is required of functions
 * that are balanced (balance.h).
 *
 * The caller holds the parameters of functions with such calls until the end. With `held`
 * it holds those of all functions, and none is judged that is not balanced: so the pruner
 * assumes it for references that phis carry.
 *
 * Functions of the module that are called run too. Calls of other code release references
 * of other owners (run.c). Whose reference that is, only balanced functions tell, so
 * functions with such calls that are not balanced are not judged. The call of a pointer that
 * is named NRT_decref is such a call for the pruner, and a decref here.
 *
 * A failure of a function is no finding if it calls a function of the module that is not
 * balanced by itself and not meant to release: Numba's own functions take over references
 * that a call returned in memory. The wrappers that Numba makes for `cfunc` are such callers.
 *
 * Output: one line per failure (the first of each function), then a line of totals. The
 * exit status is 0 if there was no failure, 1 if there was one, 2 if a file is no good.
 */
#include "balance.h"
#include "run.h"

#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTEMPTS = 200 }; /* references added for the caller, one at a time */

/* The objects and their references; later objects never hold earlier ones. */
static struct world make_world(uint64_t seed)
{
    struct world world = {.seed = seed};
    uint64_t random = run_mix(seed ^ 0x5DEECE66Du);
    world.shared = 1 + (int)(random % MAX_SHARED);
    for (int i = 0; i < MAX_SHARED; i++)
        for (int k = 0; k < 2; k++) {
            int child = i + 1 + (int)(run_mix(random + (uint64_t)(i * 2 + k)) >> 40) % 6;
            world.children[i][k] = child < world.shared ? child : NO_OBJECT;
        }
    return world;
}

/* Give the caller one more reference: to an object that was freed too early, or to its
 * holder. */
static bool give_reference(struct world *world, const struct run *run, int attempt)
{
    if (run->blamed >= world->shared)
        return false; /* created by the function itself: no other owner can hold it */
    int receiver = run->blamed;
    for (int i = 0; i < receiver; i++)
        if ((world->children[i][0] == receiver || world->children[i][1] == receiver) &&
            run->objects[i].count == 0 &&
            run_mix(world->seed + (uint64_t)(attempt * 8 + i)) % 3 == 0)
            receiver = i;
    world->callers[receiver]++;
    return true;
}

/* Run the first version with as few references as it needs. */
static enum verdict run_original(struct run *run, struct world *world)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        enum verdict verdict = run_go(run);
        if (verdict == FINE || verdict == CUT)
            return verdict;
        if (!give_reference(world, run, attempt))
            break;
    }
    return USED_FREED;
}

/* The difference of the counts of an object at the end of a block. */
static int difference(const struct run *before, const struct run *after, int step,
                      int object)
{
    return run_count(before, step, object) - run_count(after, step, object);
}

/* Return whether this object may have fewer references than before. That requires that
 * the function raised and kept its references. So find a block with a missing incref: the
 * difference of the counts is larger than before it, and at least the final difference
 * ever after. The reference taken there was lost if a raise followed and it was not
 * released. The pruned version, which omits it, never had fewer. */
static bool may_have_fewer(const struct run *before, const struct run *after, int object)
{
    int fewer = difference(before, after, before->steps, object);
    int lowest = run_count(after, before->steps, object);

    for (int step = before->steps; step >= 0; step--) {
        int count = run_count(after, step, object);
        int gap = difference(before, after, step, object);
        if (gap < fewer)
            return false;
        lowest = count < lowest ? count : lowest;
        if (gap > difference(before, after, step - 1, object) && lowest == count &&
            before->last_raise >= step)
            return true;
    }
    return false;
}

/* The same for references that phis carry: the one that is lost at the end was taken in
 * another turn of the loop. And for functions that call a pointer named NRT_decref: behind
 * the mark it releases a reference that the pruner counts as lost. The function may lose
 * what it had itself, but no more. A called function that raised may have lost fewer after
 * pruning. */
static bool may_lose_own(const struct run *before, const struct run *after, int object)
{
    int fewer = before->objects[object].count - after->objects[object].count;

    int own = before->last_raise >= 0 ? before->own[object] : 0;

    return fewer <= own + before->lost[object] - after->lost[object];
}

static const char *compare(const struct run *before, const struct run *after, bool held)
{
    bool counts_own = held || before->function->calls_pointer;

    for (int i = 0; i < before->object_count; i++) {
        if (after->objects[i].count > before->objects[i].count)
            return "leak";
        if (after->objects[i].count < before->objects[i].count &&
            !(counts_own ? may_lose_own : may_have_fewer)(before, after, i))
            return "reference lost";
    }
    return NULL;
}

/* References to an object that other owners hold. */
static int held_by_others(const struct run *run, int object)
{
    int held = run->kept[object];

    if (object < run->world->shared)
        held += run->callers[object] + run->passed[object];
    for (int i = 0; i < run->object_count; i++)
        for (int k = 0; run->objects[i].count > 0 && k < 2; k++)
            held += run->objects[i].children[k] == object;
    return held;
}

static bool others_lost(const struct run *run)
{
    for (int i = 0; i < run->object_count; i++)
        if (run->objects[i].count < held_by_others(run, i))
            return true;
    return false;
}

struct totals {
    long functions, kept, unjudged, runs, senseless, failures;
};

/* The pruned version failed in a run that was cut. Return its result in a longer run; CUT: the
 * version before does not reach its return there. */
static enum verdict run_longer(struct run *before, struct run *after, struct world *world)
{
    before->most_steps = after->most_steps = MAX_BLOCKS_LONG;
    return run_original(before, world) == FINE ? run_go(after) : CUT;
}

static const char *run_both(struct run *before, struct run *after, uint64_t seed,
                            bool kept, bool held, struct totals *totals)
{
    struct world world = make_world(seed);
    before->world = after->world = &world;
    before->most_steps = after->most_steps = MAX_BLOCKS_RUN;
    enum verdict verdict = run_original(before, &world);
    totals->runs++;
    if (verdict == USED_FREED) {
        totals->senseless++;
        return NULL;
    }
    enum verdict result = run_go(after);
    if (verdict == CUT && result != FINE && result != CUT)
        result = run_longer(before, after, &world);
    switch (result) {
    case USED_FREED:
        return "use after free";
    case FREED_TWICE:
        return "double free";
    case CUT:
        return NULL; /* counts in the middle of a run may differ */
    case FINE:
        break;
    }
    if (verdict != FINE || !before->returned)
        return NULL;
    if (kept && others_lost(after) && !others_lost(before))
        return "the reference of another owner is lost";
    return compare(before, after, held);
}

static void check_function(LLVMValueRef before, LLVMValueRef after, int runs,
                           uint64_t seed, bool held, struct totals *totals)
{
    function_forget_all();
    const struct function *first = function_read(before), *second = function_read(after);
    if (first->block_count != second->block_count ||
        first->parameter_count != second->parameter_count) {
        printf("%s: other blocks or parameters than before\n", first->name);
        totals->failures++;
        return;
    }
    struct run one = run_make(first), two = run_make(second);
    bool kept = references_are_balanced(first);
    totals->kept += kept;
    one.holds_parameters = two.holds_parameters = held || function_calls_back(first);
    if ((one.holds_parameters || first->calls_pointer) && !kept) {
        totals->unjudged++;
        return;
    }
    for (int i = 0; i < runs; i++) {
        const char *failure =
            run_both(&one, &two, run_mix(seed + (uint64_t)i), kept, held, totals);
        if (failure == NULL)
            continue;
        printf("%s: %s, run %d, block %d, operation %d\n", first->name, failure, i,
               two.where[0], two.where[1]);
        totals->failures++;
        return;
    }
}

static LLVMModuleRef read_module(const char *path)
{
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef module;
    char *message = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &buffer, &message) != 0 ||
        LLVMParseIRInContext(LLVMContextCreate(), buffer, &module, &message) != 0) {
        fprintf(stderr, "prune-interpret: %s: %s\n", path, message);
        exit(2);
    }
    return module;
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: prune-interpret BEFORE AFTER [RUNS [SEED [held]]]\n");
        return 2;
    }
    LLVMModuleRef before = read_module(arguments[1]), after = read_module(arguments[2]);
    int runs = count > 3 ? atoi(arguments[3]) : 32;
    uint64_t seed = count > 4 ? strtoull(arguments[4], NULL, 10) : 0;
    bool held = count > 5 && strcmp(arguments[5], "held") == 0;

    struct totals totals = {0};
    LLVMValueRef function = LLVMGetFirstFunction(before);
    for (; function; function = LLVMGetNextFunction(function)) {
        if (LLVMIsDeclaration(function))
            continue;
        size_t length;
        LLVMValueRef other =
            LLVMGetNamedFunction(after, LLVMGetValueName2(function, &length));
        if (other == NULL) {
            fprintf(stderr, "prune-interpret: a function is missing\n");
            return 2;
        }
        totals.functions++;
        check_function(function, other, runs, run_mix(seed + (uint64_t)totals.functions),
                       held, &totals);
    }
    printf("functions=%ld kept=%ld unjudged=%ld runs=%ld senseless=%ld failures=%ld\n",
           totals.functions, totals.kept, totals.unjudged, totals.runs, totals.senseless,
           totals.failures);
    return totals.failures != 0;
}
