/* works.h -- generated work of many kinds, for tests of plans. */
#ifndef TARN_TEST_WORKS_H
#define TARN_TEST_WORKS_H

#include "test.h"
#include "base/random.h"
#include "plan/check.h"
#include "plan/layout.h"
#include "plan/make.h"
#include "plan/plan.h"
#include <stdlib.h>

enum { WORK_BLOCKS = 1 << 16, KIB = 1024, MIB_ = 1024 * 1024 };

/* Work that is being generated: its blocks so far, in a plan without offsets. */
struct work {
    tarn_plan *plan;
    uint64_t seed, live;
    unsigned streams; /* to spread over */
};

static inline struct work work_begin(uint64_t seed, unsigned streams)
{
    struct work work = {.seed = seed, .streams = streams};

    CHECK_OK(tarn__make_empty(WORK_BLOCKS, &work.plan));
    work.plan->streams = streams;
    work.plan->threads = 1;
    return work;
}

static inline uint64_t below(struct work *work, uint64_t limit)
{
    return tarn__random_below(&work->seed, limit);
}

/* A size from `least` to about `least << spread`, small ones more often. */
static inline uint64_t skewed(struct work *work, uint64_t least, unsigned spread)
{
    uint64_t scale = least << below(work, spread + 1);

    return scale + below(work, scale);
}

static inline uint32_t get(struct work *work, uint64_t bytes, uint32_t stream)
{
    tarn_plan *plan = work->plan;

    CHECK(plan->count < WORK_BLOCKS);
    plan->slots[plan->count] =
        (struct tarn__plan_slot){.start = plan->operations++,
                                 .end = UINT32_MAX,
                                 .quanta = (uint32_t)((bytes + 511) / 512),
                                 .stream = stream,
                                 .free_stream = stream};
    work->live += bytes;
    if (work->live > plan->peak_live_bytes)
        plan->peak_live_bytes = work->live;
    return (uint32_t)plan->count++;
}

static inline void drop_on(struct work *work, uint32_t block, uint32_t stream)
{
    struct tarn__plan_slot *slot = &work->plan->slots[block];

    CHECK_EQUAL(UINT32_MAX, slot->end);
    slot->end = work->plan->operations++;
    slot->free_stream = stream;
    work->live -= (uint64_t)slot->quanta * 512 < work->live ? (uint64_t)slot->quanta * 512
                                                            : work->live;
}

static inline void drop(struct work *work, uint32_t block)
{
    drop_on(work, block, work->plan->slots[block].stream);
}

/* What is live stays so to the end. */
static inline tarn_plan *work_end(struct work *work)
{
    tarn_plan *plan = work->plan;
    uint64_t bound;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].end == UINT32_MAX)
            plan->slots[i].end = plan->operations;
    CHECK(tarn__layout_bound(plan, &bound));
    plan->peak_live_bytes = bound * 512; /* in quanta: the bound of the height */
    return plan;
}

/* --- kinds ------------------------------------------------------------------------------ */

/* Queries: columns are read, joined and reduced; each step frees its inputs. */
static inline void make_etl(struct work *work)
{
    uint32_t columns[64][8];
    uint64_t bytes[64];

    for (unsigned s = 0; s < work->streams; s++)
        for (int c = 0; c < 8; c++) {
            bytes[s] = skewed(work, MIB_, 6);
            columns[s][c] = get(work, bytes[s], s);
        }
    for (int step = 0; step < 600; step++) {
        unsigned s = (unsigned)below(work, work->streams);
        uint64_t rows = skewed(work, 256 * KIB, 8);
        uint32_t table = get(work, rows, s), map = get(work, rows / 8 + 1, s);
        for (int c = 0; c < 8; c++) {
            uint32_t result = get(work, rows, s);
            drop(work, columns[s][c]);
            columns[s][c] = result;
        }
        drop(work, map);
        drop(work, table);
    }
}

/* Joins on all streams at once, with hash tables of skewed sizes. */
static inline void make_joins(struct work *work)
{
    uint32_t live[64][24];
    unsigned counts[64] = {0};

    for (int step = 0; step < 8000; step++) {
        unsigned s = (unsigned)below(work, work->streams);
        if (counts[s] == 24 || (counts[s] > 0 && below(work, 2) == 0)) {
            unsigned which = (unsigned)below(work, counts[s]);
            drop(work, live[s][which]);
            live[s][which] = live[s][--counts[s]];
        } else {
            live[s][counts[s]++] = get(work, skewed(work, 4 * KIB, 14), s);
        }
    }
}

/* A server of a language model: the state of each request grows by copies. */
static inline void make_serving(struct work *work)
{
    enum { SLOTS = 24 };
    uint32_t state[SLOTS];
    uint64_t tokens[SLOTS], end[SLOTS];

    get(work, 2000ull * MIB_, 0);
    for (int i = 0; i < SLOTS; i++) {
        tokens[i] = 1 + below(work, 800);
        end[i] = tokens[i] + below(work, 400);
        state[i] = get(work, tokens[i] * 128 * KIB, (uint32_t)i % work->streams);
    }
    for (int step = 0; step < 4000; step++) {
        unsigned i = (unsigned)below(work, SLOTS);
        uint32_t s = i % work->streams;
        uint32_t scratch = get(work, 16 * MIB_ + below(work, 4) * MIB_, s);
        if (tokens[i] >= end[i]) {
            drop(work, state[i]);
            tokens[i] = 1 + below(work, 800);
            end[i] = tokens[i] + below(work, 400);
            state[i] = get(work, tokens[i] * 128 * KIB, s);
        } else {
            tokens[i] += 16;
            uint32_t grown = get(work, tokens[i] * 128 * KIB, s);
            drop(work, state[i]);
            state[i] = grown;
        }
        drop(work, scratch);
    }
}

