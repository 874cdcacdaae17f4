/* demand.c -- demand: how many references does the rest of the function release, by name?
 */
#include "prune/demand.h"
#include <string.h>

/* Larger functions are given up: blocks x names, and passes over all blocks. */
enum { MOST_CELLS = 1 << 20, MOST_PASSES = 64 };

/* --- names -------------------------------------------------------------------------- */

static size_t slot_of(const struct tarn__demand *demand, LLVMValueRef value)
{
    size_t slot = (size_t)(((uintptr_t)value >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
                  demand->slot_mask;

    while (demand->slots[slot] && demand->names[demand->slots[slot] - 1] != value)
        slot = (slot + 1) & demand->slot_mask;
    return slot;
}

/* How many names can there be? The counted values, and all that phis of pointers merge. */
static uint32_t count_candidates(const struct tarn__function_index *function_index)
{
    uint32_t count = function_index->value_count;

    for (uint32_t b = 0; b < function_index->block_count; b++)
        for (LLVMValueRef at = LLVMGetFirstInstruction(function_index->blocks[b]);
             at && LLVMIsAPHINode(at); at = LLVMGetNextInstruction(at))
            count += 1 + LLVMCountIncoming(at);
    return count;
}

static uint32_t add_name(struct tarn__demand *demand, LLVMValueRef value)
{
    size_t slot = slot_of(demand, value);

    if (demand->slots[slot])
        return demand->slots[slot] - 1;
    demand->names[demand->name_count] = value;
    demand->slots[slot] = ++demand->name_count;
    return demand->name_count - 1;
}

/* The name of a value that a phi merges. */
static uint32_t merged_name(struct tarn__demand *demand, LLVMValueRef value)
{
    if (LLVMIsAInstruction(value) || LLVMIsAArgument(value))
        return add_name(demand, value);
    return LLVMIsNull(value) || LLVMIsUndef(value) ? TARN__NAME_NULL : TARN__NAME_OTHER;
}

static LLVMValueRef value_from(LLVMValueRef phi, LLVMBasicBlockRef source)
{
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
        if (LLVMGetIncomingBlock(phi, i) == source)
            return LLVMGetIncomingValue(phi, i);
    return NULL; /* not in IR that LLVM's verifier accepts */
}

static bool add_phi(struct tarn__demand *demand, uint32_t name)
{
    const struct tarn__cfg *cfg = demand->cfg;
    LLVMValueRef value = demand->names[name];
    uint32_t block = tarn__cfg_number(cfg, LLVMGetInstructionParent(value));
    struct tarn__demand_phi *phi = &demand->phis[demand->phi_count];
    size_t first = cfg->first_in[block], count = cfg->first_in[block + 1] - first;

    *phi = (struct tarn__demand_phi){
        .name = name,
        .next = demand->first_phi[block],
        .incoming = TARN__TAKE(&demand->function_index->pruning->arena, uint32_t, count),
    };
    if (!phi->incoming)
        return false;
    demand->first_phi[block] = ++demand->phi_count;
    for (size_t i = 0; i < count; i++) {
        LLVMValueRef merged = value_from(value, cfg->names[cfg->sources[first + i]]);
        phi->incoming[i] = merged ? merged_name(demand, merged) : TARN__NAME_OTHER;
    }
    return true;
}

/* All names in turn; phis add more at the end. */
static bool define_names(struct tarn__demand *demand)
{
    for (uint32_t name = 0; name < demand->name_count; name++) {
        LLVMValueRef value = demand->names[name];
        demand->is_parameter[name] = LLVMIsAArgument(value) != NULL;
        if (LLVMIsAPHINode(value)) {
            if (!add_phi(demand, name))
                return false;
        } else if (LLVMIsAInstruction(value)) {
            uint32_t block =
                tarn__cfg_number(demand->cfg, LLVMGetInstructionParent(value));
            demand->next_defined[name] = demand->first_defined[block];
            demand->first_defined[block] = name + 1;
        }
    }
    return true;
}

static bool find_names(struct tarn__demand *demand)
{
    struct tarn__function_index *function_index = demand->function_index;
    struct tarn__arena *arena = &function_index->pruning->arena;
    uint32_t most = count_candidates(function_index);
    size_t slots = 16;

    while (slots < 2 * (size_t)most)
        slots *= 2;
    demand->slot_mask = slots - 1;
    demand->slots = TARN__TAKE(arena, uint32_t, slots);
    demand->names = TARN__TAKE(arena, LLVMValueRef, most);
    demand->phis = TARN__TAKE(arena, struct tarn__demand_phi, most);
    demand->is_parameter = TARN__TAKE(arena, bool, most);
    demand->next_defined = TARN__TAKE(arena, uint32_t, most);
    demand->at_definition = TARN__TAKE(arena, unsigned char, most);
    demand->edge = TARN__TAKE(arena, unsigned char, most);
    demand->first_defined = TARN__TAKE(arena, uint32_t, function_index->block_count);
    demand->first_phi = TARN__TAKE(arena, uint32_t, function_index->block_count);
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < function_index->refop_count;
         i++) /* numbered in this order */
        add_name(demand, function_index->refops[i].value);
    return define_names(demand);
}

uint32_t tarn__demand_name(const struct tarn__demand *demand, LLVMValueRef value)
{
    uint32_t found = demand->slots[slot_of(demand, value)];

    return found == 0 ? TARN__NONE : found - 1;
}

/* --- demand ------------------------------------------------------------------------- */

uint32_t tarn__demand_incoming(const struct tarn__demand *demand,
                               const struct tarn__demand_phi *phi, uint32_t block,
                               uint32_t source)
{
    const struct tarn__cfg *cfg = demand->cfg;
    size_t first = cfg->first_in[block];

    for (size_t i = first; i < cfg->first_in[block + 1]; i++)
        if (cfg->sources[i] == source)
            return phi->incoming[i - first];
    return TARN__NAME_OTHER;
}

static unsigned char sum(unsigned left, unsigned right)
{
    return (unsigned char)(left + right < TARN__MOST_DEMAND ? left + right
                                                            : TARN__MOST_DEMAND);
}

void tarn__demand_before_edge(const struct tarn__demand *demand, uint32_t block,
                              uint32_t target, unsigned char *out)
{
    const unsigned char *behind = tarn__demand_at_start(demand, target);

    memcpy(out, behind, demand->name_count);
    for (uint32_t i = demand->first_phi[target]; i != 0; i = demand->phis[i - 1].next)
        out[demand->phis[i - 1].name] = 0; /* the edge makes it another object */
    for (uint32_t i = demand->first_phi[target]; i != 0; i = demand->phis[i - 1].next) {
        const struct tarn__demand_phi *phi = &demand->phis[i - 1];
        uint32_t name = tarn__demand_incoming(demand, phi, target, block);
        if (name < demand->name_count)
            out[name] = sum(out[name], behind[phi->name]);
    }
}

void tarn__demand_at_end(const struct tarn__demand *demand, uint32_t block,
                         unsigned char *out)
{
    const struct tarn__cfg *cfg = demand->cfg;

    memset(out, 0, demand->name_count);
    for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++) {
        tarn__demand_before_edge(demand, block, cfg->targets[i], demand->edge);
        for (uint32_t name = 0; name < demand->name_count; name++)
            if (demand->edge[name] > out[name])
                out[name] = demand->edge[name];
    }
}

