/* Test the layout that a pool makes of a recorded step: the record and the planner, without a
 * pool. Lives and addresses are compared pair by pair. */
#include "test.h"
#include "random_plan.h"
#include "pool/blocks/stream_state.h"
#include "pool/follow/planner.h"

enum { BLOCKS = 400, STEPS = 3, KEYS = 4 };

/* --- steps --- */

/* A block of a step: it is allocated at one time and freed at another. Times from the period
 * of the step on are in the next step. */
struct block {
    uint32_t quanta, from, to;
    uint64_t key, free_key; /* of the streams */
};

struct step {
    struct block blocks[BLOCKS]; /* by `from` */
    uint32_t count, period;
    /* of the last step that was recorded: the operations, and those of each block */
    uint32_t operations, starts[BLOCKS], ends[BLOCKS];
    uint32_t cut; /* its first operation before which the fewest quanta are live */
};

static const uint64_t keys[KEYS] = {7, 8, 9, TARN__KEY_NO_STREAM};

/* Lives have skewed lengths. Some blocks live for more than a step, and some are freed on
 * another stream. */
static void draw_step(struct step *step, uint64_t seed, uint32_t count, uint32_t streams)
{
    *step = (struct step){.count = count, .period = count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t life = 1 + random_plan_below(&seed, 1u << random_plan_below(&seed, 10));
        uint32_t most = 16u << random_plan_below(&seed, 9);
        uint64_t key = keys[random_plan_below(&seed, streams)];
        bool is_handed = i + life < count && random_plan_below(&seed, 8) == 0;
        step->blocks[i] = (struct block){
            .quanta = 1 + random_plan_below(&seed, most),
            .from = i,
            .to = i + (life < 2 * count - i ? life : 2 * count - i - 1),
            .key = key,
            .free_key = is_handed ? keys[random_plan_below(&seed, streams)] : key};
    }
}

static void add(struct step *step, uint32_t from, uint32_t to, uint32_t quanta)
{
    CHECK(step->count < BLOCKS);
    step->blocks[step->count++] = (struct block){
        .quanta = quanta, .from = from, .to = to, .key = keys[0], .free_key = keys[0]};
    step->period = to > step->period ? to : step->period;
}

/* --- recording --- */

static struct tarn__node nodes[STEPS * BLOCKS];

/* Free the blocks whose time it is, of this step and of the one before. */
static void record_frees(struct tarn__record *record, struct step *step, uint32_t now,
                         uint32_t time, uint64_t *allocated)
{
    for (uint32_t age = 0; age <= now && age < 2; age++)
        for (uint32_t i = 0; i < step->count; i++) {
            uint32_t number = (now - age) * step->count + i;
            if (step->blocks[i].to != time + age * step->period)
                continue;
            step->ends[i] = record->operations;
            *allocated -= step->blocks[i].quanta * TARN__QUANTUM;
            tarn__record_deallocate(record, &nodes[number], step->blocks[i].free_key);
        }
}

static void record_allocations(struct tarn__record *record, struct step *step,
                               uint32_t now, uint32_t time, uint64_t *allocated)
{
    for (uint32_t i = 0; i < step->count; i++) {
        uint32_t number = now * step->count + i;
        if (step->blocks[i].from != time)
            continue;
        step->starts[i] = record->operations;
        nodes[number].quanta = step->blocks[i].quanta;
        *allocated += step->blocks[i].quanta * TARN__QUANTUM;
        tarn__record_allocate(record, &nodes[number], step->blocks[i].key);
    }
}

/* Record the step until the record has the frees of what the step before it allocated. */
static void record_step(struct tarn__record *record, struct step *step)
{
    uint64_t allocated = 0;

    memset(nodes, 0, sizeof nodes);
    tarn__record_init(record);
    for (uint32_t now = 0; now < STEPS; now++) {
        tarn__record_restart(record, allocated);
        for (uint32_t time = 0; time < step->period; time++) {
            record_frees(record, step, now, time, &allocated);
            record_allocations(record, step, now, time, &allocated);
        }
    }
    step->operations = record->operations;
    CHECK(record->is_whole);
    CHECK_EQUAL(step->count, record->count);
    CHECK_EQUAL(2 * step->count, record->operations);
}

