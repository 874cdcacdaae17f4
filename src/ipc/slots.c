/* slots.c -- a table whose entries are known outside by slot number and generation. */
#include "ipc/slots.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { SLOTS_MAX = 1 << 24 };

/* One for all tables, so that a handle of one never fits into another. */
static atomic_uint_least64_t next_generation = 1;

static void free_slot(struct tarn__slots *table, uint32_t slot)
{
    table->slots[slot] = (struct tarn__slot){NULL, table->first_free};
    table->first_free = slot + 1;
}

bool tarn__slots_reserve(struct tarn__slots *table)
{
    uint32_t length = table->length ? 2 * table->length : 16;
    struct tarn__slot *slots;

    if (table->first_free)
        return true;
    if (length > SLOTS_MAX || !(slots = realloc(table->slots, length * sizeof *slots)))
        return false;
    table->slots = slots;
    for (uint32_t slot = length; slot-- > table->length;)
        free_slot(table, slot);
    table->length = length;
    return true;
}

void tarn__slots_put(struct tarn__slots *table, void *item, uint32_t *slot_out,
                     uint64_t *generation_out)
{
    uint32_t slot = table->first_free - 1;

    table->first_free = (uint32_t)table->slots[slot].generation;
    table->slots[slot] = (struct tarn__slot){item, atomic_fetch_add(&next_generation, 1)};
    table->count++;
    *slot_out = slot;
    *generation_out = table->slots[slot].generation;
}

void *tarn__slots_find(const struct tarn__slots *table, uint32_t slot,
                       uint64_t generation)
{
    if (slot >= table->length || table->slots[slot].generation != generation)
        return NULL;
    return table->slots[slot].item;
}

void tarn__slots_take(struct tarn__slots *table, uint32_t slot)
{
    free_slot(table, slot);
    table->count--;
}
