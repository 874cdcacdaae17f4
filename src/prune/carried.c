/* carried.c -- carried references: sets of refops that cancel out together, across phis.
 *
 * A loop over a linked list takes a reference to each node and releases that of the node
 * before. No incref has a decref of the same value there: a phi carries the reference to
 * the next turn. And each decref of one pair is in the way of another pair.
 *
 * Demand (demand.h) says how many decrefs each reference has ahead of it. Each name has a
 * floor, 0 at first. The set has the refops at which the demand is above the floor: the
 * references below it stay. The set cancels out if on each edge the part of the demand
 * above the floors is the same before and behind it. Where it is not, a floor is raised.
 * So on each path, and for each object, the set has as many increfs as decrefs.
 *
 * Where the set lacks an incref whose decref is ahead, an object has fewer references than
 * before. Such a point is exposed, unless another reference keeps the object:
 *
 *   - the value is a parameter, and the function releases no more of its parameters than
 *     it takes, nor has a call that releases its argument: the caller holds it;
 *   - the floor is above 0: the function has a reference below the floor, whose decref is
 *     ahead too.
 *
 * In both cases the value is never stored, so that no other owner got that reference.
 *
 * At an exposed point no decref outside of the set may stand, and no releasing call. Then
 * nothing counts down until all counts are again those of before, and nothing dies. If one
 * stands there, the floors of the names that expose it are raised to their demand.
 *
 * A path that raises may end with references of the set (sound.h has the reasons). Their
 * values are stored nowhere, and nothing is released on the rest of the path.
 *
 * Floors only rise. At the end the set is the largest one that these rules allow.
 */
#include "prune/carried.h"
#include "prune/ownership.h"
#include "prune/raise_metadata.h"
#include "prune/tail_decref.h"
#include <string.h>

/* Rounds over a function, each of which raises a floor. */
enum { MOST_ROUNDS = 64 };

struct carried {
    struct tarn__demand demand;
    struct tarn__function_index *function_index;
    struct tarn__fanout_regions *regions;
    const struct tarn__cfg *cfg;
    unsigned char *floor; /* by name */
    bool *is_given;  /* by name: its reference may leave it, by a store for example */
    uint32_t *group; /* by name: names that phis connect have one root */
    bool *group_is_given; /* by root */
    bool *is_taken;       /* by refop: it is in the set */
    bool *raises;         /* by block: all paths from its start raise */
    bool *may_release;    /* by block: something outside of the set does, there or behind
                              */
    unsigned char *end;   /* scratch, by name */
    uint32_t *edge;       /* the same; many phis of one value have a large sum */
    uint32_t *stack;
    bool
        caller_holds; /* the function releases no more of its parameters than it takes, and
                        * nothing in it but refops releases a parameter */
    bool changed;
};

/* --- names -------------------------------------------------------------------------- */

static uint32_t root_of(struct carried *carried, uint32_t name)
{
    while (carried->group[name] != name)
        name = carried->group[name] = carried->group[carried->group[name]];
    return name;
}

/* Is a called function one that Numba calls, or a note for LLVM? An intrinsic may copy. */
static bool lends(LLVMValueRef callee)
{
    size_t length;
    const char *name = LLVMGetValueName2(callee, &length);

    return LLVMIsAFunction(callee) &&
           (LLVMGetIntrinsicID(callee) == 0 || strncmp(name, "llvm.lifetime.", 14) == 0);
}

/* Is this memory of the function that only called functions read? They borrow what they
 * find there, as they borrow arguments. */