/* --- lives on the circle of time --- */

/* Operations from one to another. */
static uint32_t from_to(const struct step *step, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + step->operations - from;
}

static bool lives_for_a_step(const struct step *step, uint32_t i)
{
    return step->blocks[i].to - step->blocks[i].from > step->period;
}

static uint32_t life_of(const struct step *step, uint32_t i)
{
    return from_to(step, step->starts[i], step->ends[i]);
}

static bool are_live_at_once(const struct step *step, uint32_t i, uint32_t j)
{
    return from_to(step, step->starts[i], step->starts[j]) < life_of(step, i) ||
           from_to(step, step->starts[j], step->starts[i]) < life_of(step, j);
}

static bool is_live_before(const struct step *step, uint32_t i, uint32_t operation)
{
    uint32_t passed = from_to(step, step->starts[i], operation);

    return passed > 0 && passed <= life_of(step, i);
}

/* Return how many blocks are live before an operation, of this step and the one before. */
static uint32_t copies_before(const struct step *step, uint32_t i, uint32_t operation)
{
    bool has_begun = operation > step->starts[i], has_ended = operation > step->ends[i];

    if (step->blocks[i].to < step->period)
        return has_begun && !has_ended;
    return has_begun + !has_ended;
}

/* Return the live quanta before an operation, without what lives for a step. */
static uint64_t live_before(const struct step *step, uint32_t operation)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i < step->count; i++)
        if (!lives_for_a_step(step, i) && is_live_before(step, i, operation))
            live += step->blocks[i].quanta;
    return live;
}

static void find_cut(struct step *step)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < step->operations; i++) {
        uint64_t live = live_before(step, i);
        if (live < least) {
            least = live;
            step->cut = i;
        }
    }
}

/* --- the slots of the blocks --- */

struct places {
    struct tarn__sequences *sequences;
    const struct tarn__sequences_slot *slots[BLOCKS]; /* of each block */
};

/* Return the ordinal of a stream: its number among those that allocate in the step. */
static uint32_t ordinal_of(const struct step *step, uint64_t key)
{
    uint64_t seen[KEYS];
    uint32_t count = 0, i = 0, known;

    for (;; i++) {
        for (known = 0; known < count && seen[known] != step->blocks[i].key;)
            known++;
        if (known == count)
            seen[count++] = step->blocks[i].key;
        if (step->blocks[i].key == key)
            return known;
    }
}

/* Plan the step. The n-th allocation of a stream has the n-th slot of its sequence. */
static struct places places_of(const struct step *step, const struct tarn__record *record)
{
    struct places places = {.sequences = tarn__planner_plan(record)};
    uint32_t next[KEYS] = {0};

    CHECK(places.sequences != NULL);
    CHECK_EQUAL(step->count, places.sequences->slot_count);
    for (uint32_t i = 0; i < step->count; i++) {
        uint32_t stream = ordinal_of(step, step->blocks[i].key);
        struct tarn__sequence *sequence =
            tarn__sequences_find(places.sequences, 0, stream);
        CHECK(next[stream] < sequence->count);
        places.slots[i] = &sequence->slots[next[stream]++];
        CHECK_EQUAL(step->blocks[i].quanta, places.slots[i]->quanta);
    }
    return places;
}

static bool is_planned(const struct places *places, uint32_t i)
{
    return places->slots[i]->offset != TARN__SEQUENCES_OUTSIDE;
}

static bool share_addresses(const struct tarn__sequences_slot *one,
                            const struct tarn__sequences_slot *other)
{
    return one->offset < other->offset + other->quanta &&
           other->offset < one->offset + one->quanta;
}

/* --- what holds for each layout --- */

static void check_pairs(const struct step *step, const struct places *places)
{
    for (uint32_t i = 0; i < step->count; i++)
        for (uint32_t j = 0; j < i; j++)
            CHECK(!is_planned(places, i) || !is_planned(places, j) ||
                  !are_live_at_once(step, i, j) ||
                  !share_addresses(places->slots[i], places->slots[j]));
}

