/* seeded.c -- simulated time, and a pairing heap of turns. */
#include "sim/core/seeded.h"
#include "base/clock.h"
#include "base/random.h"
#include "sim/core/context.h"

/* How a seed distributes delays. One mode finds bugs that another misses. */
enum delay_mode {
    DELAY_EVEN,         /* all streams alike */
    DELAY_STARVE,       /* one stream in three is a thousand times slower */
    DELAY_PER_STREAM,   /* each stream has its own speed, up to 2^15 apart */
    DELAY_NEWEST_FIRST, /* what was queued last is first */
    DELAY_MODES,
};

enum { NEWEST_SPAN = 1024 };

bool sim_is_seeded;
static uint64_t seed, latency_min, latency_span; /* ns */
static enum delay_mode delay_mode;
static uint64_t more_in; /* one call in this many runs one more operation; 0: none */
static uint64_t generation;
static uint64_t last_number;
static uint64_t query_count;    /* the number of queries by the host */
static uint64_t first_sequence; /* of this generation; 0: none yet */
static uint64_t now_ns;
static struct sim_turn *turns; /* the next one on top */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t state = seed ^ a * 0x9e3779b97f4a7c15u;

    state = tarn__random_next(&state) ^ b * 0xd1342543de82ef95u;
    return tarn__random_next(&state);
}

uint64_t sim_seeded_draw(uint64_t a, uint64_t b, uint64_t limit)
{
    return mix(a, b) % limit;
}

void sim_seeded_start(const struct sim_options *options)
{
    static const uint64_t rates[] = {0, 0, 32, 4};
    uint64_t real = tarn__clock_now_ns();

    sim_is_seeded = options->is_seeded;
    seed = options->seed;
    latency_min = options->latency_min_ns;
    latency_span = options->latency_max_ns - latency_min + 1;
    delay_mode = (enum delay_mode)(mix(1, 0) % DELAY_MODES);
    more_in = rates[mix(2, 0) % 4];
    generation++;
    last_number = 0;
    query_count = 0;
    first_sequence = 0;
    if (now_ns < real) /* times of events must not decrease */
        now_ns = real;
}

uint64_t sim_seeded_number(const struct sim_context *context, unsigned flags)
{
    if (atomic_load(&context->is_alive))
        return ++last_number;
    return UINT64_C(1) << 32 | (uint64_t)context->device << 1 |
           (flags & CU_STREAM_NON_BLOCKING);
}

static uint64_t latency_of(const struct sim_turn *turn, uint64_t sequence)
{
    uint64_t latency = latency_min + mix(turn->number, turn->operations) % latency_span;
    uint64_t of_stream = mix(turn->number, UINT64_MAX);

    switch (delay_mode) {
    case DELAY_STARVE:
        return of_stream % 3 == 0 ? latency * 1000 : latency;
    case DELAY_PER_STREAM:
        return latency << of_stream % 16;
    case DELAY_NEWEST_FIRST:
        return latency +
               (NEWEST_SPAN - sequence % NEWEST_SPAN) * (latency_min + latency_span);
    default:
        return latency;
    }
}

/* --- the heap --- */

static bool is_before(const struct sim_turn *a, const struct sim_turn *b)
{
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    return a->sequence < b->sequence;
}

static struct sim_turn *merge(struct sim_turn *a, struct sim_turn *b)
{
    if (!a || !b)
        return a ? a : b;
    if (is_before(b, a)) {
        struct sim_turn *first = b;
        b = a;
        a = first;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

/* Merge a list of heaps into one: in pairs, then all, so that it stays logarithmic. */
static struct sim_turn *merge_all(struct sim_turn *list)
{
    struct sim_turn *pairs = NULL, *all = NULL;

    while (list) {
        struct sim_turn *first = list, *second = list->sibling;
        list = second ? second->sibling : NULL;
        first->sibling = NULL;
        if (second)
            second->sibling = NULL;
        first = merge(first, second);
        first->sibling = pairs;
        pairs = first;
    }
    while (pairs) {
        struct sim_turn *next = pairs->sibling;
        pairs->sibling = NULL;
        all = merge(all, pairs);
        pairs = next;
    }
    return all;
}

void sim_seeded_offer(struct sim_turn *turn, uint64_t sequence)
{
    if (turn->generation != generation) {
        turn->generation = generation;
        turn->operations = 0;
    }
    if (first_sequence == 0)
        first_sequence = sequence;
    turn->operations++;
    turn->sequence = sequence;
    turn->at_ns = now_ns + latency_of(turn, sequence - first_sequence);
    turn->child = turn->sibling = NULL;
    turns = merge(turns, turn);
}

struct sim_turn *sim_seeded_take(void)
{
    struct sim_turn *turn = turns;

    if (!turn)
        return NULL;
    turns = merge_all(turn->child);
    turn->child = NULL;
    if (now_ns < turn->at_ns)
        now_ns = turn->at_ns;
    return turn;
}

bool sim_seeded_has_turns(void)
{
    return turns;
}

bool sim_seeded_is_due(void)
{
    return turns && turns->at_ns <= now_ns;
}

bool sim_seeded_wants_more(uint64_t number)
{
    return more_in && mix(3, number) % more_in == 0;
}

bool sim_seeded_query_progresses(void)
{
    return mix(5, ++query_count) % 2 == 0;
}

/* --- the clock --- */

void sim_seeded_advance(uint64_t ns)
{
    now_ns += ns;
}

uint64_t sim_seeded_now_ns(void)
{
    return sim_is_seeded ? now_ns : tarn__clock_now_ns();
}
