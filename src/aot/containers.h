/* containers.h -- the functions of Numba's typed dict, list and set, under Numba's names.
 *
 * Compiled code passes items by address and counts the references that it loads. A
 * container counts the references of the items that it has. Statuses are Numba's.
 */
#ifndef TARN_AOT_CONTAINERS_H
#define TARN_AOT_CONTAINERS_H

#include "aot/hash_table.h"

/* --- dict --- */

enum {
    TARN__DICT_OK = 0,
    TARN__DICT_REPLACED = 1,
    TARN__DICT_NO_MEMORY = -1,
    TARN__DICT_MUTATED = -2,
    TARN__DICT_EXHAUSTED = -3,
    TARN__DICT_EMPTY = -4,
    TARN__DICT_NOT_COMPARED = -5
};

int32_t numba_dict_new_sized(struct tarn__hash_table **out, int64_t keys,
                             int64_t key_bytes, int64_t value_bytes);
void numba_dict_set_method_table(struct tarn__hash_table *dict,
                                 const struct tarn__hash_methods *methods);
void numba_dict_free(struct tarn__hash_table *dict);
int64_t numba_dict_length(const struct tarn__hash_table *dict);
/* Find a key and copy its value. Zero `value` if the result is negative. */
int64_t numba_dict_lookup(const struct tarn__hash_table *dict, const void *key,
                          int64_t hash, void *value);
/* Insert a key, or replace its value and copy the old one. */
int32_t numba_dict_insert(struct tarn__hash_table *dict, const void *key, int64_t hash,
                          const void *value, void *old_value);
int32_t numba_dict_insert_ez(struct tarn__hash_table *dict, const void *key, int64_t hash,
                             const void *value);
/* Remove the entry that a lookup found. */
int32_t numba_dict_delitem(struct tarn__hash_table *dict, int64_t hash, int64_t entry);
/* Remove the last entry. The caller gets its references. */
int32_t numba_dict_popitem(struct tarn__hash_table *dict, void *key, void *value);
size_t numba_dict_iter_sizeof(void);
void numba_dict_iter(struct tarn__hash_iterator *iterator,
                     const struct tarn__hash_table *dict);
int32_t numba_dict_iter_next(struct tarn__hash_iterator *iterator, const char **key,
                             const char **value);
/* Print the entries as bytes, for debugging. */
void numba_dict_dump(const struct tarn__hash_table *dict);

/* --- set --- */

enum {
    TARN__SET_OK = 0,
    TARN__SET_PRESENT = 1,
    TARN__SET_NO_MEMORY = -1, /* the number of "not found", which no function returns */
    TARN__SET_MUTATED = -2,
    TARN__SET_EXHAUSTED = -3,
    TARN__SET_NOT_COMPARED = -5
};

/* The methods of a set: those of a dict without the ones for values. */
struct tarn__set_methods {
    int32_t (*key_equal)(const void *key, const void *other);
    void (*key_incref)(const void *key);
    void (*key_decref)(const void *key);
};

int32_t numba_set_new(struct tarn__hash_table **out, int64_t key_bytes, int64_t keys);
int32_t numba_set_new_sized(struct tarn__hash_table **out, int64_t key_bytes,
                            int64_t keys);
void numba_set_set_method_table(struct tarn__hash_table *set,
                                const struct tarn__set_methods *methods);
void numba_set_free(struct tarn__hash_table *set);
int64_t numba_set_length(const struct tarn__hash_table *set);
int32_t numba_set_add(struct tarn__hash_table *set, const void *key, int64_t hash);
int64_t numba_set_contains(const struct tarn__hash_table *set, const void *key,
                           int64_t hash);
int32_t numba_set_discard(struct tarn__hash_table *set, const void *key, int64_t hash);
size_t numba_set_iter_sizeof(void);
void numba_set_iter(struct tarn__hash_iterator *iterator,
                    const struct tarn__hash_table *set);
int32_t numba_set_iter_next(struct tarn__hash_iterator *iterator, const char **key);
/* Print the keys as bytes, for debugging. */
void numba_set_dump(const struct tarn__hash_table *set);

/* --- list --- */

enum {
    TARN__LIST_OK = 0,
    TARN__LIST_BAD_INDEX = -1,
    TARN__LIST_NO_MEMORY = -2,
    TARN__LIST_MUTATED = -3,
    TARN__LIST_EXHAUSTED = -4,
    TARN__LIST_IMMUTABLE = -5
};

/* What compiled code does with items; NULL: nothing. */
struct tarn__list_methods {
    void (*item_incref)(const void *item);
    void (*item_decref)(const void *item);
};

struct tarn__list {
    int64_t length; /* compiled code reads it at numba_list_size_address() */
    int64_t capacity;
    int64_t item_bytes;
    struct tarn__list_methods methods;
    int32_t is_mutable;
    char *items; /* NULL if the capacity is 0 */
};

/* An iterator, in the three words that compiled code has for it. */
struct tarn__list_iterator {
    const struct tarn__list *list; /* borrowed */
    int64_t length;                /* of the list when the iterator began */
    int64_t next;                  /* index of the next item */
};

int32_t numba_list_new(struct tarn__list **out, int64_t item_bytes, int64_t capacity);
void numba_list_set_method_table(struct tarn__list *list,
                                 const struct tarn__list_methods *methods);
void numba_list_free(struct tarn__list *list);
char *numba_list_base_ptr(const struct tarn__list *list);
int64_t numba_list_size_address(const struct tarn__list *list);
int64_t numba_list_length(const struct tarn__list *list);
int64_t numba_list_allocated(const struct tarn__list *list);
int32_t numba_list_is_mutable(const struct tarn__list *list);
void numba_list_set_is_mutable(struct tarn__list *list, int32_t is_mutable);
int32_t numba_list_setitem(struct tarn__list *list, int64_t index, const void *item);
int32_t numba_list_getitem(const struct tarn__list *list, int64_t index, void *item);
int32_t numba_list_append(struct tarn__list *list, const void *item);
int32_t numba_list_delitem(struct tarn__list *list, int64_t index);
/* Remove the items start, start + step, ... before `stop`, all within the list. */
int32_t numba_list_delete_slice(struct tarn__list *list, int64_t start, int64_t stop,
                                int64_t step);
size_t numba_list_iter_sizeof(void);
void numba_list_iter(struct tarn__list_iterator *iterator, const struct tarn__list *list);
int32_t numba_list_iter_next(struct tarn__list_iterator *iterator, const char **item);

#endif
