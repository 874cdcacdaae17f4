/* model.c -- random operations on a resource, compared with a simple model.
 *
 *     model [--resource pool|pool/plan|pool/cuda|async|cuda] [--operations N] [--seed N]
 *
 * The model is a sorted array of live blocks. Each allocated block has to be aligned,
 * long enough, and disjoint from all others. Each invalid free has to be rejected and to
 * change nothing: a second free, an unknown address, the middle of a block, another size,
 * another alignment. Impossible sizes have to be rejected, and the counts of the resource
 * have to equal those of the model. No work is queued on the device here: tests/order
 * checks that memory is not reused too early.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>
#include "run.h"
#include "../support/random_plan.h"

enum {
    BLOCKS_MAX = 3000,
    STREAMS = 4,
    FREED = 64,          /* addresses that were freed last */
    WALK_EVERY = 200000, /* operations between checks of all blocks of a pool */
    COUNT_EVERY = 1000,
    CHANGE = 60 /* of this many draws one sets the maximum, and one suspends */
};
static const size_t MOST_BYTES = (size_t)512 << 20;

struct block {
    tarn_device_ptr address;
    size_t bytes, alignment;
};

static struct {
    tarn_resource *resource;
    bool is_pool;
    tarn_stream raw[STREAMS], streams[STREAMS + 3];
    unsigned stream_count;
    bool suspends, is_suspended;          /* it supports that; it is in that state */
    size_t limit;                         /* of a pool; 0: none */
    struct block live_blocks[BLOCKS_MAX]; /* by address */
    size_t count, bytes;
    size_t target; /* target number of live blocks; drifts */
    struct block freed[FREED];
    unsigned freed_count;
    uint64_t allocations, failed_allocations, wrong;
} model;

/* --- the model ------------------------------------------------------------------------- */

