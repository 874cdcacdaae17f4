/* cfg.c -- the control flow graph: the successors and predecessors of each block. */
#include "prune/cfg.h"

/* The index of a block in the table, or of its free entry; open addressing, at most half
 * full. */
static size_t slot_of(const struct tarn__cfg *cfg, LLVMBasicBlockRef block)
{
    size_t slot = (size_t)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);

    slot &= cfg->slot_mask;
    while (cfg->slots[slot] && cfg->names[cfg->slots[slot] - 1] != block)
        slot = (slot + 1) & cfg->slot_mask;
    return slot;
}

uint32_t tarn__cfg_number(const struct tarn__cfg *cfg, LLVMBasicBlockRef block)
{
    return cfg->slots[slot_of(cfg, block)] - 1;
}

static bool number_blocks(struct tarn__cfg *cfg,
                          const struct tarn__function_index *function_index)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)function_index->block_count)
        slots *= 2;
    cfg->slots = TARN__TAKE(&function_index->pruning->arena, uint32_t, slots);
    cfg->slot_mask = slots - 1;
    cfg->names = function_index->blocks;
    if (!cfg->slots)
        return false;
    for (uint32_t b = 0; b < function_index->block_count; b++)
        cfg->slots[slot_of(cfg, function_index->blocks[b])] = b + 1;
    return true;
}

static size_t count_edges(const struct tarn__function_index *function_index)
{
    size_t edges = 0;

    for (uint32_t b = 0; b < function_index->block_count; b++)
        edges +=
            LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(function_index->blocks[b]));
    return edges;
}

static void list_targets(struct tarn__cfg *cfg,
                         const struct tarn__function_index *function_index)
{
    size_t edge = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(function_index->blocks[b]);
        unsigned count = LLVMGetNumSuccessors(end);
        for (unsigned i = 0; i < count; i++)
            cfg->targets[edge++] = tarn__cfg_number(cfg, LLVMGetSuccessor(end, i));
        cfg->first_out[b + 1] = edge;
    }
}

static void list_sources(struct tarn__cfg *cfg)
{
    size_t *fill = cfg->first_in + 1; /* one ahead: the place for a block's next entry */

    for (size_t edge = 0; edge < cfg->edges; edge++)
        cfg->first_in[cfg->targets[edge] + 2]++;
    for (uint32_t b = 0; b < cfg->blocks; b++)
        cfg->first_in[b + 2] += cfg->first_in[b + 1];
    for (uint32_t b = 0; b < cfg->blocks; b++)
        for (size_t edge = cfg->first_out[b]; edge < cfg->first_out[b + 1]; edge++)
            cfg->sources[fill[cfg->targets[edge]]++] = b;
}

bool tarn__cfg_open(struct tarn__cfg *cfg,
                    const struct tarn__function_index *function_index)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    size_t edges = count_edges(function_index);

    *cfg = (struct tarn__cfg){
        .blocks = function_index->block_count,
        .edges = edges,
        .first_out = TARN__TAKE(arena, size_t, (size_t)function_index->block_count + 2),
        .targets = TARN__TAKE(arena, uint32_t, edges),
        .first_in = TARN__TAKE(arena, size_t, (size_t)function_index->block_count + 2),
        .sources = TARN__TAKE(arena, uint32_t, edges),
    };
    if (arena->failed || !number_blocks(cfg, function_index))
        return false;
    list_targets(cfg, function_index);
    list_sources(cfg);
    return true;
}

struct tarn__cfg tarn__cfg_reversed(const struct tarn__cfg *cfg)
{
    return (struct tarn__cfg){
        .blocks = cfg->blocks,
        .edges = cfg->edges,
        .first_out = cfg->first_in,
        .targets = cfg->sources,
        .first_in = cfg->first_out,
        .sources = cfg->targets,
    };
}
