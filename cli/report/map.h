/* map.h -- a hash map from 64-bit keys to 32-bit numbers. */
#ifndef TARN_CLI_REPORT_MAP_H
#define TARN_CLI_REPORT_MAP_H

#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX /* no value */

struct map {
    uint64_t *keys;
    uint32_t *values; /* value + 1; 0: the slot is empty */
    size_t capacity;  /* a power of two, or 0 */
    size_t count;
};

/* Return the value of a key, or MAP_NONE. */
uint32_t map_get(const struct map *map, uint64_t key);
/* Set the value of a key; it is less than MAP_NONE. */
void map_put(struct map *map, uint64_t key, uint32_t value);
/* Remove a key and return its value, or MAP_NONE. */
uint32_t map_take(struct map *map, uint64_t key);
void map_free(struct map *map);

/* Return a hash of a number. It has a seed of its own in each process, because a log may
 * be crafted to cause collisions. */
uint64_t map_hash(uint64_t key);

#endif
