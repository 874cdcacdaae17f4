/* pictures.c -- the blocks of a plan by time and address, and those of the run beside it. */
#include "pictures.h"
#include "memory.h"
#include <stdlib.h>

static const uint64_t GAP_BYTES = 64 << 20;
static const uint64_t QUANTUM = 512; /* of a plan */

/* --- the largest blocks ------------------------------------------------------------- */

static double area_of(const struct picture_block *block)
{
    return (double)block->bytes * (double)(block->end - block->start);
}

/* Of two blocks of one area the later one is the smaller. */
static bool is_smaller(const struct picture_block *a, const struct picture_block *b)
{
    double first = area_of(a), second = area_of(b);

    if (first < second || second < first)
        return first < second;
    return a->start > b->start || (a->start == b->start && a->address > b->address);
}

static void swap(struct picture_block *a, struct picture_block *b)
{
    struct picture_block held = *a;

    *a = *b;
    *b = held;
}

/* Move the first block down to its place in the heap. */
static void sink(struct picture *picture)
{
    size_t at = 0;

    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < picture->count &&
                is_smaller(&picture->blocks[child], &picture->blocks[least]))
                least = child;
        if (least == at)
            return;
        swap(&picture->blocks[at], &picture->blocks[least]);
        at = least;
    }
}

/* Move the last block up to its place in the heap. */
static void rise(struct picture *picture)
{
    for (size_t at = picture->count - 1; at > 0; at = (at - 1) / 2) {
        if (!is_smaller(&picture->blocks[at], &picture->blocks[(at - 1) / 2]))
            return;
        swap(&picture->blocks[at], &picture->blocks[(at - 1) / 2]);
    }
}

static void add(struct picture *picture, const struct picture_block *block)
{
    picture->all++;
    picture->area += area_of(block);
    if (picture->count < PICTURES_BLOCKS) {
        picture->blocks[picture->count++] = *block;
        rise(picture);
    } else if (is_smaller(&picture->blocks[0], block)) {
        picture->blocks[0] = *block;
        sink(picture);
    }
}

/* --- the run ------------------------------------------------------------------------ */

void pictures_init(struct pictures *pictures, const tarn_plan *plan, const char *name)
{
    *pictures = (struct pictures){
        .name = name, .plan = plan, .summary = {.size = sizeof pictures->summary}};
    tarn_plan_summarize(plan, &pictures->summary);
    pictures->nodes =
        memory_new((size_t)pictures->summary.blocks + 1, sizeof *pictures->nodes);
    pictures->of_plan.blocks =
        memory_new(PICTURES_BLOCKS, sizeof *pictures->of_plan.blocks);
    pictures->of_run.blocks =
        memory_new(PICTURES_BLOCKS, sizeof *pictures->of_run.blocks);
}

/* The n-th allocation of the run is the n-th block of the plan, if the sizes agree. */
uint64_t pictures_begin(struct pictures *pictures, uint64_t bytes, uint32_t node)
{
    struct picture *run = &pictures->of_run;
    tarn_plan_block planned = {.size = sizeof planned};
    uint64_t index = run->started++;

    if (index < pictures->summary.blocks &&
        tarn_plan_get_block(pictures->plan, index, &planned) == TARN_OK &&
        planned.bytes >= bytes && planned.bytes - bytes < QUANTUM)
        pictures->nodes[index] = node;
    return run->operations++;
}

void pictures_end(struct pictures *pictures, const struct picture_block *block)
{
    struct picture_block ended = *block;

    ended.end = pictures->of_run.operations++;
    add(&pictures->of_run, &ended);
}

void pictures_keep(struct pictures *pictures, const struct picture_block *block)
{
    struct picture_block kept = *block;

    kept.end = pictures->of_run.operations;
    add(&pictures->of_run, &kept);
}

/* --- the whole ---------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct picture_block *first = a, *second = b;

    return (first->address > second->address) - (first->address < second->address);
}

static int by_start(const void *a, const void *b)
{
    const struct picture_block *first = a, *second = b;

    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return by_address(a, b);
}

static uint64_t end_of(const struct picture_block *block)
{
    return block->bytes > UINT64_MAX - block->address ? UINT64_MAX
                                                      : block->address + block->bytes;
}

/* Push the blocks together, which leaves small gaps. A block that would end behind all
 * addresses is cut. */
static void push_together(struct picture *picture)
{
    uint64_t end = 0, left_out = 0;

    qsort(picture->blocks, picture->count, sizeof *picture->blocks, by_address);
    for (size_t i = 0; i < picture->count; i++) {
        struct picture_block *block = &picture->blocks[i];
        if (i == 0 || (block->address > end && block->address - end > GAP_BYTES))
            left_out += block->address - (i == 0 ? 0 : end);
        block->offset = block->address - left_out;
        block->bytes = end_of(block) - block->address;
        end = end_of(block) > end ? end_of(block) : end;
    }
    picture->height = picture->count > 0 ? end - left_out : 0;
}

static void finish(struct picture *picture)
{
    qsort(picture->blocks, picture->count, sizeof *picture->blocks, by_start);
    for (size_t i = 0; i < picture->count; i++)
        picture->kept_area += area_of(&picture->blocks[i]);
}

static void add_plan(struct pictures *pictures)
{
    for (uint64_t i = 0; i < pictures->summary.blocks; i++) {
        tarn_plan_block planned = {.size = sizeof planned};
        tarn_plan_get_block(pictures->plan, i, &planned);
        add(&pictures->of_plan, &(struct picture_block){.start = planned.begin_operation,
                                                        .end = planned.end_operation,
                                                        .address = planned.offset_bytes,
                                                        .offset = planned.offset_bytes,
                                                        .bytes = planned.bytes,
                                                        .node = pictures->nodes[i]});
    }
    pictures->of_plan.operations = pictures->summary.operations;
    pictures->of_plan.height = pictures->summary.height_bytes;
}

void pictures_finish(struct pictures *pictures)
{
    add_plan(pictures);
    push_together(&pictures->of_run);
    finish(&pictures->of_plan);
    finish(&pictures->of_run);
}

void pictures_free(struct pictures *pictures)
{
    free(pictures->nodes);
    free(pictures->of_plan.blocks);
    free(pictures->of_run.blocks);
}