static bool is_read_by_calls(LLVMValueRef memory)
{
    for (LLVMUseRef use = LLVMGetFirstUse(memory); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        switch (LLVMGetInstructionOpcode(user)) {
        case LLVMStore:
            if (LLVMGetOperand(user, 0) == memory)
                return false;
            break;
        case LLVMGetElementPtr:
            if (!is_read_by_calls(user))
                return false;
            break;
        case LLVMCall:
            if (!lends(LLVMGetCalledValue(user)))
                return false;
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool is_lent_memory(LLVMValueRef pointer)
{
    while (LLVMIsAGetElementPtrInst(pointer))
        pointer = LLVMGetOperand(pointer, 0);
    return LLVMIsAAllocaInst(pointer) && is_read_by_calls(pointer);
}

/* Does this use give the reference away, or pass it on under a name that is not followed?
 */
static bool gives(struct carried *carried, LLVMValueRef user, LLVMValueRef value)
{
    if (LLVMIsAPHINode(user))
        return tarn__demand_name(&carried->demand, user) == TARN__NONE;
    if (LLVMIsAStoreInst(user) && is_lent_memory(LLVMGetOperand(user, 1)))
        return false;
    return tarn__ownership_may_store(user, value);
}

static bool is_given(struct carried *carried, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use))
        if (gives(carried, LLVMGetUser(use), value))
            return true;
    return false;
}

static void find_groups(struct carried *carried)
{
    const struct tarn__demand *demand = &carried->demand;

    for (uint32_t name = 0; name < demand->name_count; name++)
        carried->group[name] = name;
    for (uint32_t i = 0; i < demand->phi_count; i++) {
        const struct tarn__demand_phi *phi = &demand->phis[i];
        uint32_t block = tarn__cfg_number(
            carried->cfg, LLVMGetInstructionParent(demand->names[phi->name]));
        size_t count = carried->cfg->first_in[block + 1] - carried->cfg->first_in[block];
        for (size_t k = 0; k < count; k++)
            if (phi->incoming[k] < demand->name_count)
                carried->group[root_of(carried, phi->incoming[k])] =
                    root_of(carried, phi->name);
    }
    for (uint32_t name = 0; name < demand->name_count; name++) {
        LLVMValueRef value = demand->names[name];
        bool followed = LLVMIsAInstruction(value) || LLVMIsAArgument(value);
        carried->is_given[name] = !followed || is_given(carried, value);
        carried->group_is_given[root_of(carried, name)] |= carried->is_given[name];
    }
}

/* --- raises ------------------------------------------------------------------------- */

static bool is_not_zero(LLVMValueRef value)
{
    return value && LLVMIsAConstantInt(value) && !LLVMIsNull(value);
}

/* Does the function return another constant than 0 straight after this block? */
static bool returns_failure(LLVMBasicBlockRef block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block);

    if (LLVMGetInstructionOpcode(end) == LLVMRet)
        return LLVMGetNumOperands(end) == 1 && is_not_zero(LLVMGetOperand(end, 0));
    if (LLVMGetInstructionOpcode(end) != LLVMBr || LLVMGetNumSuccessors(end) != 1)
        return false;
    LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetSuccessor(end, 0));
    LLVMValueRef next = LLVMGetNextInstruction(first);
    if (!LLVMIsAPHINode(first) || !next || LLVMGetInstructionOpcode(next) != LLVMRet ||
        LLVMGetNumOperands(next) != 1 || LLVMGetOperand(next, 0) != first)
        return false;
    for (unsigned i = 0; i < LLVMCountIncoming(first); i++)
        if (LLVMGetIncomingBlock(first, i) == block)
            return is_not_zero(LLVMGetIncomingValue(first, i));
    return false;
}

/* An exception of an inner call is passed on without raise metadata: it is stored to the
 * parameter `excinfo`, and the function returns that it failed. */
static bool passes_exception(LLVMBasicBlockRef block)
{
    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at;
         at = LLVMGetNextInstruction(at)) {
        if (LLVMGetInstructionOpcode(at) != LLVMStore)
            continue;
        size_t length;
        LLVMValueRef pointer = LLVMGetOperand(at, 1);
        const char *name = LLVMGetValueName2(pointer, &length);
        if (LLVMIsAArgument(pointer) && length == strlen("excinfo") &&
            memcmp(name, "excinfo", length) == 0)
            return returns_failure(block);
    }
    return false;
}

static bool raises_here(struct carried *carried, uint32_t block)
{
    return tarn__raise_metadata_block_raises(carried->function_index, block) ||
           (carried->function_index->pruning->options.raise_metadata &
                TARN_PRUNE_RAISE_STORE &&
            passes_exception(carried->function_index->blocks[block]));
}

