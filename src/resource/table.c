/* table.c -- a hash table of records in shards, each with a lock of its own.
 *
 * It is chained, not probed as base/map.h. A record brings its own memory, so entering it
 * again after a failed free of the driver cannot fail. Buckets that cannot grow without
 * host memory only become longer.
 */
#include "resource/table.h"
#include "base/mutex_assert.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

/* The top bits choose the shard, the next ones the bucket. */
static uint64_t hash(uint64_t factor, uint64_t block)
{
    return tarn__hash_number(factor, block >> 8);
}

static struct tarn__shard *shard_of(struct tarn__table *table, uint64_t block)
{
    /* 4 bits: TARN__SHARDS */
    return &table->shards[hash(table->shards[0].factor, block) >> 60];
}

static struct tarn__record **bucket_of(const struct tarn__shard *shard, uint64_t block)
{
    unsigned shift = 64 - (unsigned)__builtin_ctzll(shard->bucket_count);

    return &shard->buckets[hash(shard->factor, block) << 4 >> shift];
}

/* Return the link that leads to the record of `block` in this context generation (0: in
 * any), or to the NULL at its bucket's end. Records of two generations may have one
 * address; the younger one comes first. */
static struct tarn__record **link_of(const struct tarn__shard *shard, uint64_t block,
                                     uint64_t context_generation)
{
    struct tarn__record **link = bucket_of(shard, block);

    while (*link &&
           ((*link)->block != block ||
            (context_generation && (*link)->context_generation != context_generation)))
        link = &(*link)->next;
    return link;
}

static void push(struct tarn__shard *shard, struct tarn__record *record)
{
    struct tarn__record **bucket = bucket_of(shard, record->block);

    record->next = *bucket;
    *bucket = record;
}

/* Double the buckets, if there is host memory for them. */
static void grow(struct tarn__shard *shard)
{
    struct tarn__shard bigger = {.factor = shard->factor,
                                 .bucket_count = shard->bucket_count * 2};

    bigger.buckets = calloc(bigger.bucket_count, sizeof *bigger.buckets);
    if (!bigger.buckets)
        return;
    for (size_t i = 0; i < shard->bucket_count; i++) {
        while (shard->buckets[i]) {
            struct tarn__record *record = shard->buckets[i];
            shard->buckets[i] = record->next;
            push(&bigger, record);
        }
    }
    if (shard->buckets != shard->first)
        free(shard->buckets);
    shard->buckets = bigger.buckets;
    shard->bucket_count = bigger.bucket_count;
}

void tarn__table_init(struct tarn__table *table)
{
    memset(table, 0, sizeof *table);
    for (int i = 0; i < TARN__SHARDS; i++) {
        pthread_mutex_init(&table->shards[i].lock, NULL);
        table->shards[i].factor = tarn__hash_factor();
        table->shards[i].buckets = table->shards[i].first;
        table->shards[i].bucket_count = TARN__FIRST_BUCKETS;
    }
    atomic_init(&table->count, 0);
}

static void free_shard(struct tarn__shard *shard)
{
    for (size_t i = 0; i < shard->bucket_count; i++) {
        while (shard->buckets[i]) {
            struct tarn__record *record = shard->buckets[i];
            shard->buckets[i] = record->next;
            free(record);
        }
    }
    if (shard->buckets != shard->first)
        free(shard->buckets);
    pthread_mutex_destroy(&shard->lock);
}

void tarn__table_free(struct tarn__table *table)
{
    for (int i = 0; i < TARN__SHARDS; i++)
        free_shard(&table->shards[i]);
}

struct tarn__record *tarn__table_record_new(size_t bytes, size_t alignment)
{
    struct tarn__record *record = calloc(1, sizeof *record);

    if (record) {
        record->bytes = bytes;
        record->alignment = alignment;
    }
    return record;
}

void tarn__table_record_drop(struct tarn__record *record)
{
    free(record);
}

void tarn__table_put(struct tarn__table *table, struct tarn__record *record)
{
    struct tarn__shard *shard = shard_of(table, record->block);

    pthread_mutex_lock(&shard->lock);
    if (shard->count >= shard->bucket_count)
        grow(shard);
    push(shard, record);
    shard->count++;
    pthread_mutex_unlock(&shard->lock);
    atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
}

static tarn_status not_live(const char *component, uint64_t block)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "%s: 0x%llx is not a live allocation of this resource",
                          component, (unsigned long long)block);
}

/* Unlink the record of `block` if bytes and alignment fit. `lock` held. */
static tarn_status take_locked(struct tarn__shard *shard, const char *component,
                               uint64_t block, size_t bytes, size_t alignment,
                               uint64_t context_generation, struct tarn__record **out)
{
    tarn__assert_mutex_held(&shard->lock);

    struct tarn__record **link = link_of(shard, block, context_generation),
                        *record = *link;

    if (!record)
        return not_live(component, block);
    if (record->bytes != bytes)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: 0x%llx was allocated with %zu bytes, freed with %zu",
                              component, (unsigned long long)block, record->bytes, bytes);
    if (record->alignment != alignment)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: 0x%llx was allocated with alignment %zu, freed with %zu", component,
            (unsigned long long)block, record->alignment, alignment);
    *link = record->next;
    shard->count--;
    *out = record;
    return TARN_OK;
}

tarn_status tarn__table_take(struct tarn__table *table, const char *component,
                             uint64_t block, size_t bytes, size_t alignment,
                             uint64_t context_generation, struct tarn__record **out)
{
    struct tarn__shard *shard = shard_of(table, block);

    pthread_mutex_lock(&shard->lock);
    tarn_status status =
        take_locked(shard, component, block, bytes, alignment, context_generation, out);
    pthread_mutex_unlock(&shard->lock);
    if (status == TARN_OK)
        atomic_fetch_sub_explicit(&table->count, 1, memory_order_relaxed);
    return status;
}

tarn_status tarn__table_bytes(struct tarn__table *table, const char *component,
                              uint64_t block, size_t *out)
{
    struct tarn__shard *shard = shard_of(table, block);
    size_t bytes = 0;

    pthread_mutex_lock(&shard->lock);
    const struct tarn__record *record = *link_of(shard, block, 0);
    if (record)
        bytes = record->bytes;
    pthread_mutex_unlock(&shard->lock);
    if (bytes == 0) /* no block has 0 bytes */
        return not_live(component, block);
    *out = bytes;
    return TARN_OK;
}

void tarn__table_lock(struct tarn__table *table)
{
    for (int i = 0; i < TARN__SHARDS; i++)
        pthread_mutex_lock(&table->shards[i].lock);
}

void tarn__table_unlock(struct tarn__table *table)
{
    for (int i = 0; i < TARN__SHARDS; i++)
        pthread_mutex_unlock(&table->shards[i].lock);
}

size_t tarn__table_count(const struct tarn__table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed);
}