/* Check that what lives at the cut or for a step is outside of the layout, and all else in it. */
static void check_outside(const struct step *step, const struct places *places)
{
    uint64_t outside = 0;

    for (uint32_t i = 0; i < step->count; i++) {
        bool is_outside = lives_for_a_step(step, i) || is_live_before(step, i, step->cut);
        CHECK_EQUAL(is_outside, !is_planned(places, i));
    }
    for (uint32_t operation = 0; operation <= step->operations; operation++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < step->count; i++)
            if (!is_planned(places, i))
                live += step->blocks[i].quanta * copies_before(step, i, operation);
        outside = live > outside ? live : outside;
    }
    CHECK_EQUAL(outside * TARN__QUANTUM, places->sequences->memory.outside);
}

/* Return the most quanta of planned blocks that are live at once. */
static uint64_t peak_of(const struct step *step, const struct places *places)
{
    uint64_t peak = 0;

    for (uint32_t operation = 0; operation < step->operations; operation++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < step->count; i++)
            if (is_planned(places, i) && is_live_before(step, i, operation))
                live += step->blocks[i].quanta;
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void check_height(const struct step *step, const struct places *places)
{
    uint64_t height = 0;

    for (uint32_t i = 0; i < step->count; i++) {
        uint64_t end = (uint64_t)places->slots[i]->offset + places->slots[i]->quanta;
        if (is_planned(places, i) && end > height)
            height = end;
    }
    CHECK_EQUAL(height * TARN__QUANTUM, places->sequences->height);
    CHECK_EQUAL(peak_of(step, places) * TARN__QUANTUM, places->sequences->peak_live);
}

/* Return true if another stream has memory of the block next, or nobody has any before the
 * step ends. The addresses are followed quantum by quantum from the cut on. */
static bool is_handed(const struct step *step, const struct places *places, uint32_t i)
{
    static bool is_taken[1 << 13];
    const struct tarn__sequences_slot *slot = places->slots[i];
    uint32_t after = from_to(step, step->cut, step->ends[i]);
    bool to_other = false, to_same = false;

    memset(is_taken, 0, sizeof is_taken);
    CHECK(slot->quanta < sizeof is_taken);
    for (uint32_t at = after + 1; at < step->operations; at++)
        for (uint32_t j = 0; j < step->count; j++) {
            if (from_to(step, step->cut, step->starts[j]) != at ||
                !is_planned(places, j) || !share_addresses(slot, places->slots[j]))
                continue;
            for (uint32_t k = 0; k < slot->quanta; k++) {
                uint32_t offset = slot->offset + k - places->slots[j]->offset;
                if (offset >= places->slots[j]->quanta || is_taken[k])
                    continue;
                is_taken[k] = true;
                to_same |= step->blocks[j].key == step->blocks[i].free_key;
                to_other |= step->blocks[j].key != step->blocks[i].free_key;
            }
        }
    return to_other || !to_same;
}

static void check_handed(const struct step *step, const struct places *places)
{
    for (uint32_t i = 0; i < step->count; i++)
        if (is_planned(places, i))
            CHECK_EQUAL(
                is_handed(step, places, i),
                tarn__sequences_is_handed(places->sequences, places->slots[i]->rank));
}

/* Plan the step and check the layout. Returns its height : peak. */
static double check_layout(struct step *step)
{
    struct tarn__record record;

    record_step(&record, step);
    find_cut(step);
    struct places places = places_of(step, &record);
    check_pairs(step, &places);
    check_outside(step, &places);
    check_height(step, &places);
    check_handed(step, &places);
    double ratio = (double)places.sequences->height / (double)places.sequences->peak_live;
    tarn__sequences_free(places.sequences);
    tarn__record_free(&record);
    return ratio;
}

/* --- drawn steps --- */

/* Return the worst height : peak of drawn steps. */
static double check_drawn(uint32_t least_streams, uint32_t most_streams)
{
    struct step step;
    double worst = 1;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t more = (uint32_t)seed % (most_streams - least_streams + 1);
        draw_step(&step, seed, 20 + (uint32_t)seed * 2, least_streams + more);
        double ratio = check_layout(&step);
        worst = ratio > worst ? ratio : worst;
    }
    return worst;
}

