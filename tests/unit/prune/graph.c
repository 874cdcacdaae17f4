/* graph.c -- test dominators, their roots and cycles on small random graphs, by their
 * definitions. */
#include "ir.h"
#include "base/random.h"
#include "prune/cycles.h"
#include "prune/dominators.h"
#include "prune/roots.h"

enum { MOST = 12, EDGES = 4 * MOST, GRAPHS = 3000 };

static struct tarn__arena arena;
static struct tarn__cfg cfg;

/* Set `cfg` to blocks with these `targets`, -1 behind the last of each. */
static void make(uint32_t blocks, int targets[MOST][5])
{
    cfg = (struct tarn__cfg){
        .blocks = blocks,
        .first_out = TARN__TAKE(&arena, size_t, blocks + 2),
        .targets = TARN__TAKE(&arena, uint32_t, EDGES),
        .first_in = TARN__TAKE(&arena, size_t, blocks + 2),
        .sources = TARN__TAKE(&arena, uint32_t, EDGES),
    };
    for (uint32_t b = 0; b < blocks; b++) {
        for (int i = 0; targets[b][i] >= 0; i++)
            cfg.targets[cfg.edges++] = (uint32_t)targets[b][i];
        cfg.first_out[b + 1] = cfg.edges;
    }
    size_t at = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t from = 0; from < blocks; from++)
            for (size_t i = cfg.first_out[from]; i < cfg.first_out[from + 1]; i++)
                if (cfg.targets[i] == b)
                    cfg.sources[at++] = from;
        cfg.first_in[b + 1] = at;
    }
}

static void make_random(uint64_t *seed)
{
    int targets[MOST][5];
    uint32_t blocks = 1 + (uint32_t)tarn__random_below(seed, MOST);

    tarn__arena_reset(&arena);
    for (uint32_t b = 0; b < blocks; b++) {
        int count = (int)tarn__random_below(seed, 4);
        for (int i = 0; i < count; i++)
            targets[b][i] = (int)tarn__random_below(seed, blocks);
        targets[b][count] = -1;
    }
    make(blocks, targets);
}

/* Return whether `to` is reached from `from`, by at least one edge, without entering
 * `without`. */
static bool reaches(const struct tarn__cfg *graph, uint32_t from, uint32_t to,
                    uint32_t without)
{
    bool seen[MOST] = {false};
    uint32_t stack[EDGES + 1], depth = 0;

    stack[depth++] = from;
    while (depth > 0) {
        uint32_t block = stack[--depth];
        for (size_t i = graph->first_out[block]; i < graph->first_out[block + 1]; i++) {
            uint32_t target = graph->targets[i];
            if (target == without)
                continue;
            if (target == to)
                return true;
            if (!seen[target]) {
                seen[target] = true;
                stack[depth++] = target;
            }
        }
    }
    return false;
}

TEST(a_block_dominates_what_is_not_reached_without_it)
{
    uint64_t seed = 1;

    for (int graph = 0; graph < GRAPHS; graph++) {
        struct tarn__tree tree;
        make_random(&seed);
        CHECK(tarn__dominators_find(&tree, &cfg, &arena));
        for (uint32_t b = 0; b < cfg.blocks; b++) {
            bool reached = b == 0 || reaches(&cfg, 0, b, TARN__NONE);
            CHECK_EQUAL(reached, tarn__dominators_tree_reached(&tree, b));
            for (uint32_t above = 0; reached && above < cfg.blocks; above++) {
                bool needed = above == b || above == 0 || !reaches(&cfg, 0, b, above);
                if (b == 0)
                    needed = above == 0;
                if (tarn__dominators_tree_reached(&tree, above))
                    CHECK_EQUAL(needed, tarn__dominators_tree_above(&tree, above, b));
            }
        }
    }
}

static bool is_root(const uint32_t *roots, uint32_t count, uint32_t block)
{
    for (uint32_t i = 0; i < count; i++)
        if (roots[i] == block)
            return true;
    return false;
}

/* Return whether every path from `block` to a root passes `after`. */
static bool always_after(const uint32_t *roots, uint32_t count, uint32_t after,
                         uint32_t block)
{
    for (uint32_t i = 0; i < count; i++)
        if (roots[i] != after &&
            (roots[i] == block || reaches(&cfg, block, roots[i], after)))
            return false;
    return true;
}

TEST(a_block_post_dominates_what_reaches_no_root_without_it)
{
    uint64_t seed = 2;

    for (int graph = 0; graph < GRAPHS; graph++) {
        struct tarn__tree tree;
        uint32_t roots[MOST], count;
        make_random(&seed);
        CHECK(tarn__roots_of_post_dominators(&cfg, &arena, roots, &count));
        CHECK(tarn__dominators_find_post(&tree, &cfg, &arena));
        for (uint32_t b = 0; b < cfg.blocks; b++) {
            CHECK(tarn__dominators_tree_reached(&tree, b));
            for (uint32_t after = 0; after < cfg.blocks; after++)
                CHECK_EQUAL(after == b || always_after(roots, count, after, b),
                            tarn__dominators_tree_above(&tree, after, b));
        }
    }
}

TEST(roots_are_all_ends_and_what_endless_parts_need)
{
    uint64_t seed = 3;

    for (int graph = 0; graph < GRAPHS; graph++) {
        uint32_t roots[MOST], count;
        make_random(&seed);
        CHECK(tarn__roots_of_post_dominators(&cfg, &arena, roots, &count));
        for (uint32_t b = 0; b < cfg.blocks; b++) {
            bool found = is_root(roots, count, b);
            if (cfg.first_out[b] == cfg.first_out[b + 1])
                CHECK(found);
            for (uint32_t i = 0; i < count; i++)
                found |= reaches(&cfg, b, roots[i], TARN__NONE);
            CHECK(found);
        }
    }
}

TEST(the_root_of_an_endless_loop_is_where_a_walk_that_prefers_later_blocks_ends)
{
    int targets[MOST][5] = {{1, -1}, {2, 3, -1}, {1, -1}, {4, -1}, {1, -1}};
    uint32_t roots[MOST], count;

    tarn__arena_reset(&arena);
    make(5, targets);
    CHECK(tarn__roots_of_post_dominators(&cfg, &arena, roots, &count));
    CHECK_EQUAL(1, count);
    CHECK_EQUAL(2, roots[0]); /* 0, 1, 3, 4, and 2 last */
}

TEST(a_block_is_cyclic_if_it_reaches_itself_without_a_stop)
{
    uint64_t seed = 4;

    for (int graph = 0; graph < GRAPHS; graph++) {
        struct tarn__cycles cycles;
        uint32_t stops[MOST] = {0};
        bool cyclic[MOST];
        make_random(&seed);
        CHECK(tarn__cycles_open(&cycles, cfg.blocks, &arena));
        uint32_t stop = (uint32_t)tarn__random_below(&seed, MOST);
        stops[stop] = 1;
        tarn__cycles_find(&cycles, &cfg, stops, cyclic);
        for (uint32_t b = 0; b < cfg.blocks; b++)
            CHECK_EQUAL(b != stop && reaches(&cfg, b, b, stop), cyclic[b]);
    }
    tarn__arena_free(&arena);
}
