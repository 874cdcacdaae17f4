/* table.h -- the live blocks of a resource, by address.
 *
 * The table detects a block of another resource, a double free and wrong bytes.
 * It also records the driver's allocation of a block that begins later because of its
 * alignment.
 *
 * A record is made before the driver allocates, and dropped after the driver has taken
 * the memory back. Recording therefore cannot fail when memory could be lost:
 * tarn__table_record_new() is the only step that needs host memory.
 */
#ifndef TARN_RESOURCE_TABLE_H
#define TARN_RESOURCE_TABLE_H

#include <tarn/resource.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TARN__SHARDS = 16, TARN__FIRST_BUCKETS = 8 };

/* One block. The fields change only while no other thread can find it. */
struct tarn__record {
    struct tarn__record *next;   /* in its bucket */
    uint64_t block;              /* the address that the caller has */
    uint64_t base;               /* the address from the driver; <= block */
    size_t bytes;                /* as requested */
    size_t alignment;            /* as requested, at least TARN_ALIGNMENT */
    uint64_t context_generation; /* generation of the context in which it was allocated */
};

struct tarn__shard {
    uint64_t factor;               /* tarn__hash_factor(); never changes */
    pthread_mutex_t lock;          /* guards all fields below */
    struct tarn__record **buckets; /* `first`, or from malloc once that is too small */
    size_t bucket_count;           /* a power of two */
    size_t count;
    struct tarn__record *first[TARN__FIRST_BUCKETS];
};

struct tarn__table {
    /* by address, so that threads rarely contend */
    struct tarn__shard shards[TARN__SHARDS];
    atomic_size_t count; /* all records */
};

void tarn__table_init(struct tarn__table *table);
void tarn__table_free(struct tarn__table *table);

/* Make a record that is in no table yet; NULL: no host memory. */
struct tarn__record *tarn__table_record_new(size_t bytes, size_t alignment);
void tarn__table_record_drop(struct tarn__record *record);

/* Enter `record`. Its block is not in the table. Cannot fail. */
void tarn__table_put(struct tarn__table *table, struct tarn__record *record);

/* Remove the record of `block` in this context generation (0: in the youngest that has
 * it). Fails, with a message that names `component`, if it is not a live block of this
 * table, or has other bytes or another alignment. */
tarn_status tarn__table_take(struct tarn__table *table, const char *component,
                             uint64_t block, size_t bytes, size_t alignment,
                             uint64_t context_generation, struct tarn__record **out);

/* Return the requested bytes of `block`. */
tarn_status tarn__table_bytes(struct tarn__table *table, const char *component,
                              uint64_t block, size_t *out);

/* Take and release the locks of all shards, around a fork: the child then gets a table in
 * which no thread was at work. */
void tarn__table_lock(struct tarn__table *table);
void tarn__table_unlock(struct tarn__table *table);

size_t tarn__table_count(const struct tarn__table *table);

#endif
