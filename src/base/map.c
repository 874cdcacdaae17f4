/* map.c -- linear probing with removal by shifting back, so there are no tombstones. */
#include "base/map.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static uint64_t *key_at(const struct tarn__map *map, size_t slot)
{
    return (uint64_t *)(void *)(map->slots + slot * map->stride);
}

static size_t home_of(const struct tarn__map *map, uint64_t key)
{
    return (size_t)(tarn__hash_number(map->factor, key) >> map->shift);
}

/* Return the slot of `key`, or the empty one where it would go. Needs capacity. */
static size_t find_slot(const struct tarn__map *map, uint64_t key)
{
    size_t slot = home_of(map, key);

    while (*key_at(map, slot) != 0 && *key_at(map, slot) != key)
        slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

static void store(struct tarn__map *map, size_t slot, uint64_t key, const void *value)
{
    *key_at(map, slot) = key;
    if (map->value_bytes)
        memcpy(key_at(map, slot) + 1, value, map->value_bytes);
}

void tarn__map_init(struct tarn__map *map, size_t value_bytes)
{
    memset(map, 0, sizeof *map);
    map->value_bytes = value_bytes;
    map->stride = sizeof(uint64_t) + (value_bytes + 7) / 8 * 8;
    map->factor = tarn__hash_factor();
}

void tarn__map_free(struct tarn__map *map)
{
    free(map->slots);
    tarn__map_init(map, map->value_bytes);
}

static bool grow(struct tarn__map *map)
{
    struct tarn__map bigger = *map;
    size_t cursor = 0;
    uint64_t key;
    void *value;

    if (!map->factor) /* a static map that was not initialized */
        bigger.factor = tarn__hash_factor();
    bigger.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY;
    bigger.shift = 64 - (unsigned)__builtin_ctzll(bigger.capacity);
    bigger.slots = calloc(bigger.capacity, map->stride);
    if (!bigger.slots)
        return false;
    while (tarn__map_next(map, &cursor, &key, &value))
        store(&bigger, find_slot(&bigger, key), key, value);
    free(map->slots);
    *map = bigger;
    return true;
}

bool tarn__map_reserve(struct tarn__map *map, size_t more)
{
    while ((map->count + more) * 4 > map->capacity * 3)
        if (!grow(map))
            return false;
    return true;
}

bool tarn__map_put(struct tarn__map *map, uint64_t key, const void *value)
{
    if (!tarn__map_reserve(map, 1))
        return false;
    size_t slot = find_slot(map, key);
    if (*key_at(map, slot) == key)
        return false;
    store(map, slot, key, value);
    map->count++;
    return true;
}

void *tarn__map_get(const struct tarn__map *map, uint64_t key)
{
    if (map->count == 0)
        return NULL;
    size_t slot = find_slot(map, key);
    return *key_at(map, slot) == key && key != 0 ? key_at(map, slot) + 1 : NULL;
}

/* Move entries that probed past `hole` back into it, so that every probe stays unbroken.
 */
static void close_hole(struct tarn__map *map, size_t hole)
{
    size_t mask = map->capacity - 1;

    for (size_t slot = (hole + 1) & mask; *key_at(map, slot) != 0;
         slot = (slot + 1) & mask) {
        size_t home = home_of(map, *key_at(map, slot));
        if (((slot - home) & mask) < ((slot - hole) & mask))
            continue; /* it lives between the hole and here: it may stay */
        store(map, hole, *key_at(map, slot), key_at(map, slot) + 1);
        hole = slot;
    }
    *key_at(map, hole) = 0;
}

bool tarn__map_take(struct tarn__map *map, uint64_t key, void *out)
{
    void *value = tarn__map_get(map, key);

    if (!value)
        return false;
    if (out)
        memcpy(out, value, map->value_bytes);
    close_hole(map, find_slot(map, key));
    map->count--;
    return true;
}

bool tarn__map_next(const struct tarn__map *map, size_t *cursor, uint64_t *key_out,
                    void **value_out)
{
    for (; *cursor < map->capacity; ++*cursor) {
        if (*key_at(map, *cursor) == 0)
            continue;
        *key_out = *key_at(map, *cursor);
        *value_out = key_at(map, *cursor) + 1;
        ++*cursor;
        return true;
    }
    return false;
}