TEST(blocks_that_are_live_at_once_share_no_addresses)
{
    CHECK(check_drawn(1, 1) <= 1.01);
}

/* The device is expected to be behind, so small blocks of other streams are kept apart. That is
 * higher than the peak. */
TEST(blocks_of_several_streams_share_no_addresses_either)
{
    CHECK(check_drawn(2, KEYS) <= 2);
}

/* --- steps whose lowest layout is known --- */

/* Cut a rectangle of time and addresses into so many blocks, or fewer where it is small. They
 * fill it, so the lowest layout has no hole. */
static void cut_rectangle(struct step *step, uint64_t *seed, uint32_t pieces,
                          uint32_t from, uint32_t to, uint32_t quanta)
{
    bool in_time = random_plan_below(seed, 2);
    uint32_t length = in_time ? to - from : quanta;

    if (pieces == 1 || length == 1) {
        add(step, from, to, quanta);
        return;
    }
    uint32_t first = 1 + random_plan_below(seed, length - 1);
    uint32_t of_first = 1 + random_plan_below(seed, pieces - 1);
    if (in_time) {
        cut_rectangle(step, seed, of_first, from, from + first, quanta);
        cut_rectangle(step, seed, pieces - of_first, from + first, to, quanta);
    } else {
        cut_rectangle(step, seed, of_first, from, to, first);
        cut_rectangle(step, seed, pieces - of_first, from, to, quanta - first);
    }
}

static int by_begin(const void *one, const void *other)
{
    const struct block *a = one, *b = other;

    return a->from < b->from ? -1 : a->from > b->from;
}

TEST(a_step_that_fills_a_rectangle_is_laid_out_near_its_peak)
{
    enum { SEEDS = 60 };
    struct step step;
    double sum = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t state = seed;
        step = (struct step){.count = 0};
        cut_rectangle(&step, &state, 2 + (uint32_t)seed * 2, 0, 500, 4096);
        qsort(step.blocks, step.count, sizeof *step.blocks, by_begin);
        double ratio = check_layout(&step);
        CHECK(ratio <= 1.1);
        sum += ratio;
    }
    CHECK(sum / SEEDS <= 1.01);
}

TEST(a_stack_a_queue_and_single_blocks_need_their_peak)
{
    enum { COUNT = 40 };
    struct step stack = {0}, queue = {0}, single = {0};

    for (uint32_t i = 0; i < COUNT; i++) {
        add(&stack, i, 2 * COUNT - i, 1 + i * i);
        add(&queue, i, i + 8, 100);
        add(&single, i, i + 1, 1 + (i * 7919) % 1000);
    }
    CHECK(check_layout(&stack) == 1.0);
    CHECK(check_layout(&queue) == 1.0);
    CHECK(check_layout(&single) == 1.0);
}

/* --- what is outside of the layout --- */

/* Plan a step of four small blocks and one large one that are live at once, beside holes. The
 * step begins with a block that is not live then. Returns how many blocks are outside of the
 * layout. */
static uint32_t outside_with_holes(const struct tarn__holes *holes, uint32_t large)
{
    enum { SMALL = 4 };
    struct tarn__record record;
    struct step step = {0};
    uint32_t outside = 0;

    add(&step, 0, 1, 2);
    for (uint32_t i = 1; i <= SMALL; i++)
        add(&step, i, 10, 2);
    add(&step, SMALL + 1, 10, large);
    record_step(&record, &step);
    record.holes = *holes;
    struct places places = places_of(&step, &record);
    CHECK(is_planned(&places, 0));
    for (uint32_t i = 1; i < step.count; i++)
        outside += !is_planned(&places, i);
    CHECK_EQUAL(outside * 2 * TARN__QUANTUM, places.sequences->memory.outside);
    CHECK_EQUAL((2 * (SMALL - outside) + large) * TARN__QUANTUM,
                places.sequences->height);
    tarn__sequences_free(places.sequences);
    tarn__record_free(&record);
    return outside;
}