/* Training: weights stay, activations are kept for the way back, gradients are short. */
static inline void make_training(struct work *work)
{
    enum { LAYERS = 48 };
    uint32_t kept[LAYERS][3];

    for (int layer = 0; layer < LAYERS; layer++)
        get(work, 24ull * MIB_, 0);
    for (int step = 0; step < 40; step++) {
        uint64_t batch = 1 + below(work, 3);
        for (int layer = 0; layer < LAYERS; layer++) {
            uint32_t workspace = get(work, skewed(work, MIB_, 4), 0);
            for (int i = 0; i < 3; i++)
                kept[layer][i] = get(work, batch * (uint64_t)(2 + i) * MIB_, 0);
            drop(work, workspace);
        }
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            uint32_t s = work->streams > 1 ? (uint32_t)layer % work->streams : 0;
            uint32_t gradient = get(work, 24ull * MIB_, s), bias = get(work, 8 * KIB, s);
            for (int i = 2; i >= 0; i--)
                drop(work, kept[layer][i]);
            drop(work, bias);
            drop(work, gradient);
        }
    }
}

/* Images: decoded on some streams, freed on the last one. */
static inline void make_images(struct work *work)
{
    enum { QUEUE = 64 };
    uint32_t queue[QUEUE], last = work->streams - 1;
    unsigned count = 0;

    for (int step = 0; step < 6000; step++) {
        uint32_t s = (uint32_t)below(work, last ? last : 1);
        if (count == QUEUE || (count > 8 && below(work, 2) == 0)) {
            unsigned which = (unsigned)below(work, 8);
            drop_on(work, queue[which], last);
            queue[which] = queue[--count];
        } else {
            uint32_t scratch = get(work, skewed(work, 64 * KIB, 3), s);
            queue[count++] = get(work, skewed(work, 512 * KIB, 5), s);
            drop(work, scratch);
        }
    }
}

/* Vectors that grow by half. */
static inline void make_vectors(struct work *work)
{
    enum { VECTORS = 40 };
    uint32_t vectors[VECTORS];
    uint64_t bytes[VECTORS];

    for (int i = 0; i < VECTORS; i++) {
        bytes[i] = KIB;
        vectors[i] = get(work, bytes[i], (uint32_t)i % work->streams);
    }
    for (int step = 0; step < 6000; step++) {
        unsigned i = (unsigned)below(work, VECTORS);
        bytes[i] =
            bytes[i] > 256ull * MIB_ ? KIB + below(work, KIB) : bytes[i] + bytes[i] / 2;
        uint32_t grown = get(work, bytes[i], i % work->streams);
        drop(work, vectors[i]);
        vectors[i] = grown;
    }
}

/* Thousands of small blocks that come and go together, among a few large ones. */
static inline void make_small(struct work *work)
{
    static uint32_t blocks[2000];

    for (int round = 0; round < 8; round++) {
        uint32_t s = (uint32_t)below(work, work->streams);
        uint32_t large = get(work, 8ull * MIB_ + below(work, MIB_), s);
        for (int i = 0; i < 2000; i++)
            blocks[i] = get(work, 1 + below(work, 16 * KIB), s);
        for (int i = 0; i < 2000; i++)
            drop(work, blocks[i]);
        drop(work, large);
    }
}

/* A cache of many equal blocks, each of which is replaced at any time. Between them, there
 * are activations. */
static inline void make_cache(struct work *work)
{
    enum { BLOCKS = 2000 };
    static uint32_t blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = get(work, 512 * KIB, (uint32_t)i % work->streams);
    for (int step = 0; step < 12000; step++) {
        unsigned i = (unsigned)below(work, BLOCKS);
        uint32_t s = i % work->streams;
        if (step % 8 == 0)
            drop(work, get(work, (1 + below(work, 24)) * MIB_, s));
        drop(work, blocks[i]);
        blocks[i] = get(work, 512 * KIB, s);
    }
}

/* Anything: sizes, lives and streams at random, and some work without a stream. */
static inline void make_random(struct work *work)
{
    uint32_t live[512];
    unsigned count = 0;

    for (int step = 0; step < 5000; step++) {
        uint32_t s = below(work, 40) == 0 && work->streams > 1
                         ? TARN__PLAN_NO_STREAM
                         : (uint32_t)below(work, work->streams);
        if (count == 512 || (count > 0 && below(work, 100) < 48)) {
            unsigned which = (unsigned)below(work, count);
            drop_on(work, live[which], s);
            live[which] = live[--count];
        } else {
            live[count++] = get(work, skewed(work, 1, 24), s);
        }
    }
}

struct kind {
    const char *name;
    void (*make)(struct work *work);
    /* The worst height : peak of the seeds of the test, in thousandths: on one stream, and
     * on several. */
    unsigned one, several;
};

static const struct kind kinds[] = {{"etl", make_etl, 1005, 1090},
                                    {"joins", make_joins, 1005, 1150},
                                    {"serving", make_serving, 1150, 1160},
                                    {"training", make_training, 1005, 1010},
                                    {"images", make_images, 1030, 1100},
                                    {"vectors", make_vectors, 1120, 1150},
                                    {"small blocks", make_small, 1001, 1002},
                                    {"cache", make_cache, 1005, 1020},
                                    {"random", make_random, 1090, 1170}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* The plan of some work, laid out; the caller releases it. */
static inline tarn_plan *laid_out(const struct kind *kind, uint64_t seed,
                                  unsigned streams, const tarn_plan_options *options)
{
    struct work work = work_begin(seed, streams);

    kind->make(&work);
    tarn_plan *plan = work_end(&work);
    CHECK_OK(tarn__make_layout(plan, options));
    return plan;
}

#endif