static bool all_targets_raise(const struct carried *carried, uint32_t block)
{
    const struct tarn__cfg *cfg = carried->cfg;

    for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++)
        if (!carried->raises[cfg->targets[i]])
            return false;
    return cfg->first_out[block] < cfg->first_out[block + 1];
}

/* Find the blocks from which all paths raise: from the raises back. */
static void find_raises(struct carried *carried)
{
    const struct tarn__cfg *cfg = carried->cfg;
    size_t depth = 0;

    if (!(carried->function_index->pruning->options.shapes & TARN_PRUNE_FANOUT_RAISE))
        return;
    for (uint32_t b = 0; b < cfg->blocks; b++)
        if (raises_here(carried, b)) {
            carried->raises[b] = true;
            carried->stack[depth++] = b;
        }
    while (depth > 0) {
        uint32_t block = carried->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (carried->raises[source] || !all_targets_raise(carried, source))
                continue;
            carried->raises[source] = true;
            carried->stack[depth++] = source;
        }
    }
}

/* --- the set ------------------------------------------------------------------------ */

static unsigned above(const struct carried *carried, uint32_t name, unsigned demand)
{
    return demand > carried->floor[name] ? demand - carried->floor[name] : 0;
}

static void raise_floor(struct carried *carried, uint32_t name, unsigned char demand)
{
    if (carried->floor[name] >= demand)
        return;
    carried->floor[name] = demand;
    carried->changed = true;
}

/* Does this refop count anything, and is it still there? */
static bool counts(const struct carried *carried, uint32_t refop)
{
    const struct tarn__refop *at = &carried->function_index->refops[refop];

    return at->call && !LLVMIsAConstantPointerNull(at->value);
}

static bool is_decref(const struct carried *carried, uint32_t refop)
{
    return counts(carried, refop) && !carried->function_index->refops[refop].incref;
}

/* A refop is in the set if the demand before or behind it is above its floor. */
static void choose_refops(struct carried *carried, uint32_t block)
{
    const struct tarn__function_index *function_index = carried->function_index;
    unsigned char *at = carried->end;

    tarn__demand_at_end(&carried->demand, block, at);
    carried->may_release[block] = function_index->calls_in[block] > 0;
    for (uint32_t i = function_index->first_refop[block + 1];
         i-- > function_index->first_refop[block];) {
        uint32_t name = function_index->refops[i].value_number;
        unsigned behind = above(carried, name, at[name]);
        tarn__demand_before_refop(&carried->demand, i, at);
        if (!counts(carried, i))
            continue;
        unsigned before = above(carried, name, at[name]);
        carried->is_taken[i] = behind != before;
        carried->may_release[block] |= is_decref(carried, i) && !carried->is_taken[i];
    }
}

/* Carry `may_release` back along the edges. */
static void find_releases_behind(struct carried *carried)
{
    const struct tarn__cfg *cfg = carried->cfg;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++)
        if (carried->may_release[b])
            carried->stack[depth++] = b;
    while (depth > 0) {
        uint32_t block = carried->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (carried->may_release[source])
                continue;
            carried->may_release[source] = true;
            carried->stack[depth++] = source;
        }
    }
}

/* --- edges -------------------------------------------------------------------------- */

/* Count the part above the floors that the names behind an edge hand to those before it:
 * `passed`, by name. A phi of a value that is not followed has no such part. */
static void pass_edge(struct carried *carried, uint32_t block, uint32_t target,
                      uint32_t *passed)
{
    const struct tarn__demand *demand = &carried->demand;
    const unsigned char *behind = tarn__demand_at_start(demand, target);

    for (uint32_t name = 0; name < demand->name_count; name++)
        passed[name] = above(carried, name, behind[name]);
    for (uint32_t i = demand->first_phi[target]; i != 0; i = demand->phis[i - 1].next)
        passed[demand->phis[i - 1].name] = 0;
    for (uint32_t i = demand->first_phi[target]; i != 0; i = demand->phis[i - 1].next) {
        const struct tarn__demand_phi *phi = &demand->phis[i - 1];
        uint32_t name = tarn__demand_incoming(demand, phi, target, block);
        if (name == TARN__NAME_OTHER)
            raise_floor(carried, phi->name, behind[phi->name]);
        else if (name != TARN__NAME_NULL)
            passed[name] += above(carried, phi->name, behind[phi->name]);
    }
}

