/* follow.c -- a pool that follows a plan: the slot of an allocation, and its memory. */
#include "pool/follow/follow.h"
#include "pool/compact/grow_vmm.h"
#include "pool/compact/retired.h"
#include "pool/follow/area.h"
#include "pool/follow/find.h"
#include "pool/follow/guard.h"
#include "pool/follow/learn.h"
#include "pool/follow/match.h"
#include "pool/follow/repeat.h"
#include "pool/follow/state.h"
#include "pool/order/fence.h"
#include "pool/order/no_stream.h"
#include "pool/order/wait_set.h"
#include "base/thread.h"
#include <stdlib.h>

/* Slots of a size that are tried for one allocation; event fences queried before a wait;
 * requests for event fences, each of a few streams; steps until a slot is available. */
enum { TRIES = 4, QUERIES = 4, REQUESTS = 4, TURNS = 8 };

/* --- the slot of an allocation --- */

/* The earlier requests of this step have slots in the sequences, too. */
static void replay(struct tarn__follow *follow) TARN__REQUIRES(pool_lock)
{
    const struct tarn__learn *learn = follow->learn;

    for (uint32_t i = 0; i + 1 < learn->present.count; i++) {
        const struct tarn__learn_request *request = &learn->requests[i];
        struct tarn__match match = {
            .sequences = follow->sequences,
            .sequence = tarn__find_sequence(follow, request->thread, request->key),
            .quanta = request->quanta,
            .takes_larger = follow->is_borrowed};
        if (!match.sequence)
            continue;
        tarn__match_begin(&match);
        if (tarn__match_next(&match))
            tarn__match_accept(&match);
    }
}

static uint64_t address_of(const struct tarn__heap *heap, uint32_t offset)
{
    return tarn__area_begin(heap) + ((uint64_t)offset << TARN__QUANTUM_SHIFT);
}

static bool is_aligned(const struct tarn__heap *heap, uint32_t offset,
                       const struct tarn__request *request)
{
    return address_of(heap, offset) % request->alignment == 0;
}

/* Look at the addresses of a slot. */
static enum tarn__area_use look(struct tarn__pool *pool,
                                const struct tarn__stream_state *stream_state,
                                const struct tarn__request *request, uint32_t offset,
                                uint32_t rank, struct tarn__area_look *out)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__sequences *sequences = pool->follow->sequences;
    uint64_t address = address_of(&pool->heap, offset);
    uint64_t bytes = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    /* Both are written once the block is taken. */
    tarn__addresses_prefetch(&pool->heap.addresses, address);
    __builtin_prefetch(&sequences->nodes[rank], 1);
    uint32_t before = tarn__bits_previous(&sequences->live, rank);

    if (!is_aligned(&pool->heap, offset, request))
        return TARN__AREA_BLOCKED;
    tarn__index node = before == TARN__BITS_NONE ? tarn__area_first(&pool->heap)
                                                 : sequences->nodes[before];
    return tarn__area_look(&pool->heap, stream_state, node, address, bytes, out);
}

/* Leave a learned plan if the step has become other work. */
static void leave_other_work(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    if (!tarn__guard_is_other_work(pool))
        return;
    tarn__repeat_end_all(pool);
    tarn__guard_end_step(pool);
    tarn__learn_leave(pool);
}

/* Begin to ask the plan, for an allocation of a stream. Returns false if the pool follows
 * none. */
static bool asks(struct tarn__pool *pool, uint64_t key, uint32_t quanta,
                 struct tarn__followed *followed) TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;

    follow->is_short = false;
    if (follow->learn)
        leave_other_work(pool);
    if (follow->learn && tarn__learn_note_request(pool, key, quanta))
        replay(follow);
    *followed = (struct tarn__followed){.is_made = true, .version = follow->version};
    return follow->is_on;
}

/* The allocation is the slot that was found. */
static void accept(struct tarn__pool *pool, struct tarn__match *match)
    TARN__REQUIRES(pool_lock)
{
    tarn__match_accept(match);
    tarn__guard_note_slot(pool, true);
}