TEST(blocks_of_the_peak_are_outside_as_far_as_holes_have_room)
{
    CHECK_EQUAL(0, outside_with_holes(&(struct tarn__holes){0}, 10000));
    CHECK_EQUAL(0, outside_with_holes(&(struct tarn__holes){3, {1, 1, 1}}, 10000));
    CHECK_EQUAL(3, outside_with_holes(&(struct tarn__holes){1, {7}}, 10000));
    CHECK_EQUAL(4, outside_with_holes(&(struct tarn__holes){1, {8}}, 10000));
    CHECK_EQUAL(3, outside_with_holes(&(struct tarn__holes){3, {2, 5, 1}}, 10000));
}

TEST(at_most_a_64th_of_the_peak_is_outside)
{
    const struct tarn__holes holes = {1, {1000000}};

    CHECK_EQUAL(4, outside_with_holes(&holes, 64 * 8 - 8));
    CHECK_EQUAL(3, outside_with_holes(&holes, 64 * 8 - 9));
}

/* Record one block after another, which stays with `stays`, in the memory of the record. */
static void record_single(struct tarn__record *record, uint32_t count, bool stays)
{
    struct tarn__node node = {.quanta = 3};

    tarn__record_restart(record, 0);
    for (uint32_t i = 0; i < count; i++) {
        tarn__record_allocate(record, &node, keys[0]);
        if (!stays)
            tarn__record_deallocate(record, &node, keys[0]);
    }
    CHECK_EQUAL(count, record->count);
}

static uint64_t outside_of_single(const struct tarn__record *record)
{
    struct tarn__sequences *sequences = tarn__planner_plan(record);

    CHECK(sequences != NULL);
    uint64_t outside = sequences->memory.outside;
    CHECK_EQUAL(record->count, sequences->slot_count);
    CHECK_EQUAL(3 * TARN__QUANTUM, sequences->height);
    tarn__sequences_free(sequences);
    return outside;
}

/* A record fills its last chunk of memory, and keeps the memory of a longer step. */
TEST(a_step_ends_with_its_last_block)
{
    struct tarn__record record;

    tarn__record_init(&record);
    record_single(&record, TARN__RECORD_CHUNK, false);
    CHECK_EQUAL(0, outside_of_single(&record));
    record_single(&record, 20, true);
    record_single(&record, 10, false);
    CHECK_EQUAL(0, outside_of_single(&record));
    tarn__record_free(&record);
}

/* --- what is refused --- */

static bool has_plan(struct step *step)
{
    struct tarn__record record;

    record_step(&record, step);
    struct tarn__sequences *sequences = tarn__planner_plan(&record);
    tarn__sequences_free(sequences);
    tarn__record_free(&record);
    return sequences != NULL;
}

TEST(a_step_of_no_block_that_ends_has_no_plan)
{
    struct tarn__record record;

    tarn__record_init(&record);
    CHECK(tarn__planner_plan(&record) == NULL);
    record_single(&record, 20, true);
    CHECK(tarn__planner_plan(&record) == NULL);
    tarn__record_free(&record);
}

/* A layout has less than 2 TiB. */
TEST(a_step_of_two_tebibytes_has_no_plan)
{
    const uint32_t tebibyte = 1u << 31; /* in quanta */
    struct step once = {0}, twice = {0};

    add(&once, 0, 2, tebibyte);
    add(&once, 2, 3, tebibyte);
    add(&twice, 0, 3, tebibyte);
    add(&twice, 1, 3, tebibyte);
    CHECK(has_plan(&once));
    CHECK(!has_plan(&twice));
}

/* --- the thread --- */

TEST(a_planner_has_a_copy_of_the_record)
{
    struct tarn__record record;
    struct step step;

    draw_step(&step, 1, BLOCKS, 2);
    record_step(&record, &step);
    struct tarn__sequences *wanted = tarn__planner_plan(&record);
    struct tarn__planner *planner = tarn__planner_new(&record);
    CHECK(planner != NULL);
    record_single(&record, 10, false); /* the next step */
    CHECK(tarn__planner_start(planner));
    struct tarn__sequences *sequences = tarn__planner_finish(planner);
    CHECK(sequences != NULL);
    CHECK_EQUAL(wanted->slot_count, sequences->slot_count);
    CHECK(memcmp(wanted->slots, sequences->slots,
                 wanted->slot_count * sizeof *wanted->slots) == 0);
    tarn__sequences_free(wanted);
    tarn__sequences_free(sequences);
    tarn__record_free(&record);
}