/* More is handed over than the name has above its floor: its phis keep theirs. */
static void raise_phis(struct carried *carried, uint32_t block, uint32_t target,
                       uint32_t name)
{
    const struct tarn__demand *demand = &carried->demand;
    const unsigned char *behind = tarn__demand_at_start(demand, target);

    for (uint32_t i = demand->first_phi[target]; i != 0; i = demand->phis[i - 1].next)
        if (tarn__demand_incoming(demand, &demand->phis[i - 1], target, block) == name)
            raise_floor(carried, demand->phis[i - 1].name,
                        behind[demand->phis[i - 1].name]);
}

/* May references of this name be left where the path raises? */
static bool may_be_left(struct carried *carried, uint32_t name, uint32_t target)
{
    return carried->raises[target] && !carried->may_release[target] &&
           !carried->group_is_given[root_of(carried, name)];
}

static void check_edges(struct carried *carried, uint32_t block)
{
    const struct tarn__cfg *cfg = carried->cfg;

    for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++) {
        uint32_t target = cfg->targets[i];
        pass_edge(carried, block, target, carried->edge);
        for (uint32_t name = 0; name < carried->demand.name_count; name++) {
            unsigned wanted = above(carried, name, carried->end[name]);
            if (carried->edge[name] > wanted)
                raise_phis(carried, block, target, name);
            else if (carried->edge[name] < wanted && !may_be_left(carried, name, target))
                raise_floor(carried, name, carried->end[name]);
        }
    }
}

/* --- exposed points ----------------------------------------------------------------- */

static bool is_exposed(const struct carried *carried, uint32_t name, unsigned demand)
{
    bool is_held = carried->floor[name] > 0 ||
                   (carried->demand.is_parameter[name] && carried->caller_holds);

    return above(carried, name, demand) > 0 && (!is_held || carried->is_given[name]);
}

/* Something may release a reference here: no name may expose the point. A reference below
 * the floor is enough for a value that is never stored. */
static void protect(struct carried *carried, const unsigned char *at)
{
    for (uint32_t name = 0; name < carried->demand.name_count; name++)
        if (is_exposed(carried, name, at[name]))
            raise_floor(carried, name, carried->is_given[name] ? at[name] : 1);
}

/* The first refop of the decrefs that stand in a row up to this one, with nothing between
 * them that touches memory. Their order does not matter (sound.h), so those of the set
 * may be the first. */
static uint32_t start_of_row(const struct carried *carried, uint32_t block, uint32_t last)
{
    const struct tarn__refop *refops = carried->function_index->refops;
    uint32_t first = carried->function_index->first_refop[block], start = last;

    for (uint32_t i = last; i-- > first;) {
        if (!refops[i].call)
            continue;
        if (refops[i].incref || refops[i].calls_before != refops[last].calls_before ||
            tarn__tail_decref_use_between(refops[i].call, refops[start].call))
            break;
        start = i;
    }
    return start;
}

static void check_row(struct carried *carried, uint32_t start, uint32_t last,
                      unsigned char *at)
{
    bool releases = false;

    for (uint32_t i = start; i <= last; i++)
        releases |= is_decref(carried, i) && !carried->is_taken[i];
    if (releases)
        protect(carried, at);
    for (uint32_t i = last + 1; i-- > start;)
        tarn__demand_before_refop(&carried->demand, i, at);
}

/* Walk a block from its end, with the demand at each point. */
static void check_points(struct carried *carried, uint32_t block)
{
    const struct tarn__function_index *function_index = carried->function_index;
    uint32_t first = function_index->first_refop[block];
    uint32_t calls = function_index->calls_in[block];
    unsigned char *at = carried->end;

    for (uint32_t i = function_index->first_refop[block + 1]; i-- > first;) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (!refop->call)
            continue;
        if (refop->calls_before < calls)
            protect(carried, at);
        calls = refop->calls_before;
        uint32_t start = refop->incref ? i : start_of_row(carried, block, i);
        check_row(carried, start, i, at);
        i = start;
    }
    if (calls > 0)
        protect(carried, at);
}