/* The allocation gets no slot. `is_blocked`: the addresses of all candidates are in use. */
static void reject(struct tarn__pool *pool, struct tarn__match *match, bool is_blocked)
    TARN__REQUIRES(pool_lock)
{
    bool is_next = tarn__match_reject(match);

    tarn__guard_note_slot(pool, is_next || is_blocked);
    if (is_blocked)
        pool->follow->step.blocked_quanta += match->quanta;
}

/* Return true if an allocation that is this slot has memory outside of the layout. While
 * several plans begin as the step does, so have its small blocks: at an address of the wrong
 * plan one could be in the way of a large slot. */
static bool is_outside(const struct tarn__follow *follow,
                       const struct tarn__sequences_slot *slot) TARN__REQUIRES(pool_lock)
{
    return slot->offset == TARN__SEQUENCES_OUTSIDE ||
           (follow->learn && follow->learn->is_ambiguous &&
            slot->quanta < TARN__STATE_SHARED_LEAST);
}

/* Choose the slot of an allocation: the first candidate whose addresses are not in
 * use. */
static enum tarn__area_use choose(struct tarn__pool *pool,
                                  struct tarn__sequence *sequence,
                                  const struct tarn__stream_state *stream_state,
                                  const struct tarn__request *request,
                                  struct tarn__area_look *out,
                                  struct tarn__followed *followed)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__follow *follow = pool->follow;
    struct tarn__match match = {.sequences = follow->sequences,
                                .sequence = sequence,
                                .quanta = request->quanta,
                                .takes_larger = follow->is_borrowed};
    bool is_blocked = false;

    if (!tarn__guard_note_allocation(pool, request->quanta)) {
        tarn__repeat_end_all(pool);
        return TARN__AREA_BLOCKED;
    }
    if (!sequence)
        return TARN__AREA_BLOCKED;
    tarn__match_begin(&match);
    for (int tries = 0; tries < TRIES && tarn__match_next(&match); tries++) {
        const struct tarn__sequences_slot *slot = tarn__match_slot(&match);
        if (is_outside(follow, slot) && tries > 0)
            continue;
        if (is_outside(follow, slot)) {
            accept(pool, &match);
            tarn__guard_note_outside(pool, request->quanta);
            return TARN__AREA_BLOCKED;
        }
        enum tarn__area_use use =
            look(pool, stream_state, request, slot->offset, slot->rank, out);
        if (use == TARN__AREA_BLOCKED && tarn__thread_caches_return_few_last_freed(pool))
            use = look(pool, stream_state, request, slot->offset, slot->rank, out);
        is_blocked = is_blocked || (use == TARN__AREA_BLOCKED &&
                                    is_aligned(&pool->heap, slot->offset, request));
        if (use == TARN__AREA_BLOCKED)
            continue;
        accept(pool, &match);
        follow->counts.resynchronized += match.is_realigned;
        followed->has_slot = true;
        followed->offset = slot->offset;
        followed->rank = slot->rank;
        follow->last_slot = sequence->first + match.place;
        return use;
    }
    reject(pool, &match, is_blocked);
    followed->is_blocked = is_blocked;
    return TARN__AREA_BLOCKED;
}

/* Note that a block, in transit, is at the address of a slot. */
static tarn__index enter(struct tarn__pool *pool, tarn__index index, uint32_t rank)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    node->next = rank;
    tarn__node_set_capture(node, TARN__NODE_PLANNED);
    tarn__sequences_enter(pool->follow->sequences, rank, index);
    tarn__guard_note_planned(pool, node->quanta);
    return index;
}

bool tarn__follow_is_on(const struct tarn__pool *pool)
{
    return pool->follow && pool->follow->is_on;
}

size_t tarn__follow_metadata(const struct tarn__pool *pool)
{
    if (!pool->follow)
        return 0;
    if (pool->follow->learn)
        return sizeof *pool->follow + tarn__learn_metadata(pool);
    return sizeof *pool->follow + pool->follow->sequences->bytes;
}

