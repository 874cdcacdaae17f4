/* cfg.c -- where control goes from each block of a function, and where it comes from. */
#include "prune/cfg.h"

/* From a block's address to its number; open addressing, at most half full. */
struct numbers {
    uint32_t *slots; /* number + 1, or 0 */
    size_t mask;
    const LLVMBasicBlockRef *blocks;
};

static size_t slot_of(const struct numbers *numbers, LLVMBasicBlockRef block)
{
    size_t slot = (size_t)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);

    slot &= numbers->mask;
    while (numbers->slots[slot] && numbers->blocks[numbers->slots[slot] - 1] != block)
        slot = (slot + 1) & numbers->mask;
    return slot;
}

static bool number_blocks(struct numbers *numbers, const struct tarn__view *view)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)view->block_count)
        slots *= 2;
    numbers->slots = TARN__TAKE(&view->pruning->arena, uint32_t, slots);
    numbers->mask = slots - 1;
    numbers->blocks = view->blocks;
    if (!numbers->slots)
        return false;
    for (uint32_t b = 0; b < view->block_count; b++)
        numbers->slots[slot_of(numbers, view->blocks[b])] = b + 1;
    return true;
}

static size_t count_edges(const struct tarn__view *view)
{
    size_t edges = 0;

    for (uint32_t b = 0; b < view->block_count; b++)
        edges += LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(view->blocks[b]));
    return edges;
}

static void list_targets(struct tarn__cfg *cfg, const struct tarn__view *view,
                         const struct numbers *numbers)
{
    size_t edge = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(view->blocks[b]);
        unsigned count = LLVMGetNumSuccessors(end);
        for (unsigned i = 0; i < count; i++) {
            size_t slot = slot_of(numbers, LLVMGetSuccessor(end, i));
            cfg->targets[edge++] = numbers->slots[slot] - 1;
        }
        cfg->first_out[b + 1] = edge;
    }
}

static void list_sources(struct tarn__cfg *cfg)
{
    size_t *fill = cfg->first_in + 1; /* one ahead: where the next of a block goes */

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
    struct numbers numbers;
    size_t edges = count_edges(view);

    *cfg = (struct tarn__cfg){
        .blocks = view->block_count,
        .edges = edges,
        .first_out = TARN__TAKE(arena, size_t, (size_t)view->block_count + 2),
        .targets = TARN__TAKE(arena, uint32_t, edges),
        .first_in = TARN__TAKE(arena, size_t, (size_t)view->block_count + 2),
        .sources = TARN__TAKE(arena, uint32_t, edges),
    };
    if (arena->failed || !number_blocks(&numbers, view))
        return false;
    list_targets(cfg, view, &numbers);
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