/* --- all of it ---------------------------------------------------------------------- */

static bool is_reached(const struct carried *carried, uint32_t block)
{
    return tarn__dominators_tree_reached(&carried->regions->dominators, block);
}

/* True: the set satisfies all rules. */
static bool check(struct carried *carried)
{
    uint32_t blocks = carried->cfg->blocks;

    carried->changed = false;
    for (uint32_t b = 0; b < blocks; b++)
        if (is_reached(carried, b))
            choose_refops(carried, b);
    find_releases_behind(carried);
    for (uint32_t b = 0; b < blocks; b++) {
        if (!is_reached(carried, b))
            continue;
        tarn__demand_at_end(&carried->demand, b, carried->end);
        check_edges(carried, b);
        check_points(carried, b);
    }
    return !carried->changed;
}

static void set_floors(struct carried *carried)
{
    carried->caller_holds = !carried->function_index->releases_argument;
    for (uint32_t name = 0; name < carried->demand.name_count; name++)
        carried->caller_holds &= !carried->demand.is_parameter[name] ||
                                 carried->demand.at_definition[name] == 0;
    for (uint32_t name = 0; name < carried->demand.name_count; name++)
        carried->floor[name] = carried->demand.at_definition[name];
    for (uint32_t b = 0; b < carried->cfg->blocks; b++) /* without end */
        for (uint32_t name = 0; name < carried->demand.name_count; name++)
            if (tarn__demand_at_start(&carried->demand, b)[name] == TARN__MOST_DEMAND)
                carried->floor[name] = TARN__MOST_DEMAND;
}

static void remove_set(struct carried *carried)
{
    struct tarn__function_index *function_index = carried->function_index;
    uint32_t before = function_index->removed;

    for (uint32_t i = 0; i < function_index->refop_count; i++)
        if (carried->is_taken[i] && function_index->refops[i].call)
            tarn__function_index_remove(function_index, i);
    function_index->pruning->report.carried += function_index->removed - before;
}

static bool open_tables(struct carried *carried)
{
    struct tarn__arena *arena = &carried->function_index->pruning->arena;
    uint32_t names = carried->demand.name_count, blocks = carried->cfg->blocks;

    carried->floor = TARN__TAKE(arena, unsigned char, names);
    carried->is_given = TARN__TAKE(arena, bool, names);
    carried->group = TARN__TAKE(arena, uint32_t, names);
    carried->group_is_given = TARN__TAKE(arena, bool, names);
    carried->is_taken = TARN__TAKE(arena, bool, carried->function_index->refop_count);
    carried->raises = TARN__TAKE(arena, bool, blocks);
    carried->may_release = TARN__TAKE(arena, bool, blocks);
    carried->end = TARN__TAKE(arena, unsigned char, names);
    carried->edge = TARN__TAKE(arena, uint32_t, names);
    carried->stack = TARN__TAKE(arena, uint32_t, (size_t)blocks + 1);
    return !arena->failed;
}

bool tarn__carried_prune(struct tarn__function_index *function_index,
                         struct tarn__fanout_regions *regions)
{
    struct carried carried = {
        .function_index = function_index, .regions = regions, .cfg = regions->cfg};
    enum tarn__demand_result found =
        tarn__demand_find(&carried.demand, function_index, regions->cfg);
    bool holds = false;

    if (found == TARN__DEMAND_NO_MEMORY)
        return false;
    if (found == TARN__DEMAND_FOUND) {
        if (!open_tables(&carried))
            return false;
        find_groups(&carried);
        find_raises(&carried);
        set_floors(&carried);
        for (int round = 0; !holds && round < MOST_ROUNDS; round++)
            holds = check(&carried);
    }
    if (holds)
        remove_set(&carried);
    else
        function_index->pruning->report.gave_up++;
    return true;
}
