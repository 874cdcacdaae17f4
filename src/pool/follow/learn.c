/* learn.c -- plans that a pool makes of the marked steps of its program. */
#include "pool/follow/learn.h"
#include "pool/follow/area.h"
#include "pool/follow/signature.h"
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tarn__learn_open(struct tarn__pool *pool)
{
    struct tarn__learn *learn = tarn__cache_line_allocate(sizeof *learn);

    pool->follow->learn = learn;
    if (!learn)
        return false;
    tarn__record_init(&learn->record);
    if (pool->options.detect_steps)
        tarn__detect_init(&learn->detect);
    pool->follow->state = TARN_POOL_PLAN_LEARNING;
    return true;
}

static void free_shapes(struct tarn__learn *learn)
{
    for (int i = 0; i < TARN__LEARN_SHAPES; i++) {
        tarn__sequences_free(learn->shapes[i].sequences);
        learn->shapes[i].sequences = NULL;
    }
    learn->active = learn->guess = NULL;
}

void tarn__learn_free(struct tarn__pool *pool)
{
    struct tarn__learn *learn = pool->follow ? pool->follow->learn : NULL;

    if (!learn)
        return;
    for (unsigned i = 0; i < learn->job_count; i++)
        if (learn->jobs[i].planner)
            tarn__sequences_free(tarn__planner_finish(learn->jobs[i].planner));
    free_shapes(learn);
    tarn__record_free(&learn->record);
    free(learn);
}

size_t tarn__learn_metadata(const struct tarn__pool *pool)
{
    const struct tarn__learn *learn = pool->follow->learn;
    size_t bytes = sizeof *learn + tarn__record_metadata(&learn->record);

    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        bytes += learn->shapes[i].sequences ? learn->shapes[i].sequences->bytes : 0;
    for (unsigned i = 0; i < learn->job_count; i++)
        if (learn->jobs[i].planner)
            bytes += sizeof *learn->jobs[i].planner +
                     tarn__record_metadata(&learn->jobs[i].planner->record);
    return bytes;
}

bool tarn__learn_detects(const struct tarn__pool *pool)
{
    return pool->options.detect_steps && atomic_load(&pool->follow->learn->detect.is_on);
}

bool tarn__learn_is_on(const struct tarn__pool *pool)
{
    const struct tarn__learn *learn = pool->follow->learn;

    return learn && (learn->is_on || tarn__learn_detects(pool));
}

bool tarn__learn_sees_requests(const struct tarn__pool *pool)
{
    return pool->follow->learn->is_recording || tarn__learn_detects(pool);
}

/* --- shapes --- */

static struct tarn__learn_shape *unused_shape(struct tarn__learn *learn)
{
    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        if (!learn->shapes[i].sequences)
            return &learn->shapes[i];
    return NULL;
}

/* Return the shape that requests the most bytes; NULL: there is none. */
static struct tarn__learn_shape *largest_shape(struct tarn__learn *learn)
{
    struct tarn__learn_shape *most = NULL;

    for (int i = 0; i < TARN__LEARN_SHAPES; i++) {
        struct tarn__learn_shape *shape = &learn->shapes[i];
        if (shape->sequences && (!most || shape->quanta > most->quanta))
            most = shape;
    }
    return most;
}

/* The largest steps decide how much a pool reserves. So a step replaces the shape whose live
 * bytes have the lowest peak, if its own peak is higher by such a part. It also does if it
 * requests more bytes than any shape: steps without a plan borrow that of the largest one. */
enum { LARGER_PART = 16 };

/* Return the smallest shape with a plan, if this step, which reaches `allocated` live bytes,
 * may have its place. */
static struct tarn__learn_shape *smaller_shape(struct tarn__learn *learn,
                                               const struct tarn__learn_shape *step,
                                               uint64_t allocated)
{
    struct tarn__learn_shape *least = NULL;

    for (int i = 0; i < TARN__LEARN_SHAPES; i++) {
        struct tarn__learn_shape *shape = &learn->shapes[i];
        if (shape->sequences && (!least || shape->sequences->memory.peak_allocated <
                                               least->sequences->memory.peak_allocated))
            least = shape;
    }
    if (!least)
        return NULL;
    uint64_t most = least->sequences->memory.peak_allocated;
    return allocated > most + most / LARGER_PART ||
                   step->quanta > largest_shape(learn)->quanta
               ? least
               : NULL;
}

