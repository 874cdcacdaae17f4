/* intern.c -- equal byte strings stored once, each with a small number.
 *
 * A map has the numbers by the hash of the string. Two strings with one hash are rare, as
 * nobody outside knows the key (hash.h). The second one has the next free hash.
 */
#include "base/intern.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 16 };

void tarn__intern_init(struct tarn__intern *table)
{
    *table = (struct tarn__intern){0};
    tarn__map_init(&table->by_hash, sizeof(uint32_t));
}

void tarn__intern_free(struct tarn__intern *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        free(table->items[i]);
    free(table->items);
    tarn__map_free(&table->by_hash);
    tarn__intern_init(table);
}

/* The key after `hash`; never 0, which the map uses itself. */
static uint64_t next_key(uint64_t hash)
{
    return hash + 1 ? hash + 1 : 1;
}

static bool is_equal(const struct tarn__interned *item, const void *bytes, size_t count)
{
    return item->count == count && memcmp(item->bytes, bytes, count) == 0;
}

/* Find a string. False: it is not there, and `*key_out` is a key for it. */
static bool find(struct tarn__intern *table, const void *bytes, size_t count,
                 uint32_t *out, uint64_t *key_out)
{
    uint64_t key = next_key(tarn__hash_bytes(bytes, count));
    const uint32_t *number;

    while ((number = tarn__map_get(&table->by_hash, key)) != NULL) {
        table->comparisons++;
        if (is_equal(table->items[*number], bytes, count)) {
            *out = *number;
            return true;
        }
        key = next_key(key);
    }
    *key_out = key;
    return false;
}

static bool reserve(struct tarn__intern *table)
{
    if (table->count < table->capacity)
        return true;
    uint32_t capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
    struct tarn__interned **items = realloc(table->items, capacity * sizeof *items);
    if (!items)
        return false;
    table->items = items;
    table->capacity = capacity;
    return true;
}

/* Put a string under `key`, which is not in the map. */
static bool put(struct tarn__intern *table, uint64_t key, const void *bytes, size_t count,
                uint32_t *out)
{
    struct tarn__interned *item = malloc(sizeof *item + count + 1);

    if (!item || !reserve(table) || !tarn__map_put(&table->by_hash, key, &table->count)) {
        free(item);
        return false;
    }
    item->count = count;
    memcpy(item->bytes, bytes, count);
    item->bytes[count] = 0;
    table->items[table->count] = item;
    table->bytes += count + 1;
    *out = table->count++;
    return true;
}

bool tarn__intern_find(struct tarn__intern *table, const void *bytes, size_t count,
                       uint32_t *out)
{
    uint64_t key;

    return find(table, bytes, count, out, &key);
}

bool tarn__intern_add(struct tarn__intern *table, const void *bytes, size_t count,
                      uint32_t *out)
{
    uint64_t key;

    return find(table, bytes, count, out, &key) || put(table, key, bytes, count, out);
}
