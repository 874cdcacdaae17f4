/* hash_table.h -- what typed dicts and sets have in common: entries in the order of their
 * insertion, found by hash and key. */
#ifndef TARN_AOT_HASH_TABLE_H
#define TARN_AOT_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Results of a search that finds no entry. */
enum { TARN__NOT_FOUND = -1, TARN__KEYS_NOT_COMPARED = -2 };

/* What compiled code does with keys and values; NULL: nothing. Keys without `key_equal`
 * are equal if their bytes are. */
struct tarn__hash_methods {
    int32_t (*key_equal)(const void *key, const void *other); /* < 0: it raised */
    void (*key_incref)(const void *key);
    void (*key_decref)(const void *key);
    void (*value_incref)(const void *value);
    void (*value_decref)(const void *value);
};

struct tarn__hash_table {
    struct tarn__hash_methods methods;
    size_t key_bytes, value_bytes; /* sizes of a key and of a value */
    size_t value_offset;           /* bytes from the beginning of an entry to its value */
    size_t entry_bytes;            /* size of an entry */
    size_t live;                   /* entries that are in the table */
    size_t used;                   /* with removed ones, up to the last that is live */
    size_t filled;                 /* slots in use */
    size_t capacity;    /* entries that there is memory for, half of the slots */
    size_t rebuilds;    /* how often entries moved */
    unsigned slots_log; /* the table has 2^slots_log slots */
    uint32_t *slots;    /* numbers of entries, plus one; 0: free */
    char *entries;      /* hash, key, value; hash -1: removed */
};

/* An iterator, in the four words that compiled code has for it. */
struct tarn__hash_iterator {
    const struct tarn__hash_table *table; /* borrowed */
    size_t rebuilds, live;                /* of the table when the iterator began */
    size_t next;                          /* number of the next entry */
};

/* Create a table with memory for `capacity` entries; NULL without memory. */
struct tarn__hash_table *tarn__hash_table_create(size_t capacity, size_t key_bytes,
                                                 size_t value_bytes);

/* Destroy a table and drop the references of its entries. */
void tarn__hash_table_destroy(struct tarn__hash_table *table);

/* Return the number of a key's entry, or one of the negative results above. */
int64_t tarn__hash_table_find(const struct tarn__hash_table *table, const void *key,
                              int64_t hash);

/* Append an entry for a key that is not in the table, with a reference to key and value.
 * Return false without memory; the table is unchanged then. */
bool tarn__hash_table_append(struct tarn__hash_table *table, const void *key,
                             int64_t hash, const void *value);

/* Remove an entry. The references of key and value are the caller's then. */
void tarn__hash_table_remove(struct tarn__hash_table *table, size_t entry);

/* Return the number of the last entry, or TARN__NOT_FOUND in an empty table. */
int64_t tarn__hash_table_last(const struct tarn__hash_table *table);

/* Return the key of an entry, which moves with the next insertion. */
char *tarn__hash_table_key(const struct tarn__hash_table *table, size_t entry);

/* Return the value of an entry, which moves with the next insertion. */
char *tarn__hash_table_value(const struct tarn__hash_table *table, size_t entry);

/* Begin an iteration. */
void tarn__hash_table_begin(const struct tarn__hash_table *table,
                            struct tarn__hash_iterator *iterator);

/* Return true if the table has changed since the iteration began. */
bool tarn__hash_table_has_changed(const struct tarn__hash_iterator *iterator);

/* Return the number of the next entry, or TARN__NOT_FOUND behind the last. */
int64_t tarn__hash_table_next(struct tarn__hash_iterator *iterator);

#endif
