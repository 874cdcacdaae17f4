/* map.h -- a map from an address to a small value: open addressing, no allocation per
 * entry.
 *
 * Keys are addresses, so 0 is never one and marks an empty slot. Values have one size,
 * fixed at creation, and are copied in and out. The map has no lock: the owner locks.
 */
#ifndef TARN_BASE_MAP_H
#define TARN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__map {
    unsigned char *slots; /* capacity * stride bytes: key, then value */
    size_t capacity;      /* 0 or a power of two */
    unsigned shift;       /* 64 less the logarithm of `capacity` */
    size_t count;         /* at most 3/4 of capacity */
    size_t value_bytes;
    size_t stride;
    uint64_t factor; /* tarn__hash_factor() */
};

void tarn__map_init(struct tarn__map *map, size_t value_bytes);
void tarn__map_free(struct tarn__map *map);

/* Reserve `more` entries, so that the next puts cannot fail. Returns false without host
 * memory. */
bool tarn__map_reserve(struct tarn__map *map, size_t more);

/* Put `value` under `key` (not 0). Returns false without host memory, or if the key is
 * there already. */
bool tarn__map_put(struct tarn__map *map, uint64_t key, const void *value);

/* Return the value under `key`, or NULL, as for the key 0. Valid until the next change. */
void *tarn__map_get(const struct tarn__map *map, uint64_t key);

/* Remove `key`; `*out` (may be NULL) gets its value. Returns false if it is not there. */
bool tarn__map_take(struct tarn__map *map, uint64_t key, void *out);

/* Visit all entries: start with *cursor = 0; false at the end. No changes meanwhile. */
bool tarn__map_next(const struct tarn__map *map, size_t *cursor, uint64_t *key_out,
                    void **value_out);

#endif
