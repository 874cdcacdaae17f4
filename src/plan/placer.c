/* placer.c -- gives items their offsets, one after another in any order. */
#include "plan/placer.h"
#include <stdlib.h>
#include <string.h>

enum {
    STRIDE_MIN = 16,
    INSERTION_MAX = 24,
    DIGIT_BITS_MIN = 6,
    DIGIT_BITS_MAX = 10,
    DIGITS_MAX = 1 << DIGIT_BITS_MAX
};

/* --- the structure ------------------------------------------------------------------- */

/* The largest margin that the rules put between two of the items. */
static uint32_t largest_margin(const struct tarn__boxes *boxes,
                               const struct tarn__plan_rules *rules)
{
    bool has_streams = false, has_no_stream = false, never_waits = false;

    for (size_t i = 0; i < boxes->count; i++) {
        const struct tarn__item *item = &boxes->items[i];
        has_no_stream |= item->stream == TARN__PLAN_NO_STREAM ||
                         item->free_stream == TARN__PLAN_NO_STREAM;
        has_streams |= item->stream != boxes->items[0].stream ||
                       item->free_stream != boxes->items[0].stream;
        never_waits |= item->never_waits;
    }
    if (has_no_stream && (has_streams || !rules->waits_for_device))
        return rules->lag;
    return (has_streams || has_no_stream) && never_waits ? rules->lag : 0;
}

