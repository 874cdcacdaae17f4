/* adaptors.c -- random stacks of adaptors over random resources, beside a plain model.
 *
 *     model-adaptors [--operations N] [--seed N]
 *
 * Each program of PROGRAM operations draws its resource, one to six adaptors and their
 * options. Blocks are allocated at each level of the stack, by the level itself or by a
 * pointer. A call counts at its level and at each level beneath. The model knows which
 * limiter rejects an allocation, what each adaptor reports, and that a wrong free changes
 * nothing. Program I of a run has the seed --seed + I, so a long run can be split: the last
 * line has the seed that comes next.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>
#include "run.h"

enum {
    LEVELS = 6,
    BLOCKS = 200,
    PROGRAM = 5000,
    SETS = 8,
    CHECK_EVERY = 16,
    STREAMS = 3
};
enum kind { LIMITER, COUNTER, TRACKER, LOGGER, PREFETCHER, CALLBACK, KINDS };

struct level {
    enum kind kind;
    tarn_resource *resource;
    size_t limit, used;       /* of a limiter */
    tarn_counts sets[SETS];   /* of a counter */
    unsigned set_count;       /* of them */
    size_t bytes, blocks;     /* live, allocated at this level or above it */
    uint64_t called, expects; /* calls of a failure callback */
    uint64_t rows, expected_rows;
};

struct block {
    tarn_device_ptr address;
    size_t bytes;
    unsigned level;
    tarn_pointer *pointer, *view; /* NULL: raw */
};

static struct {
    tarn_resource *base;
    struct level levels[LEVELS];
    unsigned height;
    struct block blocks[BLOCKS];
    unsigned count;
    tarn_stream streams[STREAMS];
    uint64_t refused, wrong;
} model;

static void need(tarn_status status, const char *what)
{
    if (status != TARN_OK)
        fail("%s gives %s", what, tarn_status_name(status));
}

/* --- the model ------------------------------------------------------------------------- */

static size_t charge_of(size_t bytes)
{
    return (bytes + TARN_ALIGNMENT - 1) / TARN_ALIGNMENT * TARN_ALIGNMENT;
}

static void count(struct level *level, int64_t bytes, int sign)
{
    for (unsigned i = 0; i < level->set_count; i++) {
        tarn_counts *set = &level->sets[i];
        set->current_bytes += sign * bytes;
        set->current_count += sign;
        if (sign < 0)
            continue;
        set->total_bytes += bytes;
        set->total_count++;
        if (set->peak_bytes < set->current_bytes)
            set->peak_bytes = set->current_bytes;
        if (set->peak_count < set->current_count)
            set->peak_count = set->current_count;
    }
}

/* Note a block that came to life (sign 1) or ended (-1) at a level. */
static void note(unsigned top, size_t bytes, int sign)
{
    for (unsigned i = 0; i <= top; i++) {
        struct level *level = &model.levels[i];
        level->used += sign > 0 ? charge_of(bytes) : -charge_of(bytes);
        level->bytes += sign > 0 ? bytes : -bytes;
        level->blocks += sign > 0 ? 1 : -(size_t)1;
        level->expected_rows++;
        count(level, (int64_t)bytes, sign);
    }
}

/* Return the highest level at or below `top` whose limiter rejects `bytes`, or -1. */
static int rejecting_level(unsigned top, size_t bytes)
{
    for (int i = (int)top; i >= 0; i--) {
        const struct level *level = &model.levels[i];
        if (level->kind == LIMITER && charge_of(bytes) > level->limit - level->used)
            return i;
    }
    return -1;
}

/* Note an attempt that the limiter of level `at` rejected. */
static void note_rejected(unsigned top, int at)
{
    for (int i = (int)top; i > at; i--) {
        model.levels[i].expected_rows++;
        model.levels[i].expects++;
    }
    model.refused++;
}

/* --- the stack ------------------------------------------------------------------------- */

static tarn_status on_failure(void *data, size_t bytes, bool *again_out)
{
    struct level *level = data;

    (void)bytes;
    (void)again_out;
    level->called++;
    return TARN_OK;
}