TEST(a_planner_that_never_began_has_no_plan)
{
    struct tarn__record record;

    tarn__record_init(&record);
    record_single(&record, 10, false);
    struct tarn__planner *planner = tarn__planner_new(&record);
    CHECK(planner != NULL);
    CHECK(tarn__planner_finish(planner) == NULL);
    tarn__record_free(&record);
}

/* --- records --- */

/* The blocks that end are laid out, and the others have a place in the sequence. */
TEST(a_record_becomes_sequences)
{
    struct tarn__record record;
    struct tarn__node blocks[40] = {{0}};

    tarn__record_init(&record);
    for (uint32_t i = 0; i < 40; i++) {
        blocks[i].quanta = 1 + i;
        tarn__record_allocate(&record, &blocks[i], 7 + i % 2);
        if (i % 4 == 3) /* every fourth block is freed, on the other stream */
            tarn__record_deallocate(&record, &blocks[i], 8 - i % 2);
    }
    tarn__record_deallocate(&record, &blocks[3], 7); /* it was freed already */
    CHECK(record.is_whole);
    CHECK_EQUAL(40, record.count);
    CHECK_EQUAL(50, record.operations);
    struct tarn__sequences *sequences = tarn__planner_plan(&record);
    CHECK(sequences != NULL);
    CHECK_EQUAL(40, sequences->slot_count);
    CHECK_EQUAL(2, sequences->count);
    CHECK_EQUAL(40 * 512, sequences->peak_live);
    uint32_t outside = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 40; i++)
        if (sequences->slots[i].offset == TARN__SEQUENCES_OUTSIDE) {
            outside++;
            bytes += (uint64_t)sequences->slots[i].quanta * TARN__QUANTUM;
        }
    CHECK_EQUAL(30, outside);
    CHECK_EQUAL(bytes, sequences->memory.outside);
    tarn__sequences_free(sequences);
    tarn__record_restart(&record, 0);
    CHECK(tarn__planner_plan(&record) == NULL); /* nothing to plan */
    tarn__record_free(&record);
}

TEST(an_end_that_an_earlier_step_noted_is_forgotten)
{
    struct tarn__record record;
    struct tarn__node first = {.quanta = 1}, second = first, other = first, third = first;

    tarn__record_init(&record);
    tarn__record_allocate(&record, &first, 7);
    tarn__record_restart(&record, 0);
    tarn__record_deallocate(&record, &first, 7);
    tarn__record_allocate(&record, &second, 7);
    CHECK_EQUAL(0, tarn__record_end(&record, tarn__record_at(&record, 0)));
    tarn__record_deallocate(&record, &second, 7);
    tarn__record_allocate(&record, &other, 7);
    tarn__record_restart(&record, 0);
    tarn__record_deallocate(&record, &other, 7);
    tarn__record_allocate(&record, &third, 7); /* after the operation 0 */
    CHECK_EQUAL(TARN__RECORD_LIVE,
                tarn__record_end(&record, tarn__record_at(&record, 0)));
    tarn__record_free(&record);
}

TEST(a_step_that_is_too_long_is_not_whole)
{
    struct tarn__record record;
    struct tarn__node node = {.quanta = 1};

    tarn__record_init(&record);
    for (uint32_t i = 0; i <= TARN__RECORD_MOST; i++) {
        CHECK(record.is_whole);
        tarn__record_allocate(&record, &node, 7);
        tarn__record_deallocate(&record, &node, 7);
    }
    CHECK(!record.is_whole);
    CHECK_EQUAL(TARN__RECORD_MOST, record.count);
    CHECK(tarn__record_metadata(&record) <= (size_t)32 * TARN__RECORD_MOST);
    tarn__record_free(&record);
}