/* The first block at or above an address: its index, or `count`. */
static size_t place_of(tarn_device_ptr address)
{
    size_t low = 0, high = model.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (model.live_blocks[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_live(tarn_device_ptr address)
{
    size_t place = place_of(address);

    return place < model.count && model.live_blocks[place].address == address;
}

static void enter(struct block block)
{
    size_t at = place_of(block.address);
    const struct block *below = at > 0 ? &model.live_blocks[at - 1] : NULL;
    const struct block *above = at < model.count ? &model.live_blocks[at] : NULL;
    size_t alignment =
        block.alignment > TARN_ALIGNMENT ? block.alignment : TARN_ALIGNMENT;

    if (block.address % alignment != 0)
        fail("0x%llx is not aligned to %zu", block.address, alignment);
    if (below && below->address + below->bytes > block.address)
        fail("0x%llx of %zu bytes lies in 0x%llx of %zu", block.address, block.bytes,
             below->address, below->bytes);
    if (above && block.address + block.bytes > above->address)
        fail("0x%llx of %zu bytes reaches into 0x%llx of %zu", block.address, block.bytes,
             above->address, above->bytes);
    memmove(&model.live_blocks[at + 1], &model.live_blocks[at],
            (model.count - at) * sizeof block);
    model.live_blocks[at] = block;
    model.count++;
    model.bytes += block.bytes;
}

static struct block leave(size_t at)
{
    struct block block = model.live_blocks[at];

    model.count--;
    model.bytes -= block.bytes;
    memmove(&model.live_blocks[at], &model.live_blocks[at + 1],
            (model.count - at) * sizeof block);
    return block;
}

/* --- operations ------------------------------------------------------------------------ */

static tarn_stream some_stream(void)
{
    return model.streams[draw(model.stream_count)];
}

static size_t some_bytes(void)
{
    size_t floor = (size_t)1 << draw(draw(8) == 0 ? 22 : 15);

    return floor + draw(floor);
}

static size_t some_alignment(void)
{
    return draw(8) == 0 ? (size_t)1 << draw(22) : 0;
}

static void allocate(void)
{
    struct block block = {.bytes = some_bytes(), .alignment = some_alignment()};
    tarn_status status;

    if (model.count == BLOCKS_MAX)
        return;
    status = tarn_resource_allocate(model.resource, block.bytes, block.alignment,
                                    some_stream(), &block.address);
    if (model.is_suspended) {
        if (status != TARN_SUSPENDED)
            fail("asleep, %zu bytes give %s", block.bytes, tarn_status_name(status));
        model.failed_allocations++;
        return;
    }
    if (status == TARN_OUT_OF_MEMORY ||
        (status == TARN_NOT_SUPPORTED && block.alignment)) {
        model.failed_allocations++;
        return;
    }
    if (status != TARN_OK)
        fail("%zu bytes at %zu: %s", block.bytes, block.alignment,
             tarn_error_last()->message);
    model.allocations++;
    enter(block);
}

static void free_one(void)
{
    if (model.count == 0)
        return;
    struct block block = leave(draw(model.count));
    if (tarn_resource_deallocate(model.resource, block.address, block.bytes,
                                 block.alignment, some_stream()) != TARN_OK)
        fail("free of 0x%llx: %s", block.address, tarn_error_last()->message);
    model.freed[model.freed_count++ % FREED] = block;
}

/* Make an invalid free, which is rejected with a message. */
static void check_rejected(struct block block, const char *what)
{
    tarn_status status = tarn_resource_deallocate(
        model.resource, block.address, block.bytes, block.alignment, some_stream());

    model.wrong++;
    if (status != TARN_INVALID_ARGUMENT)
        fail("%s of 0x%llx, %zu bytes, gives %s", what, block.address, block.bytes,
             tarn_status_name(status));
}

static void free_wrongly(void)
{
    if (model.count == 0)
        return;
    struct block block = model.live_blocks[draw(model.count)];
    const struct block *freed = &model.freed[draw(FREED)];

    switch (draw(5)) {
    case 0:
        block.bytes += 1 + draw(1000);
        check_rejected(block, "a free with more bytes");
        break;
    case 1:
        block.bytes -= 1 + draw(block.bytes);
        if (block.bytes > 0)
            check_rejected(block, "a free with fewer bytes");
        break;
    case 2:
        block.address += 1 + draw(block.bytes);
        if (!is_live(block.address))
            check_rejected(block, "a free in the middle of a block");
        break;
    case 3:
        block.address = (1 + draw(1 << 20)) * 4096; /* no mapping is in the first 4 GiB */
        check_rejected(block, "a free of a foreign address");
        break;
    default:
        if (freed->address && !is_live(freed->address))
            check_rejected(*freed, "a second free");
    }
}

static void ask_too_much(void)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX - (2 << 20),
                                   SIZE_MAX / 2, (size_t)1 << 62};
    tarn_device_ptr live_blocks = 1;
    size_t bytes = sizes[draw(5)];
    tarn_status status = tarn_resource_allocate(model.resource, bytes, some_alignment(),
                                                some_stream(), &live_blocks);

    model.wrong++;
    if (status != TARN_OUT_OF_MEMORY && status != TARN_INVALID_ARGUMENT &&
        status != TARN_NOT_SUPPORTED && !(model.is_suspended && status == TARN_SUSPENDED))
        fail("%zu bytes give %s", bytes, tarn_status_name(status));
    if (live_blocks != 1)
        fail("an output was touched");
    status =
        tarn_resource_allocate(model.resource, 100, 3 * 256, some_stream(), &live_blocks);
    if (status != TARN_INVALID_ARGUMENT)
        fail("an alignment of 768 gives %s", tarn_status_name(status));
    if (tarn_resource_allocate(model.resource, 0, 0, some_stream(), &live_blocks) !=
            TARN_OK ||
        live_blocks)
        fail("0 bytes are not NULL");
}

static void ask_bytes(void)
{
    size_t bytes = 0;

    if (model.count == 0)
        return;
    const struct block *block = &model.live_blocks[draw(model.count)];
    if (tarn_resource_requested_bytes(model.resource, block->address, &bytes) !=
            TARN_OK ||
        bytes != block->bytes)
        fail("0x%llx has %zu bytes, it says %zu", block->address, block->bytes, bytes);
}

static void trim(void)
{
    size_t released;

    if (tarn_resource_trim(model.resource, draw(64 << 20), &released) != TARN_OK)
        fail("trim: %s", tarn_error_last()->message);
}

/* Set a maximum of twice to once the live bytes; a lower one is rejected. */
static void change_limit(void)
{
    tarn_pool_statistics seen = {.size = sizeof seen};
    size_t most;

    if (!model.is_pool)
        return;
    if (tarn_pool_get_statistics(model.resource, &seen) != TARN_OK)
        fail("statistics: %s", tarn_error_last()->message);
    if (seen.live > 0 && tarn_pool_set_maximum(model.resource, 1 + draw(seen.live - 1)) !=
                             TARN_INVALID_ARGUMENT)
        fail("a limit below what is live, %" PRIu64 " bytes, is taken", seen.live);
    most = draw(2) ? MOST_BYTES : seen.live + draw(seen.live + 1) + 1;
    if (tarn_pool_set_maximum(model.resource, most) != TARN_OK)
        fail("a limit of %zu bytes: %s", most, tarn_error_last()->message);
    model.limit = most;
}

static void suspend_or_resume(void)
{
    tarn_status status;

    if (!model.suspends)
        return;
    status = model.is_suspended ? tarn_pool_resume(model.resource)
                                : tarn_pool_suspend(model.resource, draw(20) == 0);
    if (status != TARN_OK)
        fail("%s: %s", model.is_suspended ? "wake" : "sleep", tarn_error_last()->message);
    model.is_suspended = !model.is_suspended;
}

/* --- the statistics of a pool ------------------------------------------------------- */

struct walk {
    tarn_device_ptr end; /* of the block before */
    size_t live;
};

static bool on_block(void *data, const tarn_pool_block *block)
{
    struct walk *walk = data;

    if (block->address < walk->end)
        fail("snapshot: 0x%llx begins in the block before", block->address);
    walk->end = block->address + block->bytes;
    if (block->state != TARN_POOL_LIVE)
        return true;
    size_t at = place_of(block->address);
    if (at == model.count || model.live_blocks[at].address != block->address ||
        model.live_blocks[at].bytes != block->requested_bytes ||
        block->bytes < block->requested_bytes)
        fail("snapshot: 0x%llx of %zu bytes is not a live block", block->address,
             block->requested_bytes);
    walk->live++;
    return true;
}

static void compare_all(void)
{
    struct walk walk = {0};

    if (!model.is_pool)
        return;
    if (tarn_pool_snapshot(model.resource, on_block, &walk) != TARN_OK)
        fail("snapshot: %s", tarn_error_last()->message);
    if (walk.live != model.count)
        fail("snapshot: %zu blocks are live, the model has %zu", walk.live, model.count);
}

static void compare_counts(void)
{
    tarn_pool_statistics seen = {.size = sizeof seen};

    if (tarn_resource_live_blocks(model.resource) != model.count)
        fail("the model has %zu live blocks, the pool %zu", model.count,
             tarn_resource_live_blocks(model.resource));
    if (!model.is_pool)
        return;
    if (tarn_pool_get_statistics(model.resource, &seen) != TARN_OK)
        fail("statistics: %s", tarn_error_last()->message);
    if (seen.live_blocks != model.count || seen.live_requested != model.bytes)
        fail("the model has %zu blocks of %zu bytes, the pool %" PRIu64 " of %" PRIu64,
             model.count, model.bytes, seen.live_blocks, seen.live_requested);
    if (seen.live < seen.live_requested)
        fail("live %" PRIu64 " is less than the requested bytes, %" PRIu64, seen.live,
             seen.live_requested);
    if (seen.live + seen.thread_cached + seen.cached + seen.captured != seen.reserved)
        fail("live %" PRIu64 " + parked %" PRIu64 " + cached %" PRIu64
             " + captured %" PRIu64 " is not reserved %" PRIu64,
             seen.live, seen.thread_cached, seen.cached, seen.captured, seen.reserved);
    if (seen.suspended != (model.is_suspended ? seen.reserved : 0))
        fail("asleep are %" PRIu64 " of %" PRIu64 " bytes", seen.suspended,
             seen.reserved);
    if (model.limit && seen.maximum != model.limit)
        fail("the limit is %" PRIu64 ", not %zu", seen.maximum, model.limit);
    if (seen.unfenced > seen.cached)
        fail("pending %" PRIu64 " is more than cached %" PRIu64, seen.unfenced,
             seen.cached);
    if (seen.allocations != model.allocations)
        fail("%" PRIu64 " allocations, it says %" PRIu64, model.allocations,
             seen.allocations);
}

/* --- a run ----------------------------------------------------------------------------- */

static void step(void)
{
    unsigned kind = (unsigned)draw(1000);

    if (kind < 20)
        free_wrongly();
    else if (kind < 23)
        ask_too_much();
    else if (kind < 40)
        ask_bytes();
    else if (kind < 41 && draw(20) == 0)
        trim();
    else if (kind < 42 && draw(CHANGE) == 0)
        change_limit();
    else if (model.is_suspended ? kind < 60 : kind < 42 && draw(CHANGE) == 0)
        suspend_or_resume();
    else if (kind < 42 && draw(20) == 0)
        model.target = draw(BLOCKS_MAX);
    else if (draw(2000) + model.target < 1000 + model.count)
        free_one();
    else
        allocate();
    if (run.operation % COUNT_EVERY == 0)
        compare_counts();
    if (run.operation % WALK_EVERY == 0)
        compare_all();
}

/* A plan that does not fit: its blocks are in each other's way. */
static tarn_plan *some_plan(void)
{
    const struct random_plan wanted = {.seed = run.seed + 1,
                                       .slots = 1 << 20,
                                       .streams = STREAMS + 2,
                                       .threads = 1,
                                       .height = (uint32_t)(MOST_BYTES / 512),
                                       .largest = 4096};
    tarn_plan *plan = random_plan(&wanted);

    if (!plan)
        fail("plan: %s", tarn_error_last()->message);
    return plan;
}

static void make_resource(const char *name)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = MOST_BYTES};
    tarn_resource *upstream = NULL, *resource = NULL;
    tarn_status status = TARN_OK;
    tarn_plan *plan = NULL;

    model.is_pool = strncmp(name, "pool", 4) == 0;
    if (strcmp(name, "cuda") == 0 || strcmp(name, "pool/cuda") == 0)
        status = tarn_cuda_create(0, &upstream);
    else if (strcmp(name, "async") == 0 || strcmp(name, "pool/async") == 0)
        status = tarn_async_create(0, NULL, &upstream);
    else if (strcmp(name, "pool") != 0 && strcmp(name, "pool/plan") != 0)
        fail("there is no resource %s", name);
    if (strcmp(name, "pool/plan") == 0)
        options.plan = plan = some_plan();
    if (status == TARN_OK && model.is_pool)
        status = tarn_pool_create(0, upstream, &options, &resource);
    if (status != TARN_OK)
        fail("%s: %s", name, tarn_error_last()->message);
    if (model.is_pool)
        tarn_resource_release(upstream);
    tarn_plan_release(plan);
    model.resource = model.is_pool ? resource : upstream;
    model.suspends = strcmp(name, "pool") == 0 || strcmp(name, "pool/plan") == 0;
}