/* Count the rows of a log. Each ends with a newline. */
static bool on_text(void *data, const char *bytes, size_t length)
{
    struct level *level = data;

    for (size_t i = 0; i < length; i++)
        level->rows += bytes[i] == '\n';
    return true;
}

static tarn_status wrap_logger(struct level *level, tarn_resource *below)
{
    tarn_trace_writer *writer;
    tarn_trace_format format = draw(2) ? TARN_TRACE_RMM : TARN_TRACE_NBEP7;

    need(tarn_trace_writer_create(on_text, level, format, &writer), "a writer");
    need(tarn_trace_flush(writer), "a flush");
    tarn_status status = tarn_logger_create(below, writer, &level->resource);
    need(tarn_trace_writer_release(writer), "release of a writer");
    return status;
}

static void wrap(struct level *level, tarn_resource *below)
{
    tarn_tracker_options options = {.size = sizeof options,
                                    .stack_depth = (unsigned)draw(3)};
    tarn_status status = TARN_OK;

    memset(level, 0, sizeof *level);
    level->kind = (enum kind)draw(KINDS);
    level->set_count = 1;
    level->limit = draw(4) ? draw(1 << 20) : SIZE_MAX;
    switch (level->kind) {
    case LIMITER:
        status = tarn_limiter_create(below, level->limit, &level->resource);
        break;
    case COUNTER:
        status = tarn_counter_create(below, &level->resource);
        break;
    case TRACKER:
        status = tarn_tracker_create(below, &options, &level->resource);
        break;
    case LOGGER:
        status = wrap_logger(level, below);
        break;
    case PREFETCHER:
        status = tarn_prefetcher_create(below, &level->resource);
        break;
    default:
        status = tarn_failure_callback_create(below, on_failure, level, NULL,
                                              &level->resource);
    }
    need(status, "an adaptor");
}

static void make_base(void)
{
    const tarn_binning_options bins = {
        .size = sizeof bins, .min_size_exponent = 9, .max_size_exponent = 14};
    tarn_resource *upstream = NULL;

    switch (draw(7)) {
    case 0:
        need(tarn_cuda_create(0, &model.base), "cuda");
        return;
    case 1:
        need(tarn_async_create(0, NULL, &model.base), "async");
        return;
    case 2:
        need(tarn_managed_create(0, &model.base), "managed");
        return;
    case 3:
        need(tarn_pinned_create(0, &model.base), "pinned");
        return;
    case 4:
        need(tarn_pool_create(0, NULL, NULL, &model.base), "pool");
        return;
    case 5:
        need(tarn_pool_create(0, NULL, NULL, &upstream), "pool");
        need(tarn_binning_create(upstream, &bins, &model.base), "binning");
        break;
    default:
        need(tarn_pool_create(0, NULL, NULL, &upstream), "pool");
        need(tarn_guard_create(upstream, NULL, &model.base), "guard");
    }
    need(tarn_resource_release(upstream), "release");
}

/* --- operations ------------------------------------------------------------------------ */

static tarn_stream some_stream(void)
{
    return model.streams[draw(STREAMS)];
}

static void allocate(void)
{
    struct block block = {.bytes = 1 + draw((uint64_t)1 << (1 + draw(16))),
                          .level = (unsigned)draw(model.height)};
    tarn_resource *resource = model.levels[block.level].resource;
    bool is_pointer = draw(3) == 0;
    int at = rejecting_level(block.level, block.bytes);
    tarn_status status;

    if (is_pointer)
        status =
            tarn_pointer_allocate(resource, block.bytes, some_stream(), &block.pointer);
    else
        status = tarn_resource_allocate(resource, block.bytes, draw(2) ? 256 : 0,
                                        some_stream(), &block.address);
    if ((at >= 0) != (status == TARN_OUT_OF_MEMORY) || (at < 0 && status != TARN_OK))
        fail("%zu bytes at level %u give %s, the limiter of level %d", block.bytes,
             block.level, tarn_status_name(status), at);
    if (status != TARN_OK) {
        if (block.address || block.pointer)
            fail("an output was touched");
        note_rejected(block.level, at);
        return;
    }
    if (is_pointer)
        block.address = tarn_pointer_address(block.pointer);
    for (unsigned i = 0; i < model.count; i++)
        if (block.address < model.blocks[i].address + model.blocks[i].bytes &&
            model.blocks[i].address < block.address + block.bytes)
            fail("0x%llx is in another block", block.address);
    note(block.level, block.bytes, 1);
    model.blocks[model.count++] = block;
}

