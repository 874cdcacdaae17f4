/* guard.c -- whether a plan pays. */
#include "pool/follow/guard.h"
#include "pool/follow/area.h"
#include "pool/follow/learn.h"
#include "pool/follow/state.h"
#include "base/warn.h"
#include <stdio.h>
#include <string.h>

/* Steps in a row that do not pay; steps in a row that begin as a learned plan, and go on as
 * other work; allocations of the shortest step without marks. */
enum { BAD_STEPS = 2, OTHER_STEPS = 8, STEP_MIN = 256 };

/* The most that a plain pool reserved in trials was 1.27 times the peak live of the work,
 * or a few handles more where that is little (docs/design/plans.md). */
enum { PLAIN_PERCENT = 27 };
#define PLAIN_EXTRA ((uint64_t)64 << 20)

static uint64_t plain_reserved(const struct tarn__follow_step *step)
{
    return step->peak_allocated + step->peak_allocated / 100 * PLAIN_PERCENT +
           PLAIN_EXTRA;
}

/* Return the most bytes that the plan may have the pool reserve. What a pool that learns
 * reserved without a plan is known. Its steps differ: in a small one it has the memory of a
 * large one. */
static uint64_t most_reserved(const struct tarn__follow *follow,
                              const struct tarn__follow_step *step)
{
    return follow->learn ? tarn__learn_most_reserved(follow->learn, step->peak_allocated)
                         : plain_reserved(step);
}

static bool has_few_planned(const struct tarn__follow_step *step)
{
    return step->planned_quanta < step->quanta - step->quanta / 10;
}

/* Return the planned share of all bytes of a step. */
static double share_of(const struct tarn__follow_step *step)
{
    uint64_t all = step->quanta + step->outside_quanta;

    return all ? (double)step->planned_quanta / (double)all : 0.0;
}

/* A request without a slot counts as so many with one. More than so many without one in excess,
 * and the step is other work. */
enum { UNLIKE = 4, UNLIKE_MOST = 32 };

static bool is_other_work(const struct tarn__follow_step *step)
{
    return step->unlike > UNLIKE_MOST;
}

bool tarn__guard_is_other_work(const struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);
    return is_other_work(&pool->follow->step);
}

void tarn__guard_note_slot(struct tarn__pool *pool, bool has_slot)
{
    struct tarn__follow_step *step = &pool->follow->step;

    tarn__assert_held(&pool->lock);
    if (!has_slot)
        step->unlike += UNLIKE;
    else if (step->unlike > 0)
        step->unlike--;
}

/* Return true if the step has few planned bytes because it became other work than that of a
 * learned plan. */
static bool has_left(const struct tarn__follow *follow)
{
    return follow->learn && is_other_work(&follow->step) &&
           has_few_planned(&follow->step);
}

/* Judge the plan by the step that ends. Return true if it has not paid for too long.
 *
 * A pool that learns may have reserved memory for steps that have no plan yet, and the steps
 * of this plan do not need it. So a step is only bad if the pool grew in it. Then the pool
 * returns what it does not use, and the next step of this plan tells whether it needs it. */
static bool judge(struct tarn__follow *follow)
{
    const struct tarn__follow_step *step = &follow->step;
    struct tarn__sequences *sequences = follow->sequences;
    bool is_over = step->peak_reserved > most_reserved(follow, step);
    bool needs_more =
        is_over && (!follow->learn || step->peak_reserved > step->first_reserved);

    if (needs_more && follow->learn)
        follow->learn->is_trim_due = true;
    if (has_left(follow))
        return ++sequences->other_steps == OTHER_STEPS;
    if (has_few_planned(step) || needs_more)
        return ++sequences->bad_steps == BAD_STEPS;
    sequences->other_steps = 0;
    if (!is_over) {
        sequences->bad_steps = 0;
        follow->moves = 0;
        if (follow->learn)
            follow->learn->over = 0;
    }
    return false;
}

/* Stop following the plan, and keep the message of the warning. A pool that learns may make
 * another plan. */
