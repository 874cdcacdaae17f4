/* next_use.c -- when a plan needs its addresses again. */
#include "pool/follow/next_use.h"
#include "pool/blocks/node.h"
#include "pool/follow/sequences.h"
#include <stdlib.h>

enum { PAGE_QUANTA_SHIFT = TARN__PAGE_SHIFT - TARN__QUANTUM_SHIFT, ENTRIES_A_SLOT = 2 };

static uint32_t first_of(const struct tarn__sequences_slot *slot, unsigned shift)
{
    return slot->offset >> shift;
}

static uint32_t last_of(const struct tarn__sequences_slot *slot, unsigned shift)
{
    return (slot->offset + (slot->quanta - 1)) >> shift;
}

/* Return the entries of a table. */
static uint64_t entries(const struct tarn__sequences_slot *slots, uint32_t count,
                        unsigned shift)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        if (slots[i].offset != TARN__SEQUENCES_OUTSIDE)
            sum += last_of(&slots[i], shift) - first_of(&slots[i], shift) + 1;
    return sum;
}

/* Count the entries of each stretch in `ends`, and then have that be where they begin. */
static void find_begins(struct tarn__next_uses *uses,
                        const struct tarn__sequences_slot *slots)
{
    uint32_t sum = 0;

    for (uint32_t slot = 0; slot < uses->slots; slot++) {
        if (slots[slot].offset == TARN__SEQUENCES_OUTSIDE)
            continue;
        uint32_t last = last_of(&slots[slot], uses->shift);
        for (uint32_t i = first_of(&slots[slot], uses->shift); i <= last; i++)
            uses->ends[i]++;
    }
    for (uint32_t i = 0; i < uses->count; i++) {
        uint32_t number = uses->ends[i];
        uses->ends[i] = sum;
        sum += number;
    }
}

/* Enter the slots in order of time. */
static void enter(struct tarn__next_uses *uses, const struct tarn__sequences_slot *slots,
                  const uint32_t *by_time)
{
    for (uint32_t time = 0; time < uses->slots; time++) {
        const struct tarn__sequences_slot *slot = &slots[by_time[time]];
        if (slot->offset == TARN__SEQUENCES_OUTSIDE)
            continue;
        uint32_t last = last_of(slot, uses->shift);
        for (uint32_t i = first_of(slot, uses->shift); i <= last; i++)
            uses->users[uses->ends[i]++] = time;
    }
}

bool tarn__next_uses_init(struct tarn__next_uses *uses,
                          const struct tarn__sequences_slot *slots, uint32_t *times,
                          uint32_t count, uint32_t height)
{
    uint64_t sum, most = (uint64_t)count * ENTRIES_A_SLOT;
    uint32_t *by_time = malloc(((size_t)count + 1) * sizeof *by_time);

    *uses = (struct tarn__next_uses){
        .times = times, .slots = count, .shift = PAGE_QUANTA_SHIFT};
    while ((sum = entries(slots, count, uses->shift)) > most && uses->shift < 31)
        uses->shift++;
    uint32_t stretches = (height >> uses->shift) + 1;
    uses->ends = calloc(stretches, sizeof *uses->ends);
    uses->users = malloc((size_t)(sum + 1) * sizeof *uses->users);
    bool has_memory = by_time && uses->ends && uses->users;
    if (has_memory) {
        uses->count = stretches;
        for (uint32_t slot = 0; slot < count; slot++)
            by_time[times[slot]] = slot;
        find_begins(uses, slots);
        enter(uses, slots, by_time);
    } else {
        tarn__next_uses_free(uses);
    }
    free(by_time);
    return has_memory;
}

void tarn__next_uses_free(struct tarn__next_uses *uses)
{
    free(uses->times);
    free(uses->ends);
    free(uses->users);
    *uses = (struct tarn__next_uses){.count = 0};
}

size_t tarn__next_uses_bytes(const struct tarn__next_uses *uses)
{
    if (uses->count == 0)
        return 0;
    return ((size_t)uses->count + uses->slots + uses->ends[uses->count - 1]) *
           sizeof *uses->users;
}

/* Return the distance of the next slot of one stretch. */
static uint32_t distance_of(const struct tarn__next_uses *uses, uint32_t stretch,
                            uint32_t now)
{
    uint32_t begin = stretch > 0 ? uses->ends[stretch - 1] : 0, end = uses->ends[stretch],
             low = begin, high = end;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (uses->users[middle] < now)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < end)
        return uses->users[low] - now;
    return begin < end ? uses->users[begin] + uses->slots - now : UINT32_MAX;
}

uint32_t tarn__next_uses_distance(const struct tarn__next_uses *uses, uint64_t offset,
                                  uint64_t quanta, uint32_t now)
{
    uint64_t last = (offset + quanta - 1) >> uses->shift;
    uint32_t least = UINT32_MAX;

    for (uint64_t i = offset >> uses->shift; i <= last && i < uses->count; i++) {
        uint32_t distance = distance_of(uses, (uint32_t)i, now);
        least = distance < least ? distance : least;
    }
    return least;
}