/* Return true if the present step, up to now, begins as this shape does. */
static bool begins_as(const struct tarn__learn *learn,
                      const struct tarn__learn_shape *shape)
{
    uint32_t last = learn->present.count - 1;

    return shape->sequences && last < shape->count &&
           shape->beginnings[last] == learn->present.beginnings[last];
}

/* Find the shapes that begin as the present step. Returns the one with the highest plan; NULL:
 * there is none. If the step turns out to be a lower one, the pool has memory to spare. */
static struct tarn__learn_shape *find_shape(struct tarn__learn *learn)
{
    struct tarn__learn_shape *highest = NULL;
    unsigned count = 0;

    for (int i = 0; i < TARN__LEARN_SHAPES; i++) {
        struct tarn__learn_shape *shape = &learn->shapes[i];
        if (!begins_as(learn, shape))
            continue;
        count++;
        if (!highest || shape->sequences->height > highest->sequences->height)
            highest = shape;
    }
    learn->is_ambiguous = count > 1;
    return highest;
}

/* Follow a shape; NULL: none. */
static void follow_shape(struct tarn__pool *pool, struct tarn__learn_shape *shape)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    learn->active = shape;
    if (shape)
        learn->guess = shape;
    else
        memset(&pool->follow->step, 0, sizeof pool->follow->step);
    if (shape || pool->follow->sequences)
        tarn__state_use(pool, shape ? shape->sequences : NULL, false);
}

/* Steps in a row that were unlike the largest shape. Then none uses its plan until there is a
 * new one. */
enum { UNLIKE_STEPS = 2 };

/* Return false if the pool finds the steps itself, and marks only some of them: what it takes
 * for one may be several. */
static bool has_whole_steps(const struct tarn__pool *pool)
{
    return !tarn__learn_detects(pool) ||
           tarn__detect_marks_all(&pool->follow->learn->detect);
}

/* Use the plan of the largest shape for a step without one, which is recorded as such. It is
 * often the same work with smaller blocks. Their addresses are those of larger blocks then,
 * so they need no memory that the largest step does not. */
static void borrow_plan(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;
    struct tarn__learn_shape *largest = largest_shape(learn);

    follow_shape(pool, NULL);
    if (largest && learn->unlike < UNLIKE_STEPS && has_whole_steps(pool))
        tarn__state_use(pool, largest->sequences, true);
}

void tarn__learn_note_borrowed(struct tarn__pool *pool, bool has_paid)
{
    struct tarn__learn *learn = pool->follow->learn;
    const struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    learn->has_borrowed = has_paid;
    if (has_paid)
        learn->unlike = 0;
    else if (follow->step.peak_allocated <= follow->sequences->memory.peak_allocated)
        learn->unlike++;
}

/* Forget the plan of a shape. */
static void forget_shape(struct tarn__pool *pool, struct tarn__learn_shape *shape)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    if (shape->sequences && pool->follow->sequences == shape->sequences)
        follow_shape(pool, NULL);
    if (learn->guess == shape)
        learn->guess = NULL;
    tarn__sequences_free(shape->sequences);
    shape->sequences = NULL;
}

/* --- the present step --- */

/* Add a request to the signature of the step, and to its beginning. */
static void add_request(struct tarn__learn *learn, uint64_t key, uint32_t quanta)
{
    struct tarn__learn_shape *present = &learn->present;
    uint64_t thread = tarn__thread_id();
    uint64_t stream_number = tarn__record_stream(&learn->record, key);
    uint64_t thread_number = tarn__record_thread(&learn->record, thread);

    present->signature = tarn__signature_add(
        present->signature, quanta | stream_number << 32 | thread_number << 48);
    present->quanta += quanta;
    if (learn->allocations++ >= TARN__LEARN_PREFIX)
        return;
    learn->requests[present->count] = (struct tarn__learn_request){thread, key, quanta};
    present->beginnings[present->count++] = present->signature;
}