tarn__index tarn__follow_take(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                              const struct tarn__request *request,
                              struct tarn__followed *out)
{
    struct tarn__area_look found;
    struct tarn__run run;

    tarn__assert_held(&pool->lock);
    if (!asks(pool, cache->key, request->quanta, out))
        return 0;
    struct tarn__sequence *sequence = tarn__find_sequence_of_cache(pool->follow, cache);
    if (choose(pool, sequence, cache->stream_state, request, &found, out) !=
        TARN__AREA_NOW)
        return 0;
    tarn__runs_take_range(&pool->heap, found.first, found.address, found.bytes, &run);
    if (run.count == 0)
        return 0;
    return enter(pool, tarn__runs_coalesce(&pool->heap, &run), out->rank);
}

/* --- with waits and growth --- */

struct follow_search {
    struct tarn__caller *caller;
    const struct tarn__request *request;
    struct tarn__followed *followed;
    struct tarn__area_look look;
    bool has_polled, has_waited;
    unsigned requests;
};

/* Return true if the slot is still proposed, and no other thread has taken it. */
static bool is_proposed(const struct tarn__pool *pool,
                        const struct tarn__followed *followed) TARN__REQUIRES(pool_lock)
{
    return followed->has_slot && tarn__follow_is_on(pool) &&
           followed->version == pool->follow->version &&
           pool->follow->sequences->nodes[followed->rank] == 0;
}

/* Ask the plan, or look again at what it proposed. */
static enum tarn__area_use look_again(struct follow_search *search)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__caller *caller = search->caller;
    struct tarn__pool *pool = caller->pool;
    struct tarn__followed *followed = search->followed;
    uint64_t key = caller->stream_state->identity.key;

    if (atomic_load(&pool->lifecycle))
        return TARN__AREA_BLOCKED;
    if (!followed->is_made)
        return asks(pool, key, search->request->quanta, followed)
                   ? choose(
                         pool, tarn__find_sequence(pool->follow, tarn__thread_id(), key),
                         caller->stream_state, search->request, &search->look, followed)
                   : TARN__AREA_BLOCKED;
    return is_proposed(pool, followed)
               ? look(pool, caller->stream_state, search->request, followed->offset,
                      followed->rank, &search->look)
               : TARN__AREA_BLOCKED;
}

/* Take the blocks at the addresses, after a wait for each stream that freed some of them.
 * `lock` held; it is released meanwhile. */
static tarn__index take_after_wait(struct follow_search *search) TARN__REQUIRES(pool_lock)
{
    struct tarn__caller *caller = search->caller;
    struct tarn__pool *pool = caller->pool;
    struct tarn__wait_set wait_set = {.count = 0};
    struct tarn__run run;
    tarn__index index = 0;

    tarn__assert_held(&pool->lock);
    tarn__runs_take_range(&pool->heap, search->look.first, search->look.address,
                          search->look.bytes, &run);
    if (run.count == 0)
        return 0;
    if (!TARN_MUTATION(plan_trusted_for_order))
        tarn__wait_set_add(&wait_set, caller, &run);
    tarn__wait_set_pin(&wait_set, pool);
    tarn__pool_unlock(pool);
    bool waited = tarn__wait_set_wait(&wait_set, caller) ||
                  TARN_MUTATION(wait_failed_taken_as_done);
    tarn__pool_lock(pool);
    /* The plan may have ended meanwhile: then the block is one outside of a plan. */
    if (waited)
        index = tarn__runs_coalesce(&pool->heap, &run);
    else
        tarn__runs_put(&pool->heap, &run);
    if (index && is_proposed(pool, search->followed))
        enter(pool, index, search->followed->rank);
    tarn__wait_set_release(&wait_set, caller, waited);
    return index;
}

