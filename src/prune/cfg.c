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

static bool number_blocks(struct tarn__cfg *cfg, const struct tarn__view *view)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)view->block_count)
        slots *= 2;
    cfg->slots = TARN__TAKE(&view->pruning->arena, uint32_t, slots);
    cfg->slot_mask = slots - 1;
    cfg->names = view->blocks;
    if (!cfg->slots)
        return false;
    for (uint32_t b = 0; b < view->block_count; b++)
        cfg->slots[slot_of(cfg, view->blocks[b])] = b + 1;
    return true;
}

static size_t count_edges(const struct tarn__view *view)
{
    size_t edges = 0;

    for (uint32_t b = 0; b < view->block_count; b++)
        edges += LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(view->blocks[b]));
    return edges;
}

static void list_targets(struct tarn__cfg *cfg, const struct tarn__view *view)
{
    size_t edge = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(view->blocks[b]);
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

bool tarn__cfg_open(struct tarn__cfg *cfg, const struct tarn__view *view)
{
    struct tarn__arena *arena = &view->pruning->arena;
    size_t edges = count_edges(view);

    *cfg = (struct tarn__cfg){
        .blocks = view->block_count,
        .edges = edges,
        .first_out = TARN__TAKE(arena, size_t, (size_t)view->block_count + 2),
        .targets = TARN__TAKE(arena, uint32_t, edges),
        .first_in = TARN__TAKE(arena, size_t, (size_t)view->block_count + 2),
        .sources = TARN__TAKE(arena, uint32_t, edges),
    };
    if (arena->failed || !number_blocks(cfg, view))
        return false;
    list_targets(cfg, view);
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