static void end(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;
    const struct tarn__follow_step *step = &follow->step;

    follow->sequences->bad_steps = 0;
    if (has_left(follow)) {
        tarn__learn_give_up(pool);
        return;
    }
    if (follow->learn && tarn__learn_drop(pool, !has_few_planned(step)))
        return;
    if (has_few_planned(step)) {
        follow->state = TARN_POOL_PLAN_OFF_MISSED;
        snprintf(follow->news, sizeof follow->news,
                 "pool: the plan is off: %.1f %% of the last step's bytes were planned, "
                 "90 %% are needed",
                 step->quanta
                     ? 100.0 * (double)step->planned_quanta / (double)step->quanta
                     : 0.0);
    } else {
        follow->state = TARN_POOL_PLAN_OFF_MEMORY;
        snprintf(follow->news, sizeof follow->news,
                 "pool: the plan is off: %llu bytes were reserved for %llu live ones",
                 (unsigned long long)step->peak_reserved,
                 (unsigned long long)step->peak_allocated);
    }
    atomic_store(&follow->has_news, true);
    tarn__state_end(pool);
}

void tarn__guard_end_step(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    struct tarn__follow *follow = pool->follow;
    struct tarn__follow_step *step = &follow->step;

    if (!follow->is_on || step->allocations == 0)
        return;
    follow->counts.steps++;
    follow->share = share_of(step);
    if (follow->is_borrowed)
        tarn__learn_note_borrowed(pool, !has_few_planned(step));
    else if (judge(follow))
        end(pool);
    if (follow->is_on && !follow->is_borrowed)
        tarn__area_separate(&pool->heap, follow->area_bytes);
    memset(step, 0, sizeof *step);
}

static uint64_t step_allocations(const struct tarn__follow *follow)
{
    uint64_t slots = follow->sequences->slot_count;

    return slots > STEP_MIN ? slots : STEP_MIN;
}

bool tarn__guard_note_allocation(struct tarn__pool *pool, uint32_t quanta)
{
    tarn__assert_held(&pool->lock);

    struct tarn__follow *follow = pool->follow;
    struct tarn__follow_step *step = &follow->step;
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t allocated =
        pool->heap.allocated_bytes + (uint64_t)quanta * TARN__PLAN_QUANTUM;
    if (!follow->is_marked && step->allocations >= step_allocations(follow))
        tarn__guard_end_step(pool);
    if (!follow->is_on)
        return false;
    if (step->allocations++ == 0)
        step->first_reserved = reserved;
    step->quanta += quanta;
    follow->counts.missed++;
    if (step->peak_allocated < allocated)
        step->peak_allocated = allocated;
    if (step->peak_reserved < reserved)
        step->peak_reserved = reserved;
    return true;
}

void tarn__guard_note_planned(struct tarn__pool *pool, uint32_t quanta)
{
    struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    follow->step.planned_quanta += quanta;
    follow->counts.planned++;
    follow->counts.missed--;
}

void tarn__guard_note_repeats(struct tarn__pool *pool, uint32_t quanta, uint64_t count)
{
    struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    follow->step.allocations += count;
    follow->step.quanta += quanta * count;
    follow->step.planned_quanta += quanta * count;
    follow->counts.planned += count;
}

void tarn__guard_note_outside(struct tarn__pool *pool, uint32_t quanta)
{
    struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    follow->step.quanta -= quanta;
    follow->step.outside_quanta += quanta;
    follow->counts.missed--;
}

static void copy_news(const struct tarn__pool *pool, char *out) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    memcpy(out, pool->follow->news, sizeof pool->follow->news);
}

void tarn__guard_warn(struct tarn__pool *pool)
{
    char news[sizeof pool->follow->news];

    if (!atomic_exchange(&pool->follow->has_news, false))
        return;
    tarn__pool_lock(pool);
    copy_news(pool, news);
    tarn__pool_unlock(pool);
    tarn__warn("%s", news);
}