bool tarn__learn_note_request(struct tarn__pool *pool, uint64_t key, uint32_t quanta)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    if (!learn->is_on || !learn->is_recording)
        return false;
    add_request(learn, key, quanta);
    if (!learn->active && learn->allocations > 1)
        return false;
    struct tarn__learn_shape *shape = find_shape(learn);
    if (!shape || shape != learn->active) {
        if (shape)
            follow_shape(pool, shape);
        else
            borrow_plan(pool);
        return pool->follow->sequences;
    }
    /* decided: this step needs no record, but for the ends in the next one */
    learn->is_recording = learn->present.count < TARN__LEARN_PREFIX;
    learn->is_ambiguous = learn->is_ambiguous && learn->is_recording;
    learn->record.has_places_alone = !learn->is_recording;
    return false;
}

void tarn__learn_leave(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);
    if (pool->follow->learn->is_on)
        follow_shape(pool, NULL);
}

void tarn__learn_note_block(struct tarn__pool *pool, tarn__index index, uint64_t key)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    if (!learn->is_on)
        return;
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    tarn__record_allocate(&learn->record, tarn__node(&pool->heap.nodes, index), key);
    if (learn->record.peak_allocated < pool->heap.allocated_bytes)
        learn->record.peak_allocated = pool->heap.allocated_bytes;
    if (learn->record.peak_reserved < reserved)
        learn->record.peak_reserved = reserved;
}

void tarn__learn_note_repeats(struct tarn__pool *pool, tarn__index index, uint64_t key,
                              uint64_t count)
{
    struct tarn__learn *learn = pool->follow->learn;
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    tarn__assert_held(&pool->lock);
    if (!learn->is_on)
        return;
    bool is_live = tarn__node_state(node) == TARN__LIVE;
    tarn__record_skip(&learn->record, count - is_live);
    if (is_live)
        tarn__record_allocate(&learn->record, node, key);
}

void tarn__learn_note_free(struct tarn__pool *pool, tarn__index index, uint64_t key)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    if (learn->is_on)
        tarn__record_deallocate(&learn->record, tarn__node(&pool->heap.nodes, index),
                                key);
}

/* --- steps to be planned --- */

static void remove_first_job(struct tarn__learn *learn)
{
    learn->job_count--;
    memmove(learn->jobs, learn->jobs + 1, learn->job_count * sizeof *learn->jobs);
}

/* Forget the steps that wait to be planned. */
static void drop_waiting(struct tarn__learn *learn)
{
    while (learn->job_count > 0 && !learn->jobs[learn->job_count - 1].is_taken)
        tarn__planner_finish(learn->jobs[--learn->job_count].planner);
}

/* Return the planner of the first step if it is to be started. */
static struct tarn__planner *to_be_started(struct tarn__learn *learn)
{
    if (learn->job_count == 0 || learn->jobs[0].is_taken)
        return NULL;
    learn->jobs[0].is_taken = true;
    return learn->jobs[0].planner;
}

/* --- the end of learning --- */

/* Return true if most of the memory is free. The handles of a pool that learns are small: once
 * it has ended, their moves would spend its budget. */
static bool is_mostly_free(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    return pool->heap.allocated_bytes < tarn__pages_reserved(pool->pages) / 2;
}

static void end(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    learn->is_trim_due = learn->is_trim_due || is_mostly_free(pool);
    learn->is_on = learn->is_recording = false;
    atomic_store(&learn->detect.is_on, false);
    pool->moves_freely = false;
    tarn__pages_set_tight(pool->pages, tarn__pool_is_tight(pool));
    tarn__state_end(pool);
    pool->follow->sequences = NULL;
    free_shapes(learn);
    drop_waiting(learn);
}

/* End learning in vain, after the message of the warning was kept. */
static void end_in_vain(struct tarn__pool *pool, tarn_pool_plan_state state)
    TARN__REQUIRES(pool_lock)
{
    pool->follow->state = state;
    atomic_store(&pool->follow->has_news, true);
    end(pool);
}

static void end_undetected(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;

    snprintf(follow->news, sizeof follow->news,
             "pool: learning is off: no repeated step was found in %d allocations",
             TARN__DETECT_MOST);
    end_in_vain(pool, TARN_POOL_PLAN_OFF_UNREPEATED);
}

static void end_unrepeated(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;

    if (follow->learn->failures == TARN__LEARN_FAILURES)
        snprintf(follow->news, sizeof follow->news,
                 "pool: learning is off: no plan could be made of %d steps",
                 TARN__LEARN_FAILURES);
    else
        snprintf(follow->news, sizeof follow->news,
                 "pool: learning is off: none of %d steps in a row got a plan",
                 TARN__LEARN_UNREPEATED);
    end_in_vain(pool, TARN_POOL_PLAN_OFF_UNREPEATED);
}

