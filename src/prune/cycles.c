/* cycles.c -- which blocks lie on a cycle: Tarjan's algorithm, without recursion.
 *
 * Blocks are numbered in the order of discovery. A block that leads back to no lower
 * number than its own closes a strongly connected component: there every block leads to
 * every other. It is a cycle if it has two blocks, or one that leads to itself.
 */
#include "prune/cycles.h"
#include <string.h>

struct search {
    struct tarn__cycles *at;
    const struct tarn__cfg *cfg;
    const uint32_t *stops;
    bool *cyclic;
    uint32_t count; /* numbers given */
    size_t path_length, open_count;
};

bool tarn__cycles_open(struct tarn__cycles *cycles, uint32_t blocks,
                       struct tarn__arena *arena)
{
    *cycles = (struct tarn__cycles){
        .number = TARN__TAKE(arena, uint32_t, blocks),
        .lowest = TARN__TAKE(arena, uint32_t, blocks),
        .path = TARN__TAKE(arena, uint32_t, blocks),
        .on_path = TARN__TAKE(arena, bool, blocks),
        .open = TARN__TAKE(arena, uint32_t, blocks),
        .next = TARN__TAKE(arena, size_t, blocks),
    };
    return !arena->failed;
}

static void enter(struct search *search, uint32_t block)
{
    struct tarn__cycles *at = search->at;

    at->number[block] = at->lowest[block] = ++search->count;
    at->next[block] = search->cfg->first_out[block];
    at->path[search->path_length++] = block;
    at->on_path[block] = true;
    at->open[search->open_count++] = block;
}

static void lower(struct search *search, uint32_t block, uint32_t number)
{
    if (number < search->at->lowest[block])
        search->at->lowest[block] = number;
}

/* Remove the component that `block` closes from the path. */
static void close_part(struct search *search, uint32_t block)
{
    struct tarn__cycles *at = search->at;
    bool several = at->path[search->path_length - 1] != block;
    uint32_t member;

    do {
        member = at->path[--search->path_length];
        at->on_path[member] = false;
        search->cyclic[member] |= several;
    } while (member != block);
}

static void leave(struct search *search, uint32_t block)
{
    struct tarn__cycles *at = search->at;

    search->open_count--;
    if (at->lowest[block] == at->number[block])
        close_part(search, block);
    if (search->open_count > 0)
        lower(search, at->open[search->open_count - 1], at->lowest[block]);
}

static void look_at(struct search *search, uint32_t block, uint32_t target)
{
    struct tarn__cycles *at = search->at;

    if (search->stops[target])
        return;
    if (target == block)
        search->cyclic[block] = true;
    if (at->number[target] == 0)
        enter(search, target);
    else if (at->on_path[target])
        lower(search, block, at->number[target]);
}

void tarn__cycles_find(struct tarn__cycles *cycles, const struct tarn__cfg *cfg,
                       const uint32_t *stops, bool *cyclic)
{
    struct search search = {cycles, cfg, stops, cyclic, 0, 0, 0};

    memset(cycles->number, 0, cfg->blocks * sizeof *cycles->number);
    memset(cyclic, 0, cfg->blocks * sizeof *cyclic);
    for (uint32_t b = 0; b < cfg->blocks; b++) {
        if (stops[b] || cycles->number[b])
            continue;
        enter(&search, b);
        while (search.open_count > 0) {
            uint32_t block = cycles->open[search.open_count - 1];
            if (cycles->next[block] == cfg->first_out[block + 1])
                leave(&search, block);
            else
                look_at(&search, block, cfg->targets[cycles->next[block]++]);
        }
    }
}