static void free_one(void)
{
    unsigned at = (unsigned)draw(model.count);
    struct block *block = &model.blocks[at];

    if (block->pointer) {
        need(tarn_pointer_release_checked(block->pointer), "release of a pointer");
        block->pointer = NULL;
        if (block->view)
            need(tarn_pointer_release_checked(block->view), "release of a view");
    } else {
        need(tarn_resource_deallocate(model.levels[block->level].resource, block->address,
                                      block->bytes, 0, some_stream()),
             "a free");
    }
    note(block->level, block->bytes, -1);
    *block = model.blocks[--model.count];
}

/* Make a view of a pointer. It keeps the memory when the pointer has ended. */
static void view_one(void)
{
    struct block *block = &model.blocks[draw(model.count)];

    if (!block->pointer || block->view)
        return;
    size_t offset = draw(block->bytes + 1);
    tarn_pointer *out = NULL;
    if (tarn_pointer_view(block->pointer, offset, block->bytes - offset + 1, &out) !=
            TARN_INVALID_ARGUMENT ||
        out)
        fail("a view behind the end is accepted");
    need(tarn_pointer_view(block->pointer, offset, block->bytes - offset, &block->view),
         "a view");
    if (tarn_pointer_use_count(block->pointer) != 2)
        fail("%zu references", tarn_pointer_use_count(block->pointer));
}

static void free_wrongly(void)
{
    struct block block = model.blocks[draw(model.count)];

    if (block.pointer)
        return;
    if (draw(2))
        block.bytes += 1 + draw(5000);
    else
        block.address = (1 + draw(1 << 20)) * 4096; /* nothing is in the first 4 GiB */
    tarn_status status = tarn_resource_deallocate(
        model.levels[block.level].resource, block.address, block.bytes, 0, some_stream());
    if (status != TARN_INVALID_ARGUMENT)
        fail("a wrong free of %zu bytes gives %s", block.bytes, tarn_status_name(status));
    model.wrong++;
}

static void push_or_pop(void)
{
    struct level *level = &model.levels[draw(model.height)];
    tarn_counts seen;
    const tarn_counts *top = &level->sets[level->set_count - 1];

    if (level->kind != COUNTER) {
        if (tarn_counter_push(level->resource, &seen) != TARN_INVALID_ARGUMENT)
            fail("another adaptor is taken for a counter");
        return;
    }
    if (draw(2) && level->set_count < SETS) {
        need(tarn_counter_push(level->resource, &seen), "push");
        if (memcmp(&seen, top, sizeof seen) != 0)
            fail("push returns other counts");
        memset(&level->sets[level->set_count++], 0, sizeof seen);
    } else if (level->set_count == 1) {
        if (tarn_counter_pop(level->resource, &seen) != TARN_INVALID_ARGUMENT)
            fail("the lowest set can be popped");
    } else {
        need(tarn_counter_pop(level->resource, &seen), "pop");
        if (memcmp(&seen, top, sizeof seen) != 0)
            fail("pop returns other counts");
        level->set_count--;
    }
}

static void make_current(void)
{
    tarn_resource *chosen = model.levels[draw(model.height)].resource, *before, *seen;

    need(tarn_device_set_resource(0, chosen, &before), "set");
    need(tarn_device_resource(0, &seen), "get");
    if (seen != chosen || !tarn_device_resource_is(0, chosen))
        fail("the current resource is another one");
    need(tarn_resource_release(seen), "release");
    need(tarn_device_set_resource(0, before, &seen), "set");
    if (seen != chosen)
        fail("the previous resource is another one");
    need(tarn_resource_release(seen), "release");
    need(tarn_resource_release(before), "release");
}