/* The plans are in the way of steps without one. */
static void end_over(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;
    const struct tarn__record *record = &follow->learn->record;

    snprintf(follow->news, sizeof follow->news,
             "pool: learning is off: %llu bytes were reserved for %llu live ones",
             (unsigned long long)record->peak_reserved,
             (unsigned long long)record->peak_allocated);
    end_in_vain(pool, TARN_POOL_PLAN_OFF_MEMORY);
}

static void end_costly(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;
    const struct tarn__cost *cost = &follow->learn->cost;

    snprintf(follow->news, sizeof follow->news,
             "pool: learning is off: the last %d steps made %llu driver calls for %llu "
             "allocations",
             TARN__COST_STEPS, (unsigned long long)cost->last.calls,
             (unsigned long long)cost->last.allocations);
    end_in_vain(pool, TARN_POOL_PLAN_OFF_MOVES);
}

/* --- plans that are worse than none --- */

enum { PLAIN_TOLERANCE = 50 }; /* part of what was reserved */
#define PLAIN_EXTRA ((uint64_t)16 << 20)

uint64_t tarn__learn_most_reserved(const struct tarn__learn *learn, uint64_t allocated)
{
    uint64_t most = learn->plain_reserved + learn->plain_reserved / PLAIN_TOLERANCE;

    if (allocated > learn->plain_allocated) /* more is live than at that time */
        most += allocated - learn->plain_allocated;
    return most + PLAIN_EXTRA;
}

/* Note what the present step needed, which had no plan. Once there are plans, its reserved
 * bytes are not those of a plain pool: more live ones count alone. */
static void note_plain(struct tarn__learn *learn)
{
    const struct tarn__record *record = &learn->record;
    uint64_t more = record->peak_allocated > learn->plain_allocated
                        ? record->peak_allocated - learn->plain_allocated
                        : 0;

    learn->plain_allocated += more;
    if (learn->counts.plans > 0)
        learn->plain_reserved += more;
    else if (learn->plain_reserved < record->peak_reserved)
        learn->plain_reserved = record->peak_reserved;
}

/* Have the mark return memory if the pool reserved too much in the present step, which had no
 * plan. */
static void judge_plain(struct tarn__learn *learn)
{
    const struct tarn__record *record = &learn->record;
    bool is_over =
        learn->counts.plans > 0 &&
        record->peak_reserved > tarn__learn_most_reserved(learn, record->peak_allocated);

    learn->over = is_over ? learn->over + 1 : 0;
    learn->is_trim_due = learn->is_trim_due || is_over;
}

static void note_worse(struct tarn__learn *learn, uint64_t signature)
{
    learn->worse[learn->counts.worse++ % TARN__LEARN_WORSE] = signature;
}

static bool is_worse_than_none(const struct tarn__learn *learn, uint64_t signature)
{
    for (unsigned i = 0; i < TARN__LEARN_WORSE && i < learn->counts.worse; i++)
        if (learn->worse[i] == signature)
            return true;
    return false;
}

/* Return true if the plans have settled by the mark that calls this. The next time that takes
 * twice as many marks, up to 2^6 times as many. */
static bool has_settled(struct tarn__learn *learn)
{
    enum { DOUBLINGS = 6 };

    if (learn->marks_to_trim == 0 || --learn->marks_to_trim > 0)
        return false;
    if (learn->counts.plans > 1 && learn->settled < DOUBLINGS)
        learn->settled++;
    return true;
}

bool tarn__learn_is_trim_due(struct tarn__pool *pool)
{
    struct tarn__learn *learn = pool->follow->learn;
    bool is_due = learn->is_trim_due;

    tarn__assert_held(&pool->lock);
    learn->is_trim_due = false;
    return has_settled(learn) || is_due;
}

/* A layout whose slots of so many of the step's bytes were in use is in a bad place. After
 * so many moves without a step that pays, the place is not the cause. */
enum { BLOCKED_PART = 20, MOVES_IN_VAIN = 2 };

/* Have all layouts begin where the area is not in use. Blocks that stay have their addresses:
 * a step that was not like the others got them for long. Returns false if there is no such
 * place, or if other causes made the plan bad. */
