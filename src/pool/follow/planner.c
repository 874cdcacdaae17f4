/* planner.c -- the thread that lays a recorded step out. */
#include "pool/follow/planner.h"
#include "base/thread.h"
#include "plan/layout.h"
#include "plan/make.h"
#include <stdlib.h>
#include <string.h>

/* A record on a circle of time. */
struct circle {
    const struct tarn__record *record;
    uint32_t cut;    /* the operation at which time begins */
    uint32_t first;  /* place of the first block from there on */
    uint32_t *order; /* places of the blocks that are planned, by time from the cut on */
    uint32_t planned;
    uint32_t *times;      /* by operation from the cut on: that of the plan */
    int64_t *changes;     /* by operation: of live quanta */
    uint32_t peak;        /* the operation, from the cut on, before which most are live */
    uint64_t peak_quanta; /* live there, and not at the cut */
    bool *in_hole;        /* by place: the block has room in a hole */
    uint64_t hole_quanta; /* of these blocks */
};

/* --- the cut and the peak --- */

/* Return an operation, counted from the cut on. */
static uint32_t from_cut(const struct circle *circle, uint32_t operation)
{
    return operation >= circle->cut
               ? operation - circle->cut
               : operation + circle->record->operations - circle->cut;
}

/* Count live quanta by operation, beside those before the first one. Set the cut and the peak
 * to the first operations before which the fewest and the most are live. */
static void find_cut_and_peak(struct circle *circle)
{
    const struct tarn__record *record = circle->record;
    int64_t *change = circle->changes;
    int64_t live = 0, least = 0, most = 0;
    uint32_t peak = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        const struct tarn__record_block *block = tarn__record_at(record, i);
        uint32_t end = tarn__record_end(record, block);
        if (end == TARN__RECORD_LIVE)
            continue;
        change[block->start + 1] += block->quanta;
        change[end + 1] -= block->quanta;
    }
    for (uint32_t i = 0; i < record->operations; i++) {
        live += change[i];
        if (live < least) {
            least = live;
            circle->cut = i;
        }
        if (live > most) {
            most = live;
            peak = i;
        }
    }
    circle->peak = from_cut(circle, peak);
    circle->peak_quanta = (uint64_t)(most - least);
    while (circle->first < record->count &&
           tarn__record_at(record, circle->first)->start < circle->cut)
        circle->first++;
}

/* Return the place of the i-th block from the cut on: blocks are in order of their starts. */
static uint32_t place_from_cut(const struct circle *circle, uint32_t i)
{
    uint32_t before = circle->record->count - circle->first;

    return i < before ? circle->first + i : i - before;
}

/* Return true if the block is live neither at the cut nor for a step. */
static bool is_within_step(const struct circle *circle,
                           const struct tarn__record_block *block)
{
    uint32_t end = tarn__record_end(circle->record, block);

    return end != TARN__RECORD_LIVE &&
           from_cut(circle, block->start) < from_cut(circle, end);
}

/* --- blocks in holes --- */

/* The most of the step's peak that is outside of the layout. */
enum { OUTSIDE_PART = 64 };

static bool is_live_at_peak(const struct circle *circle,
                            const struct tarn__record_block *block)
{
    return is_within_step(circle, block) &&
           from_cut(circle, block->start) < circle->peak &&
           from_cut(circle, tarn__record_end(circle->record, block)) >= circle->peak;
}

/* Have blocks use the holes, as the pool will: in order of time, the smallest hole that has
 * room. None of them is freed before the peak. */
static void fill_holes(struct circle *circle)
{
    struct tarn__holes holes = circle->record->holes;
    uint64_t part = circle->peak_quanta / OUTSIDE_PART;

    for (uint32_t i = 0; i < circle->record->count; i++) {
        uint32_t place = place_from_cut(circle, i);
        const struct tarn__record_block *block = tarn__record_at(circle->record, place);
        if (block->quanta > part - circle->hole_quanta ||
            !is_live_at_peak(circle, block) || !tarn__holes_take(&holes, block->quanta))
            continue;
        circle->in_hole[place] = true;
        circle->hole_quanta += block->quanta;
    }
}