/* Query event fences before a wait: where the device is done, no wait is needed. */
static bool has_polled_now(struct follow_search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (search->has_polled)
        return false;
    search->has_polled = true;
    tarn__pool_lock(pool);
    bool may_query = tarn__backoff_next(&pool->miss_backoff);
    tarn__pool_unlock(pool);
    if (!may_query)
        return false;
    bool any = tarn__fences_poll(pool, QUERIES);
    tarn__pool_lock(pool);
    tarn__backoff_note(&pool->miss_backoff, any);
    tarn__pool_unlock(pool);
    return any;
}

/* Have other streams fence what they freed. */
static bool has_requested_now(struct follow_search *search)
{
    if (search->requests == REQUESTS || !search->caller->may_record)
        return false;
    search->requests++;
    tarn__fences_request(search->caller->pool, search->caller);
    return true;
}

/* Complete all frees, if the block is so large that its memory is worth a device-wide wait.
 * The ordinary search waits for the device, too, once much is free without a stream. */
static bool has_waited_now(struct follow_search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (search->has_waited)
        return false;
    search->has_waited = true;
    tarn__pool_lock(pool);
    bool is_worth_it = search->request->quanta >= pool->follow->price;
    tarn__pool_unlock(pool);
    return is_worth_it && tarn__fences_wait_for_device(pool) == TARN_OK;
}

/* Complete what was freed without a stream, before an allocation without one has the pool
 * grow beyond its aim: only completed pages can move. */
static void complete_beyond_aim(struct follow_search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    tarn__pool_lock(pool);
    uint64_t reserved = tarn__pages_reserved(pool->pages),
             bytes = (uint64_t)search->request->quanta << TARN__QUANTUM_SHIFT;
    bool is_due = tarn__follow_is_on(pool) && tarn__no_stream_bytes(pool) > 0 &&
                  search->caller->stream_state->identity.key == TARN__KEY_NO_STREAM &&
                  (reserved > pool->follow->aim || bytes > pool->follow->aim - reserved);
    tarn__pool_unlock(pool);
    if (is_due)
        has_waited_now(search);
}

/* Return the first addresses of the slot that have no memory: whole pages. */
static struct tarn__span missing(const struct follow_search *search)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__area_look *found = &search->look;
    const struct tarn__node *range =
        tarn__node(&search->caller->pool->heap.nodes, found->unmapped);
    uint64_t page = TARN__PAGE_BYTES, end = found->address + found->bytes;
    uint64_t begin = found->address & ~(page - 1);

    begin = begin > range->address ? begin : range->address;
    end = (end + page - 1) & ~(page - 1);
    end = end < tarn__node_end(range) ? end : tarn__node_end(range);
    return (struct tarn__span){begin, end - begin};
}

/* Map memory at the first addresses of the slot that have none. */
static bool has_mapped(struct follow_search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    struct tarn__grow_at at = {0};
    tarn_status status = TARN_OUT_OF_MEMORY;

    if (tarn__pool_take_growth(pool) != TARN_OK)
        return false;
    tarn__pool_assert_growth(pool);
    tarn__retired_unmap_completed(pool);
    tarn__pool_lock(pool);
    bool is_due = look_again(search) == TARN__AREA_MAP;
    if (is_due) {
        const struct tarn__sequences *sequences = pool->follow->sequences;
        at.range = search->look.unmapped;
        at.need = missing(search);
        at.end = tarn__area_begin(&pool->heap) + tarn__pages_round_up(sequences->height);
        at.kept = (struct tarn__span){search->look.begin,
                                      search->look.end - search->look.begin};
        at.aim = pool->follow->aim;
        at.has_large_handles = pool->follow->learn && pool->follow->learn->cost.is_quiet;
    }
    tarn__pool_unlock(pool);
    if (is_due)
        status = tarn__grow_vmm_at(search->caller, &at);
    tarn__pool_leave_growth(pool);
    return !is_due || status == TARN_OK;
}

