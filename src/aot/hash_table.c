/* hash_table.c -- entries in the order of their insertion, found by hash and key.
 *
 * The entries are one array. Slots, twice as many or more, have the numbers of entries.
 * A search begins at the slot that the hash selects, and goes on to the next slots until
 * it meets a free one. The slot of a removed entry stays in use until a rebuild, which
 * happens when half of the slots are in use. So there is always a free slot. A slot that
 * stayed may refer to an entry that was appended later: its hash and key decide.
 *
 * The hash of an integer is the integer itself. A multiplication spreads it over the slots.
 */
#include "aot/hash_table.h"
#include <string.h>
#include <tarn/nrt.h>

enum { REMOVED = -1, SMALLEST_LOG = 3 };

/* slots count entries in 32 bits */
static const size_t MOST_ENTRIES = (size_t)1 << 31;

/* --- entries and slots --- */

static char *entry_at(const struct tarn__hash_table *table, size_t entry)
{
    return table->entries + entry * table->entry_bytes;
}

static int64_t hash_of(const struct tarn__hash_table *table, size_t entry)
{
    int64_t hash;

    memcpy(&hash, entry_at(table, entry), sizeof hash);
    return hash;
}

char *tarn__hash_table_key(const struct tarn__hash_table *table, size_t entry)
{
    return entry_at(table, entry) + sizeof(int64_t);
}

char *tarn__hash_table_value(const struct tarn__hash_table *table, size_t entry)
{
    return entry_at(table, entry) + table->value_offset;
}

static size_t first_slot(unsigned slots_log, int64_t hash)
{
    return (size_t)(((uint64_t)hash * 0x9e3779b97f4a7c15u) >> (64 - slots_log));
}

static size_t slot_behind(const struct tarn__hash_table *table, size_t slot)
{
    return (slot + 1) & (((size_t)1 << table->slots_log) - 1);
}

/* Put the number of an entry into the first free slot of its hash. */
static void fill_slot(struct tarn__hash_table *table, size_t entry)
{
    size_t slot = first_slot(table->slots_log, hash_of(table, entry));

    while (table->slots[slot])
        slot = slot_behind(table, slot);
    table->slots[slot] = (uint32_t)(entry + 1);
    table->filled++;
}

/* --- memory --- */

