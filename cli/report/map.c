/* map.c -- a hash map from 64-bit keys to 32-bit numbers: open addressing, linear. */
#define _GNU_SOURCE
#include "map.h"
#include "memory.h"
#include <stdlib.h>
#include <sys/random.h>

uint64_t map_hash(uint64_t key)
{
    static uint64_t seed;

    if (seed == 0) {
        if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
            seed = (uint64_t)(uintptr_t)&seed;
        seed |= 1;
    }
    key = (key ^ seed) * 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    return key ^ key >> 32;
}

static size_t slot_of(const struct map *map, uint64_t key)
{
    size_t at = map_hash(key) & (map->capacity - 1);

    while (map->values[at] != 0 && map->keys[at] != key)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

uint32_t map_get(const struct map *map, uint64_t key)
{
    return map->capacity ? map->values[slot_of(map, key)] - 1 : MAP_NONE;
}

static void grow(struct map *map)
{
    struct map old = *map;

    map->capacity = old.capacity ? old.capacity * 2 : 64;
    map->keys = memory_new(map->capacity, sizeof *map->keys);
    map->values = memory_new(map->capacity, sizeof *map->values);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.values[i] != 0) {
            size_t at = slot_of(map, old.keys[i]);
            map->keys[at] = old.keys[i];
            map->values[at] = old.values[i];
        }
    free(old.keys);
    free(old.values);
}

void map_put(struct map *map, uint64_t key, uint32_t value)
{
    if (map->count * 4 >= map->capacity * 3)
        grow(map);
    size_t at = slot_of(map, key);
    map->count += map->values[at] == 0;
    map->keys[at] = key;
    map->values[at] = value + 1;
}

uint32_t map_take(struct map *map, uint64_t key)
{
    if (map->capacity == 0)
        return MAP_NONE;
    size_t mask = map->capacity - 1, hole = slot_of(map, key);
    uint32_t value = map->values[hole] - 1;
    if (value == MAP_NONE)
        return MAP_NONE;
    /* Move what stands behind the hole into it, unless it is at home in between. */
    for (size_t at = (hole + 1) & mask; map->values[at] != 0; at = (at + 1) & mask) {
        size_t home = map_hash(map->keys[at]) & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        map->keys[hole] = map->keys[at];
        map->values[hole] = map->values[at];
        hole = at;
    }
    map->values[hole] = 0;
    map->count--;
    return value;
}

void map_free(struct map *map)
{
    free(map->keys);
    free(map->values);
    *map = (struct map){.count = 0};
}