static bool has_moved_layouts(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;
    const struct tarn__follow_step *step = &pool->follow->step;
    uint64_t height = 0;

    if (step->blocked_quanta <= step->quanta / BLOCKED_PART ||
        pool->follow->moves == MOVES_IN_VAIN)
        return false;
    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        if (learn->shapes[i].sequences && height < learn->shapes[i].sequences->height)
            height = learn->shapes[i].sequences->height;
    if (!tarn__state_move(pool, height))
        return false;
    learn->is_trim_due = true;
    return true;
}

/* Forget the plan that is followed. */
static void drop_active(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    forget_shape(pool, learn->active);
    pool->follow->state = TARN_POOL_PLAN_LEARNING;
    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        if (learn->shapes[i].sequences)
            pool->follow->state = TARN_POOL_PLAN_FOLLOWED;
}

bool tarn__learn_drop(struct tarn__pool *pool, bool is_worse)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    if (!is_worse && has_moved_layouts(pool))
        return true;
    if (is_worse)
        note_worse(learn, learn->active->signature);
    if (++learn->failures == TARN__LEARN_FAILURES) {
        end(pool);
        return false;
    }
    drop_active(pool);
    return true;
}

void tarn__learn_give_up(struct tarn__pool *pool)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    note_worse(learn, learn->active->signature);
    drop_active(pool);
}

/* --- marks --- */

/* Follow no plan and record nothing until the next mark: the end of the present step is
 * unknown, so no plan is judged by it. */
static void pause_learning(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    follow_shape(pool, NULL);
    learn->is_recording = false;
    learn->allocations = 0;
    learn->unrepeated++;
}

bool tarn__learn_detect(struct tarn__pool *pool, uint32_t quanta)
{
    struct tarn__learn *learn = pool->follow->learn;
    bool was_found = learn->detect.is_found;

    tarn__assert_held(&pool->lock);
    if (!tarn__learn_detects(pool))
        return false;
    bool begins = tarn__detect_note(&learn->detect, pool->heap.allocated_bytes, quanta);
    if (!tarn__learn_detects(pool))
        end_undetected(pool);
    else if (was_found && !learn->detect.is_found && learn->is_on)
        pause_learning(pool);
    return begins;
}

struct tarn__planner *tarn__learn_take_done(struct tarn__pool *pool)
{
    struct tarn__learn *learn = pool->follow->learn;
    bool is_at_work = learn->job_count > 0 && learn->jobs[0].has_started;
    struct tarn__planner *planner = is_at_work ? learn->jobs[0].planner : NULL;

    tarn__assert_held(&pool->lock);
    if (!planner || !atomic_load(&planner->is_done))
        return NULL;
    learn->jobs[0].planner = NULL;
    return planner;
}

void tarn__learn_enter(struct tarn__pool *pool, struct tarn__sequences *sequences)
{
    struct tarn__learn *learn = pool->follow->learn;
    struct tarn__learn_shape *shape = unused_shape(learn), planned = learn->jobs[0].shape;

    tarn__assert_held(&pool->lock);
    remove_first_job(learn);
    if (sequences && !shape)
        shape = smaller_shape(learn, &planned, sequences->memory.peak_allocated);
    if (!sequences || !shape || !learn->is_on || !tarn__state_has_room(pool, sequences)) {
        tarn__sequences_free(sequences);
        learn->failures += learn->is_on;
        return;
    }
    if (tarn__state_expected(sequences) >
        tarn__learn_most_reserved(learn, sequences->memory.peak_allocated)) {
        note_worse(learn, planned.signature);
        tarn__sequences_free(sequences);
        return;
    }
    forget_shape(pool, shape);
    *shape = planned;
    shape->sequences = sequences;
    learn->guess = shape;
    learn->unlike = 0;
    learn->counts.plans++;
    tarn__cost_note_plan(&learn->cost);
    learn->marks_to_trim =
        learn->counts.plans == 1 ? 1 : TARN__LEARN_SETTLED << learn->settled;
}

/* Return true if a shape has a plan, or gets one. */
static bool is_known(const struct tarn__learn *learn, uint64_t signature)
{
    bool is = false;

    for (unsigned i = 0; i < learn->job_count; i++)
        is = is || learn->jobs[i].shape.signature == signature;
    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        is =
            is || (learn->shapes[i].sequences && learn->shapes[i].signature == signature);
    return is;
}

/* Return true if a step without a plan had this signature a short time ago. Else it has
 * from now on. */
