/* tracker.c -- a resource that lists its live blocks, with the call stack of each.
 *
 * The stack is captured before the upstream is called, on the thread and at the place of
 * the allocation, and without the lock. A block keeps the number of its stack alone.
 *
 * Space for the record is reserved before the upstream is called, so that a block cannot
 * be lost for lack of host memory. A record goes before the upstream gets the block:
 * another thread may receive the same address at once. If the free fails, the record
 * returns into the space that it had.
 */
#include "adaptor/forward.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "base/options.h"
#include "driver/stream.h"
#include <inttypes.h>
#include <stdlib.h>

struct record {
    size_t bytes; /* as requested */
    tarn_stack stack;
};

struct tracker {
    struct tarn__adaptor adaptor;
    unsigned stack_depth;    /* never changes */
    struct tarn__mutex lock; /* guards what follows; not held during upstream calls */
    struct tarn__map blocks; /* address of a live block -> struct record */
    size_t pending; /* calls under way, each with space for a record; in a forked child
                     * also those of threads that do not exist there */
    size_t bytes;   /* of the live blocks */
};

/* `lock` held. */
static void put_record(struct tracker *tracker, tarn_device_ptr block,
                       const struct record *record)
{
    tarn__assert_mutex_held(&tracker->lock.mutex);

    struct record old;

    /* The memory of a context that was reset is allocated again. */
    if (tarn__map_take(&tracker->blocks, block, &old))
        tracker->bytes -= old.bytes;
    tarn__map_put(&tracker->blocks, block, record);
    tracker->bytes += record->bytes;
}

static bool reserve_record(struct tracker *tracker)
{
    tarn__mutex_lock(&tracker->lock);
    bool is_reserved = tarn__map_reserve(&tracker->blocks, tracker->pending + 1);
    tracker->pending += is_reserved;
    tarn__mutex_unlock(&tracker->lock);
    return is_reserved;
}

/* Use the reserved space for a record, or return it if `block` is 0. */
static void use_reserved(struct tracker *tracker, tarn_device_ptr block,
                         const struct record *record)
{
    tarn__mutex_lock(&tracker->lock);
    tracker->pending--;
    if (block)
        put_record(tracker, block, record);
    tarn__mutex_unlock(&tracker->lock);
}

static tarn_status tracker_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    struct tracker *tracker = self;
    tarn_device_ptr block = 0;
    struct record record = {bytes, TARN_STACK_UNKNOWN};

    if (!reserve_record(tracker))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "tracker: no host memory to record a block of %zu bytes",
                              bytes);
    if (tracker->stack_depth > 0)
        record.stack = tarn_stack_capture(tracker->stack_depth);
    tarn_status status = tarn_resource_allocate(tracker->adaptor.upstream, bytes,
                                                alignment, stream, &block);
    use_reserved(tracker, status == TARN_OK ? block : 0, &record);
    if (status == TARN_OK)
        *out = block;
    return status;
}

/* Take the record of a block. Its space stays reserved. False: there is none. */
static bool take_record(struct tracker *tracker, tarn_device_ptr block,
                        struct record *out)
{
    tarn__mutex_lock(&tracker->lock);
    bool is_recorded = tarn__map_take(&tracker->blocks, block, out);
    if (is_recorded) {
        tracker->bytes -= out->bytes;
        tracker->pending++;
    }
    tarn__mutex_unlock(&tracker->lock);
    return is_recorded;
}

static tarn_status tracker_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    struct tracker *tracker = self;
    struct record record;
    bool is_recorded = take_record(tracker, block, &record);
    tarn_status status = tarn_resource_deallocate(tracker->adaptor.upstream, block, bytes,
                                                  alignment, stream);

    if (is_recorded)
        use_reserved(tracker, status == TARN_OK ? 0 : block, &record);
    return status;
}

static void tracker_free(struct tracker *tracker)
{
    tarn__mutex_destroy(&tracker->lock);
    tarn__map_free(&tracker->blocks);
    free(tracker);
}

static void tracker_destroy(void *self)
{
    struct tracker *tracker = self;

    tarn__forward_end(&tracker->adaptor);
    tracker_free(tracker);
}

const tarn_resource_ops tarn__tracker_ops = {
    .size = sizeof tarn__tracker_ops,
    .name = "tracker",
    .allocate = tracker_allocate,
    .deallocate = tracker_deallocate,
    .destroy = tracker_destroy,
    TARN__FORWARD_QUERIES(tarn__forward_empty_request, tarn__forward_trim),
};