/* --- what is planned --- */

/* Return true if the step before has freed a block like this one in this step, which the record
 * notes here. */
static bool has_wrapped(const struct circle *circle,
                        const struct tarn__record_block *block)
{
    return block->end == TARN__RECORD_LIVE && block->wrapped_step == circle->record->step;
}

/* Count a block that is not in the layout; `from` and `to` are operations. */
static void count_outside(const struct circle *circle, uint32_t from, uint32_t to,
                          uint32_t quanta)
{
    circle->changes[from] += quanta;
    if (to < circle->record->operations)
        circle->changes[to + 1] -= quanta;
}

/* Return the most bytes of live blocks that are not planned. What the step before has left,
 * and no block of this step is like, is taken as freed at once. */
static uint64_t outside_of(const struct circle *circle)
{
    const struct tarn__record *record = circle->record;
    int64_t live = (int64_t)(record->begin_allocated / TARN__PLAN_QUANTUM) -
                   (int64_t)record->previous_freed,
            most = 0;

    memset(circle->changes, 0,
           ((size_t)record->operations + 1) * sizeof *circle->changes);
    for (uint32_t i = 0; i < record->count; i++) {
        const struct tarn__record_block *block = tarn__record_at(record, i);
        bool is_planned = is_within_step(circle, block) && !circle->in_hole[i];
        if (!is_planned)
            count_outside(circle, block->start, block->end, block->quanta);
        if (has_wrapped(circle, block) && !is_planned) {
            live += block->quanta;
            circle->changes[block->wrapped_end + 1] -= block->quanta;
        }
    }
    for (uint32_t i = 0; i <= record->operations; i++) {
        live += circle->changes[i];
        most = live > most ? live : most;
    }
    return (uint64_t)most * TARN__PLAN_QUANTUM;
}

/* List what is planned, by time from the cut on. */
static void list_planned(struct circle *circle)
{
    for (uint32_t i = 0; i < circle->record->count; i++) {
        uint32_t place = place_from_cut(circle, i);
        if (!circle->in_hole[place] &&
            is_within_step(circle, tarn__record_at(circle->record, place)))
            circle->order[circle->planned++] = place;
    }
}

/* Renumber the operations of planned blocks: a plan has no others. Returns their number. */
static uint32_t renumber(struct circle *circle)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < circle->planned; i++) {
        const struct tarn__record_block *block =
            tarn__record_at(circle->record, circle->order[i]);
        circle->times[from_cut(circle, block->start)] = 1;
        circle->times[from_cut(circle, tarn__record_end(circle->record, block))] = 1;
    }
    for (uint32_t i = 0; i < circle->record->operations; i++) {
        uint32_t is_used = circle->times[i];
        circle->times[i] = count;
        count += is_used;
    }
    return count;
}

static bool make_circle(struct circle *circle)
{
    const struct tarn__record *record = circle->record;

    circle->order = malloc(((size_t)record->count + 1) * sizeof *circle->order);
    circle->times = calloc((size_t)record->operations + 1, sizeof *circle->times);
    circle->changes = calloc((size_t)record->operations + 1, sizeof *circle->changes);
    circle->in_hole = calloc((size_t)record->count + 1, sizeof *circle->in_hole);
    if (!circle->order || !circle->times || !circle->changes || !circle->in_hole)
        return false;
    find_cut_and_peak(circle);
    fill_holes(circle);
    list_planned(circle);
    return true;
}

static void free_circle(struct circle *circle)
{
    free(circle->order);
    free(circle->times);
    free(circle->changes);
    free(circle->in_hole);
}

/* --- the plan --- */