static void make_streams(void)
{
    for (int i = 0; i < STREAMS; i++) {
        if (tarn_stream_create(0, i % 2 == 0, &model.raw[i]) != TARN_OK)
            fail("stream: %s", tarn_error_last()->message);
        model.streams[i] = model.raw[i];
    }
    if (tarn_stream_register(0, model.raw[0], &model.streams[0]) != TARN_OK)
        fail("open: %s", tarn_error_last()->message);
    model.streams[STREAMS] = TARN_STREAM_DEFAULT;
    model.streams[STREAMS + 1] = TARN_STREAM_PER_THREAD;
    model.stream_count = STREAMS + 2;
    if (model.is_pool) /* others wait for the device then, every time */
        model.streams[model.stream_count++] = TARN_STREAM_NONE;
}

static void end(void)
{
    if (model.is_suspended)
        suspend_or_resume();
    while (model.count > 0)
        free_one();
    compare_counts();
    compare_all();
    if (tarn_stream_unregister(model.streams[0]) != TARN_OK)
        fail("close: %s", tarn_error_last()->message);
    for (int i = 0; i < STREAMS; i++)
        tarn_stream_destroy(0, model.raw[i]);
    if (tarn_resource_release(model.resource) != TARN_OK)
        fail("release: %s", tarn_error_last()->message);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"resource", required_argument, NULL, 'r'},
                                          {"operations", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    uint64_t operations = 1000000;
    int option;

    run.subject = "pool";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            return 2;
        if (option == 'r')
            run.subject = optarg;
        else if (option == 'n')
            operations = strtoull(optarg, NULL, 10);
        else
            run.seed = strtoull(optarg, NULL, 10);
    }
    run.random = run.seed;
    model.target = BLOCKS_MAX / 2;
    make_resource(run.subject);
    make_streams();
    for (run.operation = 1; run.operation <= operations; run.operation++)
        step();
    end();
    printf("%s: %" PRIu64 " operations, %" PRIu64 " allocations, %" PRIu64
           " refused, %" PRIu64 " wrong ones\n",
           run.subject, operations, model.allocations, model.failed_allocations,
           model.wrong);
    return 0;
}