tarn_status tarn_tracker_create(tarn_resource *upstream,
                                const tarn_tracker_options *options, tarn_resource **out)
{
    tarn_tracker_options all;

    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "tracker: create: upstream or out is NULL");
    tarn_status status =
        tarn__options_read("tracker", options, sizeof options->size, &all, sizeof all);
    if (status != TARN_OK)
        return status;
    if (all.stack_depth > TARN_STACK_DEPTH_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "tracker: create: a stack_depth of %u, the maximum is %d",
                              all.stack_depth, TARN_STACK_DEPTH_MAX);
    struct tracker *tracker = calloc(1, sizeof *tracker);
    if (!tracker)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "tracker: no host memory");
    tracker->stack_depth = all.stack_depth;
    tarn__map_init(&tracker->blocks, sizeof(struct record));
    tarn__mutex_init(&tracker->lock, NULL);
    status = tarn__forward_create(&tarn__tracker_ops, &tracker->adaptor, upstream, out);
    if (status != TARN_OK)
        tracker_free(tracker);
    return status;
}

/* --- lists --- */

/* Return the tracker in `resource`, or NULL with a message. */
static struct tracker *tracker_of(const tarn_resource *resource)
{
    struct tracker *tracker = tarn_resource_self(resource, &tarn__tracker_ops);

    if (!tracker)
        tarn_error_set(TARN_INVALID_ARGUMENT, "tracker: \"%s\" is not a tracker",
                       tarn_resource_name(resource));
    return tracker;
}

tarn_status tarn_tracker_bytes(tarn_resource *resource, size_t *out)
{
    struct tracker *tracker = tracker_of(resource);

    if (!tracker)
        return TARN_INVALID_ARGUMENT;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "tracker: bytes: out is NULL");
    tarn__mutex_lock(&tracker->lock);
    *out = tracker->bytes;
    tarn__mutex_unlock(&tracker->lock);
    return TARN_OK;
}

static int by_address(const void *one, const void *two)
{
    const tarn_tracked_block *a = one, *b = two;

    return a->address < b->address ? -1 : a->address > b->address;
}

/* Copy the live blocks into an array that the caller frees. NULL: no host memory. */
static tarn_tracked_block *copy_blocks(struct tracker *tracker, size_t *count_out)
{
    size_t cursor = 0, count = 0;
    uint64_t address;
    void *value;

    tarn__mutex_lock(&tracker->lock);
    tarn_tracked_block *blocks = malloc((tracker->blocks.count + 1) * sizeof *blocks);
    while (blocks && tarn__map_next(&tracker->blocks, &cursor, &address, &value)) {
        const struct record *record = value;
        blocks[count++] = (tarn_tracked_block){address, record->bytes, record->stack};
    }
    tarn__mutex_unlock(&tracker->lock);
    if (blocks)
        qsort(blocks, count, sizeof *blocks, by_address);
    *count_out = count;
    return blocks;
}

tarn_status tarn_tracker_visit(tarn_resource *resource, tarn_tracker_visit_fn visit,
                               void *data)
{
    struct tracker *tracker = tracker_of(resource);
    size_t count;

    if (!tracker)
        return TARN_INVALID_ARGUMENT;
    if (!visit)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "tracker: visit: visit is NULL");
    tarn_tracked_block *blocks = copy_blocks(tracker, &count);
    if (!blocks)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "tracker: visit: no host memory for a list of the blocks");
    size_t visited = 0;
    while (visited < count && visit(data, &blocks[visited]))
        visited++;
    free(blocks);
    return TARN_OK;
}

static bool print_block(void *data, const tarn_tracked_block *block)
{
    FILE *out = data;

    fprintf(out, "0x%" PRIx64 ": %zu B\n", (uint64_t)block->address, block->bytes);
    if (block->stack != TARN_STACK_UNKNOWN)
        tarn_stack_print(block->stack, out);
    return true;
}

tarn_status tarn_tracker_print(tarn_resource *resource, FILE *out)
{
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "tracker: print: out is NULL");
    return tarn_tracker_visit(resource, print_block, out);
}

/* What the rows of a snapshot have in common, and the status of the last one. */
struct snapshot {
    tarn_trace_writer *writer;
    tarn_trace_event event;
    tarn_status status;
};

static bool write_block(void *data, const tarn_tracked_block *block)
{
    struct snapshot *snapshot = data;

    snapshot->event.address = block->address;
    snapshot->event.bytes = block->bytes;
    snapshot->event.stack = block->stack;
    snapshot->event.live_blocks++;
    snapshot->status = tarn_trace_write(snapshot->writer, &snapshot->event);
    return snapshot->status == TARN_OK;
}

tarn_status tarn_tracker_write(tarn_resource *resource, tarn_trace_writer *writer)
{
    if (!writer)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "tracker: write: writer is NULL");
    uint64_t now = tarn_trace_writer_time_ns(writer, tarn__clock_now_ns());
    struct snapshot snapshot = {
        .writer = writer,
        .event = {.action = TARN_ACTION_ALLOCATE,
                  .device = tarn_resource_device(resource),
                  .stream = tarn__stream_number(TARN_STREAM_NONE),
                  .start_ns = now,
                  .end_ns = now},
    };
    tarn_status status = tarn_tracker_visit(resource, write_block, &snapshot);
    return status != TARN_OK ? status : snapshot.status;
}