void tarn__demand_before_refop(const struct tarn__demand *demand, uint32_t refop,
                               unsigned char *at)
{
    const struct tarn__refop *step = &demand->function_index->refops[refop];

    if (!step->call || LLVMIsAConstantPointerNull(step->value))
        return;
    if (!step->incref)
        at[step->value_number] = sum(at[step->value_number], 1);
    else if (at[step->value_number] > 0)
        at[step->value_number]--;
}

/* Follow one block; true: the demand at its start has grown. */
static bool follow(struct tarn__demand *demand, uint32_t block, unsigned char *at)
{
    const struct tarn__function_index *function_index = demand->function_index;
    unsigned char *start = &demand->at_start[(size_t)block * demand->name_count];

    tarn__demand_at_end(demand, block, at);
    for (uint32_t i = function_index->first_refop[block + 1];
         i-- > function_index->first_refop[block];)
        tarn__demand_before_refop(demand, i, at);
    for (uint32_t i = demand->first_defined[block]; i != 0;
         i = demand->next_defined[i - 1]) {
        demand->at_definition[i - 1] = at[i - 1];
        at[i - 1] = 0;
    }
    if (memcmp(start, at, demand->name_count) == 0)
        return false;
    memcpy(start, at, demand->name_count);
    return true;
}

enum tarn__demand_result tarn__demand_find(struct tarn__demand *demand,
                                           struct tarn__function_index *function_index,
                                           const struct tarn__cfg *cfg)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    bool changed = true;

    *demand = (struct tarn__demand){.function_index = function_index, .cfg = cfg};
    if (!find_names(demand))
        return TARN__DEMAND_NO_MEMORY;
    if ((size_t)demand->name_count * cfg->blocks > MOST_CELLS)
        return TARN__DEMAND_GAVE_UP;
    demand->at_start =
        TARN__TAKE(arena, unsigned char, (size_t)demand->name_count * cfg->blocks);
    unsigned char *at = TARN__TAKE(arena, unsigned char, demand->name_count);
    if (arena->failed)
        return TARN__DEMAND_NO_MEMORY;
    for (int pass = 0; changed && pass < MOST_PASSES; pass++) {
        changed = false;
        for (uint32_t b = cfg->blocks; b-- > 0;)
            changed |= follow(demand, b, at);
    }
    const unsigned char *first = tarn__demand_at_start(demand, 0);
    for (uint32_t name = 0; name < demand->name_count; name++)
        if (!LLVMIsAInstruction(demand->names[name])) /* parameters and globals */
            demand->at_definition[name] = first[name];
    return changed ? TARN__DEMAND_GAVE_UP : TARN__DEMAND_FOUND;
}
