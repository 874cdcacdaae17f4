/* set.c -- Numba's typed set: a hash table of keys without values. */
#include "aot/containers.h"
#include <stdio.h>

int32_t numba_set_new_sized(struct tarn__hash_table **out, int64_t key_bytes,
                            int64_t keys)
{
    struct tarn__hash_table *set =
        tarn__hash_table_create(keys > 0 ? (size_t)keys : 0, (size_t)key_bytes, 0);

    if (!set)
        return TARN__SET_NO_MEMORY;
    *out = set;
    return TARN__SET_OK;
}

int32_t numba_set_new(struct tarn__hash_table **out, int64_t key_bytes, int64_t keys)
{
    return numba_set_new_sized(out, key_bytes, keys);
}

void numba_set_set_method_table(struct tarn__hash_table *set,
                                const struct tarn__set_methods *methods)
{
    set->methods = (struct tarn__hash_methods){.key_equal = methods->key_equal,
                                               .key_incref = methods->key_incref,
                                               .key_decref = methods->key_decref};
}

void numba_set_free(struct tarn__hash_table *set)
{
    tarn__hash_table_destroy(set);
}

int64_t numba_set_length(const struct tarn__hash_table *set)
{
    return (int64_t)set->live;
}

int32_t numba_set_add(struct tarn__hash_table *set, const void *key, int64_t hash)
{
    int64_t entry = tarn__hash_table_find(set, key, hash);

    if (entry == TARN__KEYS_NOT_COMPARED)
        return TARN__SET_NOT_COMPARED;
    if (entry >= 0)
        return TARN__SET_PRESENT;
    return tarn__hash_table_append(set, key, hash, NULL) ? TARN__SET_OK
                                                         : TARN__SET_NO_MEMORY;
}

int64_t numba_set_contains(const struct tarn__hash_table *set, const void *key,
                           int64_t hash)
{
    return tarn__hash_table_find(set, key, hash) >= 0;
}

int32_t numba_set_discard(struct tarn__hash_table *set, const void *key, int64_t hash)
{
    int64_t entry = tarn__hash_table_find(set, key, hash);

    if (entry == TARN__KEYS_NOT_COMPARED)
        return TARN__SET_NOT_COMPARED;
    if (entry >= 0) {
        tarn__hash_table_remove(set, (size_t)entry);
        if (set->methods.key_decref)
            set->methods.key_decref(tarn__hash_table_key(set, (size_t)entry));
    }
    return TARN__SET_OK;
}

size_t numba_set_iter_sizeof(void)
{
    return sizeof(struct tarn__hash_iterator);
}

void numba_set_iter(struct tarn__hash_iterator *iterator,
                    const struct tarn__hash_table *set)
{
    tarn__hash_table_begin(set, iterator);
}

int32_t numba_set_iter_next(struct tarn__hash_iterator *iterator, const char **key)
{
    if (tarn__hash_table_has_changed(iterator))
        return TARN__SET_MUTATED;
    int64_t entry = tarn__hash_table_next(iterator);
    if (entry < 0)
        return TARN__SET_EXHAUSTED;
    *key = tarn__hash_table_key(iterator->table, (size_t)entry);
    return TARN__SET_OK;
}

void numba_set_dump(const struct tarn__hash_table *set)
{
    struct tarn__hash_iterator iterator;
    const char *key;

    printf("set of %zu keys\n", set->live);
    numba_set_iter(&iterator, set);
    while (numba_set_iter_next(&iterator, &key) == TARN__SET_OK) {
        for (size_t i = 0; i < set->key_bytes; i++)
            printf(" %02x", (unsigned char)key[i]);
        printf("\n");
    }
}