/* Do what is needed before the slot can be used. Returns false if that is in vain. */
static bool has_prepared(struct follow_search *search, enum tarn__area_use use)
{
    if (use == TARN__AREA_MAP)
        complete_beyond_aim(search);
    if (use == TARN__AREA_MAP)
        return has_mapped(search);
    if (use == TARN__AREA_DEVICE)
        return has_waited_now(search);
    if (use == TARN__AREA_FENCE)
        return has_requested_now(search);
    return use == TARN__AREA_WAIT && has_polled_now(search);
}

tarn__index tarn__follow_search(struct tarn__caller *caller,
                                const struct tarn__request *request,
                                struct tarn__followed *followed)
{
    struct tarn__pool *pool = caller->pool;
    struct follow_search search = {
        .caller = caller, .request = request, .followed = followed};
    tarn__index index = 0;

    if (caller->capturing || caller->stream_state->is_capture)
        return 0;
    for (int turn = 0; turn < TURNS; turn++) {
        tarn__pool_lock(pool);
        enum tarn__area_use use = look_again(&search);
        bool takes = use == TARN__AREA_NOW ||
                     (use == TARN__AREA_WAIT && search.has_polled && caller->may_record);
        if (takes)
            index = take_after_wait(&search);
        tarn__pool_unlock(pool);
        if (takes || use == TARN__AREA_BLOCKED)
            break;
        bool prepared = has_prepared(&search, use);
        if (!prepared && use != TARN__AREA_WAIT)
            break;
    }
    return index;
}

void tarn__follow_note(struct tarn__pool *pool, tarn__index index, uint64_t key,
                       const struct tarn__followed *followed)
{
    tarn__assert_held(&pool->lock);
    if (pool->follow->learn && followed->is_made)
        tarn__learn_note_block(pool, index, key);
}

/* --- marks --- */

/* Enter the plan of a planner that has done its work, if there is one. */
static void enter_plan(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    struct tarn__planner *planner = tarn__learn_take_done(pool);
    tarn__pool_unlock(pool);
    if (!planner)
        return;
    struct tarn__sequences *sequences = tarn__planner_finish(planner);
    tarn__pool_lock(pool);
    tarn__learn_enter(pool, sequences);
    tarn__pool_unlock(pool);
}

static void start_planner(struct tarn__pool *pool, struct tarn__planner *planner)
{
    bool has_started = tarn__planner_start(planner);

    tarn__pool_lock(pool);
    tarn__learn_started(pool, has_started);
    tarn__pool_unlock(pool);
    if (!has_started)
        tarn__planner_finish(planner);
}

/* Mark a step of a pool that learns. Returns true if free memory is to be returned. */
static bool mark_learned(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    bool was_on = tarn__learn_is_on(pool);
    tarn__repeat_end_all(pool);
    tarn__guard_end_step(pool);
    tarn__pool_unlock(pool);
    enter_plan(pool);
    tarn__pool_lock(pool);
    pool->follow->is_marked = true;
    tarn__repeat_end_all(pool); /* other threads may have begun some */
    struct tarn__planner *planner = tarn__learn_mark(pool);
    bool is_due = tarn__learn_is_trim_due(pool);
    bool begins = !was_on && tarn__learn_is_on(pool);
    tarn__pool_unlock(pool);
    if (planner)
        start_planner(pool, planner);
    if (begins) /* what is cached would be missing in the record */
        tarn__thread_caches_drain(pool);
    return is_due;
}

bool tarn__follow_detect(struct tarn__pool *pool, uint32_t quanta)
{
    if (!tarn__learn_detects(pool))
        return false;
    tarn__pool_lock(pool);
    bool begins = tarn__learn_detect(pool, quanta);
    tarn__pool_unlock(pool);
    return begins;
}

void tarn__follow_end_detection(struct tarn__pool *pool)
{
    if (!pool->follow->learn)
        return;
    tarn__pool_lock(pool);
    atomic_store(&pool->follow->learn->detect.is_on, false);
    tarn__pool_unlock(pool);
}

