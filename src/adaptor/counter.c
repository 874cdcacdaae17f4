/* counter.c -- a resource that counts bytes and blocks: now, at the peak, in total.
 *
 * The counts are a stack, so that a program can measure a part of itself: push before it,
 * pop after it. A popped set is merged into the one beneath, which is then as if it had
 * been on top all the time. Values may be negative: a block that was allocated before the
 * push may be freed after it.
 */
#include "adaptor/forward.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include <stdlib.h>

struct counter {
    struct tarn__adaptor adaptor;
    struct tarn__mutex lock; /* guards all fields below; not held during upstream calls */
    tarn_counts *sets;       /* `depth` of them are in use; the last is on top */
    size_t depth;            /* at least 1 */
    size_t capacity;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void count_up(tarn_counts *counts, int64_t bytes)
{
    counts->current_bytes += bytes;
    counts->current_count++;
    counts->peak_bytes = larger(counts->peak_bytes, counts->current_bytes);
    counts->peak_count = larger(counts->peak_count, counts->current_count);
}

static void note_allocation(struct counter *counter, size_t bytes)
{
    tarn__mutex_lock(&counter->lock);
    tarn_counts *top = &counter->sets[counter->depth - 1];
    count_up(top, (int64_t)bytes);
    top->total_bytes += (int64_t)bytes;
    top->total_count++;
    tarn__mutex_unlock(&counter->lock);
}

static void note_free(struct counter *counter, size_t bytes)
{
    tarn__mutex_lock(&counter->lock);
    tarn_counts *top = &counter->sets[counter->depth - 1];
    top->current_bytes -= (int64_t)bytes;
    top->current_count--;
    tarn__mutex_unlock(&counter->lock);
}

/* Undo the count of a free that failed: the block has been live all the time. */
static void undo_free(struct counter *counter, size_t bytes)
{
    tarn__mutex_lock(&counter->lock);
    count_up(&counter->sets[counter->depth - 1], (int64_t)bytes);
    tarn__mutex_unlock(&counter->lock);
}

static tarn_status counter_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    struct counter *counter = self;
    tarn_status status =
        tarn_resource_allocate(counter->adaptor.upstream, bytes, alignment, stream, out);

    if (status == TARN_OK)
        note_allocation(counter, bytes);
    return status;
}

/* Count down first. Once the upstream has the block, another thread may get it, and the
 * peak would count both although they were never live together. */
static tarn_status counter_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    struct counter *counter = self;

    note_free(counter, bytes);
    tarn_status status = tarn_resource_deallocate(counter->adaptor.upstream, block, bytes,
                                                  alignment, stream);
    if (status != TARN_OK)
        undo_free(counter, bytes);
    return status;
}

static void counter_free(struct counter *counter)
{
    tarn__mutex_destroy(&counter->lock);
    free(counter->sets);
    free(counter);
}

static void counter_destroy(void *self)
{
    struct counter *counter = self;

    tarn__forward_end(&counter->adaptor);
    counter_free(counter);
}

const tarn_resource_ops tarn__counter_ops = {
    .size = sizeof tarn__counter_ops,
    .name = "counter",
    .allocate = counter_allocate,
    .deallocate = counter_deallocate,
    .destroy = counter_destroy,
    TARN__FORWARD_QUERIES(tarn__forward_empty_request, tarn__forward_trim),
};

/* Reserve one more set; on failure the old ones stay. */
static bool reserve_set(struct counter *counter)
{
    if (counter->depth < counter->capacity)
        return true;
    size_t capacity = counter->capacity ? counter->capacity * 2 : 4;
    tarn_counts *sets = realloc(counter->sets, capacity * sizeof *sets);
    if (!sets)
        return false;
    counter->sets = sets;
    counter->capacity = capacity;
    return true;
}

tarn_status tarn_counter_create(tarn_resource *upstream, tarn_resource **out)
{
    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "counter: create: upstream or out is NULL");
    struct counter *counter = calloc(1, sizeof *counter);
    if (!counter || !reserve_set(counter)) {
        free(counter);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "counter: no host memory");
    }
    tarn__mutex_init(&counter->lock, NULL);
    counter->sets[counter->depth++] = (tarn_counts){0};
    tarn_status status =
        tarn__forward_create(&tarn__counter_ops, &counter->adaptor, upstream, out);
    if (status != TARN_OK)
        counter_free(counter);
    return status;
}

/* Return the counter in `resource`, or NULL with a message. */
static struct counter *counter_of(const tarn_resource *resource)
{
    struct counter *counter = tarn_resource_self(resource, &tarn__counter_ops);

    if (!counter)
        tarn_error_set(TARN_INVALID_ARGUMENT, "counter: \"%s\" is not a counter",
                       tarn_resource_name(resource));
    return counter;
}

tarn_status tarn_counter_read(tarn_resource *resource, tarn_counts *out)
{
    struct counter *counter = counter_of(resource);

    if (!counter)
        return TARN_INVALID_ARGUMENT;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "counter: read: out is NULL");
    tarn__mutex_lock(&counter->lock);
    *out = counter->sets[counter->depth - 1];
    tarn__mutex_unlock(&counter->lock);
    return TARN_OK;
}

/* `lock` held. */
static tarn_status push_set(struct counter *counter, tarn_counts *out)
{
    tarn__assert_mutex_held(&counter->lock.mutex);

    if (!reserve_set(counter))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "counter: no host memory for set %zu",
                              counter->depth + 1);
    if (out)
        *out = counter->sets[counter->depth - 1];
    counter->sets[counter->depth++] = (tarn_counts){0};
    return TARN_OK;
}

tarn_status tarn_counter_push(tarn_resource *resource, tarn_counts *out)
{
    struct counter *counter = counter_of(resource);

    if (!counter)
        return TARN_INVALID_ARGUMENT;
    tarn__mutex_lock(&counter->lock);
    tarn_status status = push_set(counter, out);
    tarn__mutex_unlock(&counter->lock);
    return status;
}

/* Set `lower` to its values without the push of `upper`. */
static void merge(tarn_counts *lower, const tarn_counts *upper)
{
    lower->peak_bytes =
        larger(lower->peak_bytes, lower->current_bytes + upper->peak_bytes);
    lower->peak_count =
        larger(lower->peak_count, lower->current_count + upper->peak_count);
    lower->current_bytes += upper->current_bytes;
    lower->current_count += upper->current_count;
    lower->total_bytes += upper->total_bytes;
    lower->total_count += upper->total_count;
}

/* `lock` held. */
static tarn_status pop_set(struct counter *counter, tarn_counts *out)
{
    tarn__assert_mutex_held(&counter->lock.mutex);

    if (counter->depth == 1)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "counter: pop without a matching push, 1 set is left");
    tarn_counts popped = counter->sets[--counter->depth];
    merge(&counter->sets[counter->depth - 1], &popped);
    if (out)
        *out = popped;
    return TARN_OK;
}

tarn_status tarn_counter_pop(tarn_resource *resource, tarn_counts *out)
{
    struct counter *counter = counter_of(resource);

    if (!counter)
        return TARN_INVALID_ARGUMENT;
    tarn__mutex_lock(&counter->lock);
    tarn_status status = pop_set(counter, out);
    tarn__mutex_unlock(&counter->lock);
    return status;
}