static uint32_t stream_of(uint16_t ordinal)
{
    return ordinal == TARN__RECORD_NO_STREAM ? TARN__PLAN_NO_STREAM : ordinal;
}

static struct tarn__plan_slot slot_of(const struct tarn__record_block *block)
{
    return (struct tarn__plan_slot){.quanta = block->quanta,
                                    .offset = TARN__SEQUENCES_OUTSIDE,
                                    .stream = stream_of(block->stream),
                                    .free_stream = stream_of(block->free_stream),
                                    .thread = block->thread};
}

/* Enter the blocks to be laid out. Returns false without host memory. */
static bool add_planned(struct circle *circle, tarn_plan *plan)
{
    uint64_t peak_quanta = 0;

    plan->operations = renumber(circle);
    for (uint32_t i = 0; i < circle->planned; i++) {
        const struct tarn__record_block *block =
            tarn__record_at(circle->record, circle->order[i]);
        plan->slots[i] = slot_of(block);
        plan->slots[i].start = circle->times[from_cut(circle, block->start)];
        plan->slots[i].end =
            circle->times[from_cut(circle, tarn__record_end(circle->record, block))];
    }
    plan->count = circle->planned;
    plan->streams = circle->record->streams.next;
    plan->threads = circle->record->threads.next;
    bool has_memory = tarn__layout_bound(plan, &peak_quanta);
    plan->peak_live_bytes = peak_quanta * TARN__PLAN_QUANTUM;
    return has_memory;
}

/* Put all slots in the order of the step, those outside of the layout as well. Returns false
 * without host memory. */
static bool order_by_step(const struct circle *circle, tarn_plan *plan)
{
    uint32_t count = circle->record->count;
    struct tarn__plan_slot *slots = malloc(((size_t)count + 1) * sizeof *slots);

    if (!slots)
        return false;
    for (uint32_t i = 0; i < count; i++)
        slots[i] = slot_of(tarn__record_at(circle->record, i));
    for (uint32_t i = 0; i < circle->planned; i++)
        slots[circle->order[i]] = plan->slots[i];
    free(plan->slots);
    plan->slots = slots;
    plan->count = count;
    return true;
}

struct tarn__sequences *tarn__planner_plan(const struct tarn__record *record)
{
    struct circle circle = {.record = record};
    struct tarn__sequences *sequences = NULL;
    tarn_plan *plan = NULL;

    if (tarn__make_empty(record->count, &plan) != TARN_OK)
        return NULL;
    if (make_circle(&circle) && add_planned(&circle, plan) && plan->count > 0 &&
        tarn__make_layout_of_step(plan) == TARN_OK && order_by_step(&circle, plan)) {
        const struct tarn__sequences_memory memory = {record->peak_allocated,
                                                      outside_of(&circle)};
        sequences = tarn__sequences_new(plan, &memory);
    }
    free_circle(&circle);
    tarn_plan_release(plan);
    return sequences;
}

/* --- the thread --- */

struct tarn__planner *tarn__planner_new(const struct tarn__record *record)
{
    struct tarn__planner *planner = calloc(1, sizeof *planner);

    if (!planner)
        return NULL;
    if (tarn__record_copy(record, &planner->record))
        return planner;
    tarn__planner_finish(planner);
    return NULL;
}

static void *run(void *data)
{
    struct tarn__planner *planner = data;

    tarn__record_align(&planner->record);
    planner->sequences = tarn__planner_plan(&planner->record);
    atomic_store(&planner->is_done, true);
    return NULL;
}

bool tarn__planner_start(struct tarn__planner *planner)
{
    planner->has_thread = tarn__thread_start(&planner->thread, run, planner) == 0;
    return planner->has_thread;
}

struct tarn__sequences *tarn__planner_finish(struct tarn__planner *planner)
{
    if (planner->has_thread)
        pthread_join(planner->thread, NULL);
    struct tarn__sequences *sequences = planner->sequences;
    tarn__record_free(&planner->record);
    free(planner);
    return sequences;
}