/* Allocate slots and entries for `capacity` entries; false without memory. */
static bool allocate_arrays(struct tarn__hash_table *table, size_t capacity)
{
    unsigned slots_log = SMALLEST_LOG;

    if (capacity > MOST_ENTRIES)
        return false;
    while (((size_t)1 << slots_log) / 2 < capacity)
        slots_log++;
    capacity = ((size_t)1 << slots_log) / 2;
    if (capacity > SIZE_MAX / table->entry_bytes)
        return false;
    size_t slot_bytes = sizeof(uint32_t) << slots_log;
    uint32_t *slots = tarn_nrt_Allocate(slot_bytes);
    char *entries = tarn_nrt_Allocate(capacity * table->entry_bytes);
    if (!slots || !entries) {
        tarn_nrt_Free(slots);
        tarn_nrt_Free(entries);
        return false;
    }
    memset(slots, 0, slot_bytes);
    table->slots = slots;
    table->slots_log = slots_log;
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

/* Move the entries that are left into new arrays, with space for as many again. */
static bool rebuild(struct tarn__hash_table *table)
{
    struct tarn__hash_table old = *table;

    if (!allocate_arrays(table, 2 * old.live + 1))
        return false;
    table->used = table->filled = 0;
    for (size_t i = 0; i < old.used; i++) {
        if (hash_of(&old, i) == REMOVED)
            continue;
        memcpy(entry_at(table, table->used), entry_at(&old, i), table->entry_bytes);
        fill_slot(table, table->used++);
    }
    table->rebuilds++;
    tarn_nrt_Free(old.slots);
    tarn_nrt_Free(old.entries);
    return true;
}

static size_t rounded_up(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

struct tarn__hash_table *tarn__hash_table_create(size_t capacity, size_t key_bytes,
                                                 size_t value_bytes)
{
    struct tarn__hash_table *table = tarn_nrt_Allocate(sizeof *table);

    if (!table)
        return NULL;
    size_t value_offset = sizeof(int64_t) + rounded_up(key_bytes);
    *table = (struct tarn__hash_table){
        .key_bytes = key_bytes,
        .value_bytes = value_bytes,
        .value_offset = value_offset,
        .entry_bytes = value_offset + rounded_up(value_bytes),
    };
    if (!allocate_arrays(table, capacity)) {
        tarn_nrt_Free(table);
        return NULL;
    }
    return table;
}

static void call(void (*method)(const void *), const void *item)
{
    if (method)
        method(item);
}

void tarn__hash_table_destroy(struct tarn__hash_table *table)
{
    for (size_t i = 0; i < table->used; i++) {
        if (hash_of(table, i) == REMOVED)
            continue;
        call(table->methods.key_decref, tarn__hash_table_key(table, i));
        call(table->methods.value_decref, tarn__hash_table_value(table, i));
    }
    tarn_nrt_Free(table->slots);
    tarn_nrt_Free(table->entries);
    tarn_nrt_Free(table);
}

/* --- searching and changing --- */

/* Return 1 for equal keys, 0 for others, below 0 if the comparison raised. */
static int32_t compare(const struct tarn__hash_table *table, const void *key,
                       const void *other)
{
    if (table->methods.key_equal)
        return table->methods.key_equal(key, other);
    return memcmp(key, other, table->key_bytes) == 0;
}

int64_t tarn__hash_table_find(const struct tarn__hash_table *table, const void *key,
                              int64_t hash)
{
    size_t slot = first_slot(table->slots_log, hash);

    for (; table->slots[slot]; slot = slot_behind(table, slot)) {
        size_t entry = table->slots[slot] - 1;
        if (hash_of(table, entry) != hash)
            continue;
        int32_t equal = compare(table, tarn__hash_table_key(table, entry), key);
        if (equal)
            return equal > 0 ? (int64_t)entry : TARN__KEYS_NOT_COMPARED;
    }
    return TARN__NOT_FOUND;
}

bool tarn__hash_table_append(struct tarn__hash_table *table, const void *key,
                             int64_t hash, const void *value)
{
    if (table->filled == table->capacity && !rebuild(table))
        return false;
    size_t entry = table->used++;
    char *at = memset(entry_at(table, entry), 0, table->entry_bytes);
    memcpy(at, &hash, sizeof hash);
    memcpy(tarn__hash_table_key(table, entry), key, table->key_bytes);
    if (table->value_bytes)
        memcpy(tarn__hash_table_value(table, entry), value, table->value_bytes);
    fill_slot(table, entry);
    table->live++;
    call(table->methods.key_incref, key);
    call(table->methods.value_incref, value);
    return true;
}

void tarn__hash_table_remove(struct tarn__hash_table *table, size_t entry)
{
    int64_t removed = REMOVED;

    memcpy(entry_at(table, entry), &removed, sizeof removed);
    table->live--;
    while (table->used && hash_of(table, table->used - 1) == REMOVED)
        table->used--;
}

int64_t tarn__hash_table_last(const struct tarn__hash_table *table)
{
    return (int64_t)table->used - 1;
}

/* --- iteration --- */

void tarn__hash_table_begin(const struct tarn__hash_table *table,
                            struct tarn__hash_iterator *iterator)
{
    *iterator = (struct tarn__hash_iterator){
        .table = table, .rebuilds = table->rebuilds, .live = table->live};
}

bool tarn__hash_table_has_changed(const struct tarn__hash_iterator *iterator)
{
    return iterator->table->rebuilds != iterator->rebuilds ||
           iterator->table->live != iterator->live;
}

int64_t tarn__hash_table_next(struct tarn__hash_iterator *iterator)
{
    while (iterator->next < iterator->table->used) {
        size_t entry = iterator->next++;
        if (hash_of(iterator->table, entry) != REMOVED)
            return (int64_t)entry;
    }
    return TARN__NOT_FOUND;
}