/* The first item that starts at `time` or later. */
static uint32_t item_at(const struct tarn__placer *placer, uint64_t time)
{
    size_t low = 0, high = placer->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (placer->places[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* The lists of an item are those behind it that begin before its margin is over. */
static uint32_t first_list(const struct tarn__placer *placer, uint32_t item)
{
    return item / placer->stride + 1;
}

static uint32_t end_of_lists(const struct tarn__placer *placer, uint32_t item)
{
    return (placer->behind[item] - 1) / placer->stride + 1;
}

static bool make_lists(struct tarn__placer *placer)
{
    size_t lists = placer->count / placer->stride + 2, total = 0;
    uint32_t *counts = calloc(lists, sizeof *counts);

    placer->list_begin = malloc((lists + 1) * sizeof *placer->list_begin);
    placer->list_count = counts;
    if (!counts || !placer->list_begin)
        return false;
    /* Differences first: an item is in consecutive lists. Sums below wrap back. */
    for (uint32_t i = 0; i < placer->count; i++) {
        counts[first_list(placer, i)]++;
        counts[end_of_lists(placer, i)]--;
    }
    for (size_t i = 1; i < lists; i++)
        counts[i] += counts[i - 1];
    for (size_t i = 0; i < lists; i++) {
        placer->list_begin[i] = total;
        total += counts[i];
    }
    placer->list_begin[lists] = total;
    placer->lists = malloc((total + 1) * sizeof *placer->lists);
    return placer->lists;
}

static bool init(struct tarn__placer *placer, const struct tarn__boxes *boxes)
{
    size_t count = boxes->count;

    placer->behind = malloc((count + 1) * sizeof *placer->behind);
    placer->places = malloc((count + 1) * sizeof *placer->places);
    placer->conflicts = malloc((count + 1) * sizeof *placer->conflicts);
    placer->scratch = malloc((count + 1) * sizeof *placer->scratch);
    if (!placer->behind || !placer->places || !placer->conflicts || !placer->scratch ||
        !tarn__bits_init(&placer->placed, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct tarn__item *item = &boxes->items[i];
        placer->places[i] = (struct tarn__place){.start = item->start,
                                                 .end = item->end,
                                                 .quanta = item->quanta,
                                                 .stream = item->stream,
                                                 .free_stream = item->free_stream,
                                                 .never_waits = item->never_waits};
    }
    for (uint32_t i = 0; i < count; i++) {
        placer->behind[i] = item_at(placer, (uint64_t)boxes->items[i].end + placer->lag);
        placer->pairs += placer->behind[i] - i - 1;
    }
    while (placer->stride < placer->pairs / (count ? count : 1))
        placer->stride *= 2;
    return make_lists(placer);
}

struct tarn__placer *tarn__placer_create(const struct tarn__boxes *boxes,
                                         const struct tarn__plan_rules *rules)
{
    struct tarn__placer *placer = malloc(sizeof *placer);

    if (!placer)
        return NULL;
    *placer = (struct tarn__placer){.count = boxes->count,
                                    .rules = rules,
                                    .lag = largest_margin(boxes, rules),
                                    .stride = STRIDE_MIN};
    if (init(placer, boxes))
        return placer;
    tarn__placer_free(placer);
    return NULL;
}

void tarn__placer_free(struct tarn__placer *placer)
{
    free(placer->behind);
    free(placer->lists);
    free(placer->list_begin);
    free(placer->list_count);
    free(placer->places);
    free(placer->conflicts);
    free(placer->scratch);
    tarn__bits_free(&placer->placed);
    free(placer);
}

/* --- sorting ------------------------------------------------------------------------ */

static void sort_few(uint64_t *keys, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* Move the keys to `out`, ordered by the `digits` values of the bits of their offsets from
 * `shift` on. Returns in `ends` where each value ends, and the most keys of one value. */
static uint32_t scatter(const uint64_t *keys, uint64_t *out, size_t count, unsigned shift,
                        unsigned digits, uint32_t *ends)
{
    uint32_t sum = 0, most = 0;

    memset(ends, 0, digits * sizeof *ends);
    for (size_t i = 0; i < count; i++)
        ends[keys[i] >> shift & (digits - 1)]++;
    for (unsigned digit = 0; digit < digits; digit++) {
        uint32_t number = ends[digit];
        most = number > most ? number : most;
        ends[digit] = sum;
        sum += number;
    }
    for (size_t i = 0; i < count; i++)
        out[ends[keys[i] >> shift & (digits - 1)]++] = keys[i];
    return most;
}

/* Sort by offset, of which the lowest `bits` bits differ. Equal offsets have any order.
 * Returns the array that has the result. */
static uint64_t *sort(uint64_t *keys, uint64_t *scratch, size_t count, unsigned bits)
{
    uint32_t ends[DIGITS_MAX], begin = 0;
    unsigned width = DIGIT_BITS_MIN;

    if (count <= INSERTION_MAX)
        sort_few(keys, count);
    if (count <= INSERTION_MAX || bits == 0)
        return keys;
    while (width < DIGIT_BITS_MAX && count >> width > 1)
        width++;
    width = width < bits ? width : bits;
    bits -= width;
    uint32_t most = scatter(keys, scratch, count, 32 + bits, 1u << width, ends);
    if (most <= INSERTION_MAX) {
        sort_few(scratch, count);
        return scratch;
    }
    for (unsigned digit = 0; digit < 1u << width; digit++) {
        uint32_t number = ends[digit] - begin;
        if (number > 1) {
            uint64_t *sorted = sort(scratch + begin, keys + begin, number, bits);
            if (sorted != scratch + begin)
                memcpy(scratch + begin, sorted, number * sizeof *sorted);
        }
        begin = ends[digit];
    }
    return scratch;
}

/* --- placing ----------------------------------------------------------------------------- */

static bool overlap(const struct tarn__place *a, const struct tarn__place *b)
{
    return a->start < b->end && b->start < a->end;
}

/* Does an item that starts at the end of another one, or later, conflict with it? */
static bool is_too_early(const struct tarn__placer *placer, uint32_t end,
                         uint32_t free_stream, const struct tarn__place *to)
{
    return to->start - end <
           tarn__plan_margin(placer->rules, free_stream, to->stream, to->never_waits);
}

static bool conflicts(const struct tarn__placer *placer, const struct tarn__place *a,
                      const struct tarn__place *b)
{
    if (overlap(a, b))
        return true;
    if (placer->lag == 0)
        return false;
    return a->start < b->start ? is_too_early(placer, a->end, a->free_stream, b)
                               : is_too_early(placer, b->end, b->free_stream, a);
}

/* Add what conflicts of the list of items that began before this one. */
static size_t search_list(struct tarn__placer *placer, const struct tarn__place *place,
                          uint32_t list)
{
    const struct tarn__listed *entry = placer->lists + placer->list_begin[list];
    const struct tarn__listed *end = entry + placer->list_count[list];
    size_t found = 0;

    for (; entry < end; entry++) {
        placer->conflicts[found] = (uint64_t)entry->offset << 32 | entry->top;
        found += entry->end > place->start ||
                 (placer->lag > 0 &&
                  is_too_early(placer, entry->end, entry->free_stream, place));
    }
    return found;
}

/* The placed items that conflict with an item, in any order; returns their number. */
static size_t find_conflicts(struct tarn__placer *placer, uint32_t item)
{
    uint32_t list = item / placer->stride, from = list * placer->stride;
    const struct tarn__place *place = &placer->places[item];
    const uint64_t *words = placer->placed.levels[0];
    uint32_t end = placer->behind[item];
    size_t found = search_list(placer, place, list);

    placer->visits += placer->list_count[list] + 1;
    for (uint32_t begin = from; begin < end; begin = (begin / 64 + 1) * 64) {
        uint64_t word = words[begin / 64] >> begin % 64;
        if (end - begin < 64)
            word &= ((uint64_t)1 << (end - begin)) - 1;
        placer->visits += (unsigned)__builtin_popcountll(word);
        for (; word; word &= word - 1) {
            const struct tarn__place *other =
                &placer->places[begin + (unsigned)__builtin_ctzll(word)];
            placer->conflicts[found] =
                (uint64_t)other->offset << 32 | (other->offset + other->quanta);
            found += conflicts(placer, place, other);
        }
    }
    return found;
}

/* The offset of the smallest gap between the conflicts, else the end of the last one. */
static uint32_t best_gap(const uint64_t *sorted, size_t count, uint32_t quanta)
{
    uint32_t end = 0, best = 0, best_gap = UINT32_MAX;

    for (size_t i = 0; i < count; i++) {
        uint32_t begin = (uint32_t)(sorted[i] >> 32), last = (uint32_t)sorted[i];
        if (begin > end && begin - end >= quanta && begin - end < best_gap) {
            best = end;
            best_gap = begin - end;
        }
        end = last > end ? last : end;
    }
    return best_gap == UINT32_MAX ? end : best;
}

static void mark_placed(struct tarn__placer *placer, uint32_t item)
{
    const struct tarn__place *place = &placer->places[item];
    const struct tarn__listed entry = {place->end, place->offset,
                                       place->offset + place->quanta, place->free_stream};
    uint32_t end = end_of_lists(placer, item);

    tarn__bits_add(&placer->placed, item);
    for (uint32_t list = first_list(placer, item); list < end; list++)
        placer->lists[placer->list_begin[list] + placer->list_count[list]++] = entry;
}

uint32_t tarn__placer_run(struct tarn__placer *placer, const uint32_t *order,
                          uint32_t limit)
{
    size_t lists = placer->count / placer->stride + 2;
    uint64_t height = 0;

    tarn__bits_clear(&placer->placed);
    memset(placer->list_count, 0, lists * sizeof *placer->list_count);
    for (size_t i = 0; i < placer->count; i++) {
        uint32_t item = order[i], quanta = placer->places[item].quanta;
        size_t found = find_conflicts(placer, item);
        const uint64_t *sorted =
            sort(placer->conflicts, placer->scratch, found,
                 height ? 64 - (unsigned)__builtin_clzll(height) : 1);
        uint64_t offset = best_gap(sorted, found, quanta);
        if (offset + quanta > height)
            height = offset + quanta;
        if (height >= limit)
            return UINT32_MAX;
        placer->places[item].offset = (uint32_t)offset;
        mark_placed(placer, item);
    }
    return (uint32_t)height;
}

void tarn__placer_unpack(const struct tarn__placer *placer,
                         const struct tarn__boxes *boxes, const struct tarn_plan *plan,
                         uint32_t *offsets)
{
    for (size_t i = 0; i < boxes->count; i++) {
        uint32_t offset = placer->places[i].offset;
        for (uint32_t slot = boxes->items[i].first; slot != TARN__PLAN_NO_SLOT;
             slot = boxes->next[slot]) {
            offsets[slot] = offset;
            if (!boxes->items[i].is_row)
                offset += plan->slots[slot].quanta;
        }
    }
}
