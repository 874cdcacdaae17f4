/* sequences.c -- making the sequences of a plan. */
#include "pool/follow/sequences.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* Slots of the plan, while they are sorted. */
struct sorted {
    uint64_t key;
    uint32_t slot;
};

struct making {
    const struct tarn_plan *plan;
    struct tarn__sequences *out;
    struct sorted *sorted;
    uint8_t *next;                     /* of the copied slots: enum tarn__plan_next */
    struct tarn__map threads, streams; /* number in the plan, and 1 -> ordinal */
};

static int by_key(const void *one, const void *other)
{
    const struct sorted *a = one, *b = other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

static uint64_t key_of(uint32_t thread, uint32_t stream)
{
    return ((uint64_t)thread << 32 | stream) + 1;
}

/* Return the ordinal of a number. The map has capacity. */
static uint32_t ordinal(struct tarn__map *map, uint32_t number, uint32_t *count)
{
    uint64_t key = (uint64_t)number + 1;
    const uint32_t *known = tarn__map_get(map, key);

    if (known)
        return *known;
    tarn__map_put(map, key, count);
    return (*count)++;
}

/* Number threads and streams by their first allocation, and sort the slots by sequence.
 * The slots of a plan are in order of time. */
static bool sort_by_sequence(struct making *making)
{
    const struct tarn_plan *plan = making->plan;
    struct tarn__sequences *out = making->out;

    for (uint32_t i = 0; i < out->slot_count; i++) {
        if (!tarn__map_reserve(&making->threads, 1) ||
            !tarn__map_reserve(&making->streams, 1))
            return false;
        uint32_t thread = ordinal(&making->threads, plan->slots[i].thread, &out->threads);
        uint32_t stream = ordinal(&making->streams, plan->slots[i].stream, &out->streams);
        making->sorted[i] = (struct sorted){key_of(thread, stream), i};
    }
    qsort(making->sorted, out->slot_count, sizeof *making->sorted, by_key);
    return true;
}

/* Copy the slots, and count the sequences. */
static void copy_slots(struct making *making)
{
    struct tarn__sequences *out = making->out;

    for (uint32_t i = 0; i < out->slot_count; i++) {
        const struct tarn__plan_slot *slot = &making->plan->slots[making->sorted[i].slot];
        out->slots[i] =
            (struct tarn__sequences_slot){.quanta = slot->quanta, .offset = slot->offset};
        making->next[i] = slot->next;
        out->count += i == 0 || making->sorted[i].key != making->sorted[i - 1].key;
    }
}

/* --- sequences --- */

uint32_t tarn__sequences_hash(const uint32_t sizes[TARN__SEQUENCES_GRAM])
{
    uint64_t hash = 0;

    for (int i = 0; i < TARN__SEQUENCES_GRAM; i++)
        hash = (hash ^ sizes[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

static int by_hash(const void *one, const void *other)
{
    const struct tarn__sequences_gram *a = one, *b = other;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Enter every fourth slot of a sequence by the sizes that lead to it. Returns their
 * number. */
static uint32_t list_grams(const struct tarn__sequence *sequence,
                           struct tarn__sequences_gram *out)
{
    uint32_t sizes[TARN__SEQUENCES_GRAM], count = 0;

    for (uint32_t place = TARN__SEQUENCES_GRAM - 1; place < sequence->count;
         place += TARN__SEQUENCES_GRAM_STEP) {
        for (uint32_t i = 0; i < TARN__SEQUENCES_GRAM; i++)
            sizes[i] = sequence->slots[place - (TARN__SEQUENCES_GRAM - 1) + i].quanta;
        out[count++] = (struct tarn__sequences_gram){tarn__sequences_hash(sizes), place};
    }
    qsort(out, count, sizeof *out, by_hash);
    return count;
}

/* Make the sequences of the copied slots. The map has capacity. */
static void cut(struct making *making)
{
    struct tarn__sequences *out = making->out;
    struct tarn__sequences_gram *grams = out->grams;
    uint32_t number = 0;

    for (uint32_t first = 0, end; first < out->slot_count; first = end, number++) {
        uint64_t key = making->sorted[first].key;
        for (end = first; end < out->slot_count && making->sorted[end].key == key;)
            end++;
        struct tarn__sequence *sequence = &out->all[number];
        *sequence = (struct tarn__sequence){.slots = out->slots + first,
                                            .first = first,
                                            .count = end - first,
                                            .grams = grams};
        sequence->gram_count = list_grams(sequence, grams);
        grams += sequence->gram_count;
        if (sequence->count > out->all[out->longest].count)
            out->longest = number;
        tarn__map_put(&out->by, key, &number);
    }
}

static bool has_one_stream(const struct tarn_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].stream != plan->slots[0].stream ||
            plan->slots[i].free_stream != plan->slots[0].stream)
            return false;
    return true;
}

/* Rank the slots by their offsets. */
static void rank(struct making *making)
{
    struct tarn__sequences *out = making->out;

    for (uint32_t i = 0; i < out->slot_count; i++)
        making->sorted[i] = (struct sorted){out->slots[i].offset, i};
    qsort(making->sorted, out->slot_count, sizeof *making->sorted, by_key);
    for (uint32_t i = 0; i < out->slot_count; i++)
        out->slots[making->sorted[i].slot].rank = i;
    for (uint32_t i = 0; i < out->slot_count; i++)
        if (making->next[i] != TARN__PLAN_NEXT_SAME)
            tarn__bits_add(&out->handed, out->slots[i].rank);
}

/* --- moves --- */

/* Parts of the peak that the aim may be higher than it. Several streams complete their memory
 * later. */
enum { PART = 66, PART_OF_STREAMS = 33 };
static const uint32_t parts[] = {118, 84, PART, 52};

/* One of so many allocations may need a move. Plans of more slots are not tried out. */
enum { FEW_MOVES = 256, TRIED_MOST = 1 << 18 };

static uint64_t aim_of(uint64_t peak_live, uint32_t part)
{
    return peak_live + peak_live / part;
}

static bool takes_few_moves(const struct tarn_plan *plan, uint64_t aim)
{
    struct tarn__kept_error words = tarn__error_keep();
    tarn_plan_moves moves = {.size = sizeof moves};
    bool few = tarn_plan_count_moves(plan, aim, &moves) == TARN_OK &&
               moves.allocations <= plan->count / FEW_MOVES;

    tarn__error_restore(&words);
    return few;
}

/* Return the part for a plan of one stream: the lowest aim that takes few moves, else the
 * highest one. */
static uint32_t part_of(const struct tarn_plan *plan)
{
    uint64_t height = (uint64_t)plan->height * TARN__PLAN_QUANTUM;
    const unsigned last = sizeof parts / sizeof *parts - 1;

    if (plan->count > TRIED_MOST)
        return PART;
    for (unsigned i = 0; i < last; i++) {
        uint64_t aim = aim_of(plan->peak_live_bytes, parts[i]);
        if (height <= aim || takes_few_moves(plan, aim))
            return parts[i];
    }
    return parts[last];
}

/* Make the table of next uses, if a pool may move pages to follow the plan. The slots are
 * sorted by sequence. Returns false without host memory. */
static bool list_next_uses(const struct making *making)
{
    struct tarn__sequences *out = making->out;
    uint64_t aim = aim_of(tarn__sequences_peak(out), out->aim_part);

    if (out->height + out->memory.outside <= aim)
        return true;
    uint32_t *times = malloc(((size_t)out->slot_count + 1) * sizeof *times);
    if (!times)
        return false;
    for (uint32_t i = 0; i < out->slot_count; i++)
        times[i] = making->sorted[i].slot;
    return tarn__next_uses_init(&out->next_uses, making->plan, times);
}

static bool fill(struct making *making)
{
    struct tarn__sequences *out = making->out;
    size_t count = out->slot_count, grams = count / TARN__SEQUENCES_GRAM_STEP + 1;

    if (!tarn__bits_init(&out->live, count + 1) ||
        !tarn__bits_init(&out->handed, count + 1) || !sort_by_sequence(making))
        return false;
    copy_slots(making);
    out->all = malloc(((size_t)out->count + 1) * sizeof *out->all);
    if (!out->all || !tarn__map_reserve(&out->by, out->count))
        return false;
    out->all[0].count = 0;
    cut(making);
    if (out->streams > 1)
        out->aim_part = PART_OF_STREAMS;
    if (!list_next_uses(making))
        return false;
    rank(making);
    out->bytes = tarn__next_uses_bytes(&out->next_uses) + sizeof *out +
                 out->count * sizeof *out->all +
                 count * (sizeof *out->slots + sizeof *out->nodes) +
                 grams * sizeof *out->grams +
                 (out->live.words + out->handed.words) * sizeof(uint64_t);
    return true;
}

struct tarn__sequences *tarn__sequences_new(const struct tarn_plan *plan,
                                            const struct tarn__sequences_memory *memory)
{
    struct tarn__sequences *out = calloc(1, sizeof *out);
    size_t count = plan->count;
    struct making making = {.plan = plan,
                            .out = out,
                            .sorted = malloc((count + 1) * sizeof *making.sorted),
                            .next = malloc(count + 1)};

    if (!out || !making.sorted || !making.next) {
        free(out);
        free(making.sorted);
        free(making.next);
        return NULL;
    }
    tarn__map_init(&making.threads, sizeof(uint32_t));
    tarn__map_init(&making.streams, sizeof(uint32_t));
    tarn__map_init(&out->by, sizeof(uint32_t));
    out->slot_count = (uint32_t)count;
    out->height = (uint64_t)plan->height * TARN__PLAN_QUANTUM;
    out->peak_live = plan->peak_live_bytes;
    out->price = plan->rules.price;
    out->has_one_stream = has_one_stream(plan);
    out->aim_part = !memory && out->has_one_stream ? part_of(plan) : PART;
    if (memory)
        out->memory = *memory;
    out->slots = malloc((count + 1) * sizeof *out->slots);
    out->nodes = calloc(count + 1, sizeof *out->nodes);
    out->grams = malloc((count / TARN__SEQUENCES_GRAM_STEP + 1) * sizeof *out->grams);
    bool filled = out->slots && out->nodes && out->grams && fill(&making);
    free(making.sorted);
    free(making.next);
    tarn__map_free(&making.threads);
    tarn__map_free(&making.streams);
    if (filled)
        return out;
    tarn__sequences_free(out);
    return NULL;
}

void tarn__sequences_free(struct tarn__sequences *sequences)
{
    if (!sequences)
        return;
    tarn__bits_free(&sequences->live);
    tarn__bits_free(&sequences->handed);
    tarn__map_free(&sequences->by);
    tarn__next_uses_free(&sequences->next_uses);
    free(sequences->slots);
    free(sequences->nodes);
    free(sequences->grams);
    free(sequences->all);
    free(sequences);
}

struct tarn__sequence *tarn__sequences_find(const struct tarn__sequences *sequences,
                                            uint32_t thread, uint32_t stream)
{
    const uint32_t *number = tarn__map_get(&sequences->by, key_of(thread, stream));

    return number ? &sequences->all[*number] : NULL;
}

void tarn__sequences_restart(struct tarn__sequences *sequences)
{
    for (uint32_t i = 0; i < sequences->count; i++) {
        struct tarn__sequence *sequence = &sequences->all[i];
        sequence->cursor = 0;
        sequence->ahead = sequence->behind = 0;
        sequence->size_count = 0;
    }
}