static bool is_repeated(struct tarn__learn *learn, uint64_t signature)
{
    for (unsigned i = 0; i < TARN__LEARN_RECENT && i < learn->recent_count; i++)
        if (learn->recent[i] == signature)
            return true;
    learn->recent[learn->recent_count++ % TARN__LEARN_RECENT] = signature;
    return false;
}

/* Return true if one more shape may have a plan. A larger step waits until no other one is to
 * be planned. */
static bool has_space_for_shape(struct tarn__learn *learn)
{
    unsigned count = learn->job_count;

    for (int i = 0; i < TARN__LEARN_SHAPES; i++)
        count += learn->shapes[i].sequences != NULL;
    return count < TARN__LEARN_SHAPES ||
           (learn->job_count == 0 &&
            smaller_shape(learn, &learn->present, learn->record.peak_allocated));
}

/* Have the present step planned, which was recorded, if it is a repeated one. */
static void plan_step(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    learn->counts.steps++;
    if (is_known(learn, learn->present.signature)) {
        learn->unrepeated = 0;
        return;
    }
    bool is_seen = is_repeated(learn, learn->present.signature) ||
                   (tarn__learn_detects(pool) && learn->detect.is_repeated);
    if (is_worse_than_none(learn, learn->present.signature) || !is_seen ||
        !has_space_for_shape(learn)) {
        learn->unrepeated++;
        return;
    }
    learn->unrepeated = 0;
    if (learn->job_count == TARN__LEARN_JOBS)
        return;
    learn->record.holes = tarn__holes_find(pool, &learn->record);
    struct tarn__planner *planner = tarn__planner_new(&learn->record);
    learn->failures += planner == NULL;
    if (planner)
        learn->jobs[learn->job_count++] =
            (struct tarn__learn_job){.planner = planner, .shape = learn->present};
}

/* Note the calls of the present step, which ends. Returns true if those of the last periods were
 * too many. Behind the first quiet period the mark returns free memory. The plans have it in
 * large handles from then on (has_large_handles). */
static bool has_become_costly(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;
    bool is_costly = tarn__cost_note_step(
        &learn->cost, tarn__pages_own_calls(pool->pages), learn->record.count);

    if (learn->counts.plans > 0 && learn->cost.is_quiet && !learn->has_enlarged)
        learn->has_enlarged = learn->is_trim_due = true;
    return is_costly;
}

/* Note the end of the present step. */
static void end_step(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    if (learn->allocations == 0)
        return;
    if (!learn->active) {
        note_plain(learn);
        judge_plain(learn);
    }
    if (learn->active)
        learn->unrepeated = 0;
    else if (learn->is_recording && learn->record.is_whole && learn->record.count > 0)
        plan_step(pool);
    else
        learn->unrepeated++;
    if (learn->has_borrowed)
        learn->unrepeated = 0;
    learn->has_borrowed = false;
}

static void begin_step(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__record_restart(&learn->record, pool->heap.allocated_bytes);
    learn->allocations = 0;
    learn->present.signature = 0;
    learn->present.quanta = 0;
    learn->present.count = 0;
    learn->is_recording = true;
    learn->is_ambiguous = false;
    follow_shape(pool, learn->guess);
}

struct tarn__planner *tarn__learn_mark(struct tarn__pool *pool)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    /* after its end this pool has no plan, and it has none before the first mark */
    if (pool->follow->state != TARN_POOL_PLAN_LEARNING &&
        pool->follow->state != TARN_POOL_PLAN_FOLLOWED)
        return NULL;
    if (learn->is_on)
        end_step(pool);
    learn->is_on = true;
    atomic_store(&pool->follow->is_asked, true);
    if (has_become_costly(pool))
        end_costly(pool);
    else if (learn->over == TARN__LEARN_OVER)
        end_over(pool);
    else if (learn->unrepeated >= TARN__LEARN_UNREPEATED ||
             learn->failures >= TARN__LEARN_FAILURES)
        end_unrepeated(pool);
    else
        begin_step(pool);
    return to_be_started(learn);
}

void tarn__learn_started(struct tarn__pool *pool, bool has_thread)
{
    struct tarn__learn *learn = pool->follow->learn;

    tarn__assert_held(&pool->lock);
    if (has_thread) {
        learn->jobs[0].has_started = true;
        return;
    }
    remove_first_job(learn);
    learn->failures++;
}