/* --- comparisons ------------------------------------------------------------------------ */

static bool on_tracked(void *data, const tarn_tracked_block *block)
{
    size_t *sum = data;

    *sum += block->bytes;
    return true;
}

static void compare(struct level *level)
{
    size_t bytes = 0, sum = 0;
    tarn_counts counts;

    if (tarn_resource_live_blocks(level->resource) < level->blocks)
        fail("%zu live blocks, not %zu", tarn_resource_live_blocks(level->resource),
             level->blocks);
    if (level->kind == LIMITER) {
        need(tarn_limiter_used_bytes(level->resource, &bytes), "used bytes");
        if (bytes != level->used)
            fail("a limiter has charged %zu, not %zu", bytes, level->used);
    } else if (level->kind == COUNTER) {
        need(tarn_counter_read(level->resource, &counts), "read");
        if (memcmp(&counts, &level->sets[level->set_count - 1], sizeof counts) != 0)
            fail("a counter has %" PRId64 " bytes, not %zu", counts.current_bytes,
                 level->bytes);
    } else if (level->kind == TRACKER) {
        need(tarn_tracker_bytes(level->resource, &bytes), "bytes");
        need(tarn_tracker_visit(level->resource, on_tracked, &sum), "visit");
        if (bytes != level->bytes || sum != bytes)
            fail("a tracker has %zu and %zu bytes, not %zu", bytes, sum, level->bytes);
    } else if (level->kind == CALLBACK && level->called != level->expects) {
        fail("a callback ran %" PRIu64 " times, not %" PRIu64, level->called,
             level->expects);
    }
}

static void step(void)
{
    unsigned kind = (unsigned)draw(100);

    if (kind < 2)
        push_or_pop();
    else if (kind < 3)
        make_current();
    else if (kind < 8 && model.count > 0)
        free_wrongly();
    else if (kind < 12 && model.count > 0)
        view_one();
    else if (model.count > 0 && (model.count == BLOCKS ||
                                 draw((uint64_t)2 * BLOCKS) < model.count + BLOCKS / 2))
        free_one();
    else
        allocate();
    if (run.operation % CHECK_EVERY == 0)
        for (unsigned i = 0; i < model.height; i++)
            compare(&model.levels[i]);
}

static void end_stack(void)
{
    while (model.count > 0)
        free_one();
    for (unsigned i = 0; i < model.height; i++)
        compare(&model.levels[i]);
    for (unsigned i = model.height; i-- > 0;) {
        struct level *level = &model.levels[i];
        need(tarn_resource_release(level->resource), "release");
        if (level->kind == LOGGER && level->rows != level->expected_rows + 1)
            fail("a log has %" PRIu64 " lines, not %" PRIu64, level->rows,
                 level->expected_rows + 1); /* with the header */
    }
    need(tarn_resource_release(model.base), "release");
    if (tarn_pointer_deferred_count() != 0)
        fail("%zu frees are deferred", tarn_pointer_deferred_count());
}

static void run_program(uint64_t operations)
{
    run.random = run.seed;
    make_base();
    model.height = 1 + (unsigned)draw(LEVELS);
    for (unsigned i = 0; i < model.height; i++)
        wrap(&model.levels[i], i ? model.levels[i - 1].resource : model.base);
    for (uint64_t i = 0; i < operations; i++, run.operation++)
        step();
    end_stack();
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"operations", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    uint64_t operations = 500000;
    int option;

    run.subject = "adaptors";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            return 2;
        *(option == 'n' ? &operations : &run.seed) = strtoull(optarg, NULL, 10);
    }
    need(tarn_stream_create(0, true, &model.streams[1]), "stream");
    need(tarn_stream_create(0, false, &model.streams[2]), "stream");
    while (run.operation < operations) {
        run_program(PROGRAM);
        run.seed++;
    }
    printf("%" PRIu64 " operations, %" PRIu64 " refused, %" PRIu64
           " wrong frees; the next seed is %" PRIu64 "\n",
           run.operation, model.refused, model.wrong, run.seed);
    return 0;
}