/* Unmap what moved away from addresses of the area, which slots of the step may need, where
 * the device has done its work. Returns true if there is more. */
static bool has_retired(struct tarn__pool *pool)
{
    if (tarn__pool_take_growth(pool) != TARN_OK)
        return false;
    tarn__pool_assert_growth(pool);
    tarn__retired_unmap_completed(pool);
    bool has_more = pool->retired_count > 0;
    tarn__pool_leave_growth(pool);
    return has_more;
}

bool tarn__follow_begin(struct tarn__pool *pool)
{
    if (!atomic_load(&pool->follow->has_retired) ||
        !atomic_exchange(&pool->follow->has_retired, false))
        return false;
    has_retired(pool);
    return true;
}

bool tarn__follow_mark(struct tarn__pool *pool)
{
    atomic_store(&pool->follow->has_retired, has_retired(pool));
    if (pool->follow->learn)
        return mark_learned(pool);
    tarn__pool_lock(pool);
    tarn__repeat_end_all(pool);
    tarn__guard_end_step(pool);
    pool->follow->is_marked = true;
    tarn__state_restart(pool);
    tarn__pool_unlock(pool);
    return false;
}

bool tarn__follow_share(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    bool shares = pool->heap.area_least > 0 ||
                  (tarn__follow_is_on(pool) && !tarn__area_is_shared(&pool->heap));
    if (shares)
        tarn__area_share(&pool->heap, 0);
    tarn__pool_unlock(pool);
    return shares;
}

bool tarn__follow_share_before_growth(struct tarn__pool *pool,
                                      const struct tarn__request *request,
                                      const struct tarn__followed *followed)
{
    uint64_t bytes = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    if (!pool->follow->learn || followed->has_slot ||
        request->quanta < TARN__STATE_SHARED_LEAST)
        return false;
    tarn__pool_lock(pool);
    bool is_over = tarn__follow_is_on(pool) && !tarn__area_is_shared(&pool->heap) &&
                   tarn__pages_reserved(pool->pages) + bytes >
                       tarn__learn_most_reserved(pool->follow->learn,
                                                 pool->heap.allocated_bytes + bytes);
    bool shares = is_over && followed->is_blocked;
    pool->follow->is_short = is_over && !shares;
    if (shares)
        tarn__area_share(&pool->heap, TARN__STATE_SHARED_LEAST);
    tarn__pool_unlock(pool);
    return shares;
}

/* Return true if another stream may have the addresses of a slot next. It cannot fence the
 * frees of a raw stream itself. */
static bool is_to_be_fenced(const struct tarn__sequences *sequences, uint32_t rank,
                            const struct tarn__stream_state *stream_state)
{
    return !sequences->has_one_stream && stream_state->in_order &&
           !stream_state->identity.registration &&
           tarn__sequences_is_handed(sequences, rank);
}

bool tarn__follow_forget(struct tarn__pool *pool, tarn__index index,
                         struct tarn__stream_state *stream_state)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    struct tarn__sequences *sequences = pool->follow->sequences;

    tarn__assert_held(&pool->lock);
    if (pool->follow->learn)
        tarn__learn_note_free(pool, index, stream_state->identity.key);
    if (node->capture != TARN__NODE_PLANNED)
        return !tarn__follow_is_on(pool) && !tarn__learn_is_on(pool);
    tarn__sequences_leave(sequences, node->next);
    tarn__node_set_capture(node, 0);
    if (is_to_be_fenced(sequences, node->next, stream_state))
        stream_state->wanted = true;
    return false;
}

bool tarn__follow_put(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                      tarn__index index)
{
    tarn__assert_held(&pool->lock);
    tarn__repeat_note(pool, cache);
    if (tarn__follow_forget(pool, index, cache->stream_state))
        return false;
    if (tarn__repeat_begin(pool, cache, index))
        return true;
    if (cache->repeat.index == 0)
        tarn__thread_cache_before_search(pool, cache);
    tarn__heap_put(&pool->heap, index, cache->stream_state);
    return true;
}
