/* dict.c -- Numba's typed dict: a hash table of keys with values. */
#include "aot/containers.h"
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct tarn__hash_iterator) == 4 * sizeof(void *),
               "compiled code has four words for an iterator");

int32_t numba_dict_new_sized(struct tarn__hash_table **out, int64_t keys,
                             int64_t key_bytes, int64_t value_bytes)
{
    struct tarn__hash_table *dict = tarn__hash_table_create(
        keys > 0 ? (size_t)keys : 0, (size_t)key_bytes, (size_t)value_bytes);

    if (!dict)
        return TARN__DICT_NO_MEMORY;
    *out = dict;
    return TARN__DICT_OK;
}

void numba_dict_set_method_table(struct tarn__hash_table *dict,
                                 const struct tarn__hash_methods *methods)
{
    dict->methods = *methods;
}

void numba_dict_free(struct tarn__hash_table *dict)
{
    tarn__hash_table_destroy(dict);
}

int64_t numba_dict_length(const struct tarn__hash_table *dict)
{
    return (int64_t)dict->live;
}

int64_t numba_dict_lookup(const struct tarn__hash_table *dict, const void *key,
                          int64_t hash, void *value)
{
    int64_t entry = tarn__hash_table_find(dict, key, hash);

    if (entry < 0)
        memset(value, 0, dict->value_bytes);
    else
        memcpy(value, tarn__hash_table_value(dict, (size_t)entry), dict->value_bytes);
    return entry;
}

/* Replace the value of an entry. The new one is counted first: it may be the old one. */
static void replace(struct tarn__hash_table *dict, int64_t entry, const void *value)
{
    char *place = tarn__hash_table_value(dict, (size_t)entry);

    if (dict->methods.value_incref)
        dict->methods.value_incref(value);
    if (dict->methods.value_decref)
        dict->methods.value_decref(place);
    memcpy(place, value, dict->value_bytes);
}

/* Insert a key whose search had the result `entry`, or replace its value. */
static int32_t insert(struct tarn__hash_table *dict, int64_t entry, const void *key,
                      int64_t hash, const void *value)
{
    if (entry == TARN__KEYS_NOT_COMPARED)
        return TARN__DICT_NOT_COMPARED;
    if (entry >= 0) {
        replace(dict, entry, value);
        return TARN__DICT_REPLACED;
    }
    return tarn__hash_table_append(dict, key, hash, value) ? TARN__DICT_OK
                                                           : TARN__DICT_NO_MEMORY;
}

int32_t numba_dict_insert(struct tarn__hash_table *dict, const void *key, int64_t hash,
                          const void *value, void *old_value)
{
    int64_t entry = numba_dict_lookup(dict, key, hash, old_value);

    return insert(dict, entry, key, hash, value);
}

int32_t numba_dict_insert_ez(struct tarn__hash_table *dict, const void *key, int64_t hash,
                             const void *value)
{
    return insert(dict, tarn__hash_table_find(dict, key, hash), key, hash, value);
}

/* Release a key and a value that have left the dict. */
static void release(const struct tarn__hash_table *dict, const void *key,
                    const void *value)
{
    if (dict->methods.key_decref)
        dict->methods.key_decref(key);
    if (dict->methods.value_decref)
        dict->methods.value_decref(value);
}

int32_t numba_dict_delitem(struct tarn__hash_table *dict, int64_t hash, int64_t entry)
{
    (void)hash;
    tarn__hash_table_remove(dict, (size_t)entry);
    release(dict, tarn__hash_table_key(dict, (size_t)entry),
            tarn__hash_table_value(dict, (size_t)entry));
    return TARN__DICT_OK;
}

int32_t numba_dict_popitem(struct tarn__hash_table *dict, void *key, void *value)
{
    int64_t entry = tarn__hash_table_last(dict);

    if (entry < 0)
        return TARN__DICT_EMPTY;
    memcpy(key, tarn__hash_table_key(dict, (size_t)entry), dict->key_bytes);
    memcpy(value, tarn__hash_table_value(dict, (size_t)entry), dict->value_bytes);
    tarn__hash_table_remove(dict, (size_t)entry);
    return TARN__DICT_OK;
}

size_t numba_dict_iter_sizeof(void)
{
    return sizeof(struct tarn__hash_iterator);
}

void numba_dict_iter(struct tarn__hash_iterator *iterator,
                     const struct tarn__hash_table *dict)
{
    tarn__hash_table_begin(dict, iterator);
}

int32_t numba_dict_iter_next(struct tarn__hash_iterator *iterator, const char **key,
                             const char **value)
{
    if (tarn__hash_table_has_changed(iterator))
        return TARN__DICT_MUTATED;
    int64_t entry = tarn__hash_table_next(iterator);
    if (entry < 0)
        return TARN__DICT_EXHAUSTED;
    *key = tarn__hash_table_key(iterator->table, (size_t)entry);
    *value = tarn__hash_table_value(iterator->table, (size_t)entry);
    return TARN__DICT_OK;
}

static void print_bytes(const char *name, const char *at, size_t bytes)
{
    printf(" %s", name);
    for (size_t i = 0; i < bytes; i++)
        printf(" %02x", (unsigned char)at[i]);
}

void numba_dict_dump(const struct tarn__hash_table *dict)
{
    struct tarn__hash_iterator iterator;
    const char *key, *value;

    printf("dict of %zu entries\n", dict->live);
    numba_dict_iter(&iterator, dict);
    while (numba_dict_iter_next(&iterator, &key, &value) == TARN__DICT_OK) {
        print_bytes("key", key, dict->key_bytes);
        print_bytes("value", value, dict->value_bytes);
        printf("\n");
    }
}
