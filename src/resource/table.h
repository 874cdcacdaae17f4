/* table.h -- the blocks of a resource that are out, by address.
 *
 * It tells a foreign pointer, a second free and wrong bytes from a right free, and knows
 * what the driver gave where a block begins later because of its alignment.
 *
 * A record is made before the driver is asked for memory and dropped after the driver
 * has taken it back, so that recording cannot fail when there is something to lose:
 * tarn__record_new() is the only step that needs host memory.
 */
#ifndef TARN_RESOURCE_TABLE_H
#define TARN_RESOURCE_TABLE_H

#include <tarn/resource.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TARN__SHARDS = 16, TARN__FIRST_BUCKETS = 8 };

/* One block. The fields change only while nobody else can find it. */
struct tarn__record {
    struct tarn__record *next; /* in its bucket */
    uint64_t block;            /* the address that was handed out */
    uint64_t base;             /* what the driver gave; <= block */
    size_t bytes;              /* as asked for */
    size_t alignment;          /* as asked for, at least TARN_ALIGNMENT */
    uint64_t life;             /* of the context that it was allocated in */
};

struct tarn__shard {
    uint64_t factor;               /* tarn__hash_factor(); never changes */
    pthread_mutex_t lock;          /* everything below */
    struct tarn__record **buckets; /* `first`, or from malloc once that is too small */
    size_t bucket_count;           /* a power of two */
    size_t count;
    struct tarn__record *first[TARN__FIRST_BUCKETS];
};

struct tarn__table {
    struct tarn__shard shards[TARN__SHARDS]; /* by address, so that threads rarely meet */
    atomic_size_t count;                     /* records in all */
};

void tarn__table_init(struct tarn__table *table);
void tarn__table_free(struct tarn__table *table);

/* A record that is in no table yet; NULL: no host memory. */
struct tarn__record *tarn__record_new(size_t bytes, size_t alignment);
void tarn__record_drop(struct tarn__record *record);

/* Enter `record`. Its block is not in the table. Cannot fail. */
void tarn__table_put(struct tarn__table *table, struct tarn__record *record);

/* Take the record of `block` out, of `life` (0: of the youngest life that has it), or refuse in the words of `who`: it is not out here, or
 * has other bytes or another alignment. */
tarn_status tarn__table_take(struct tarn__table *table, const char *who, uint64_t block,
                             size_t bytes, size_t alignment, uint64_t life,
                             struct tarn__record **out);

/* The bytes that `block` was asked for. */
tarn_status tarn__table_bytes(struct tarn__table *table, const char *who, uint64_t block,
                              size_t *out);

/* Hold every shard, and let go: around a fork, so that the child gets a table in which
 * nobody was at work. */
void tarn__table_lock(struct tarn__table *table);
void tarn__table_unlock(struct tarn__table *table);

size_t tarn__table_count(const struct tarn__table *table);

#endif
