/* actor.c -- the actions of an actor in a step. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

enum {
    NO_TIMING = 2,
    SMALLEST = 4,
    SMALL_MOST = 16 << 10, /* nearly all blocks are below this */
    SCRATCH_BYTES = 4096,
    CHECKS_BYTES = 8 << 20, /* many queued checks: waiting for them orders much */
    DELAY_MOST = 200,       /* microseconds */
    SEEN_SHIFT = 8
};
enum { SEEN_BITS = 1 << 24 };

uint64_t actor_draw(struct actor *actor, uint64_t limit)
{
    uint64_t z = (actor->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % limit;
}

unsigned order_tag(struct order *order)
{
    return atomic_fetch_add(&order->tags, 1) + 1;
}

/* --- the resource ---------------------------------------------------------------------- */

/* Record that memory at this address is live; return whether it was live before. */
static bool seen_before(struct order *order, tarn_device_ptr address)
{
    uint64_t bit = ((address >> SEEN_SHIFT) * 0x9e3779b97f4a7c15u >> 32) % SEEN_BITS;
    uint64_t mask = (uint64_t)1 << (bit % 64);

    return (atomic_fetch_or(&order->seen[bit / 64], mask) & mask) != 0;
}

bool order_allocate(struct order *order, size_t bytes, size_t alignment,
                    tarn_stream stream, tarn_device_ptr *out)
{
    tarn_status status =
        tarn_resource_allocate(order->resource, bytes, alignment, stream, out);

    if (status == TARN_OK) {
        live_blocks_add(*out, bytes, stream);
        atomic_fetch_add(&order->allocations, 1);
        atomic_fetch_add(&order->reuses, seen_before(order, *out));
        return true;
    }
    bool may_be = status == TARN_OUT_OF_MEMORY ||
                  (order->scenario->faults && status == TARN_DRIVER_FAILURE);
    if (!may_be)
        order_fail("%zu bytes: %s", bytes, tarn_error_last()->message);
    atomic_fetch_add(&order->failed_allocations, 1);
    return false;
}

void order_free(struct order *order, tarn_device_ptr block, size_t bytes,
                size_t alignment, tarn_stream stream)
{
    live_blocks_remove(block, stream);
    if (tarn_resource_deallocate(order->resource, block, bytes, alignment, stream) !=
        TARN_OK)
        order_fail("free of 0x%llx: %s", block, tarn_error_last()->message);
}

void order_fill(const struct block *block, size_t bytes, tarn_stream raw, bool by_graph)
{
    live_blocks_note_fill(block, raw, by_graph);
    device_fill(block->address, bytes, block->tag, raw);
}

/* --- stream states ------------------------------------------------------------------ */

static void must(tarn_status status, const char *what)
{
    if (status != TARN_OK)
        order_fail("%s: %s", what, tarn_error_last()->message);
}

static void test_stream_register(struct test_stream *test_stream, bool registered)
{
    test_stream->stream = test_stream->raw;
    if (registered)
        must(tarn_stream_register(0, test_stream->raw, &test_stream->stream), "open");
}

static void test_stream_unregister(struct test_stream *test_stream)
{
    if (test_stream->stream != test_stream->raw)
        must(tarn_stream_unregister(test_stream->stream), "close");
}

static bool is_blocking(const struct actor *actor, const struct test_stream *test_stream)
{
    return actor->order->scenario->blocking && (test_stream - actor->streams) % 2 == 0;
}

void test_stream_create(struct actor *actor, struct test_stream *test_stream,
                        bool registered)
{
    if (actor->order->scenario->per_thread)
        test_stream->raw = TARN_STREAM_PER_THREAD;
    else if (actor->order->scenario->legacy && test_stream == actor->streams)
        test_stream->raw = TARN_STREAM_LEGACY;
    else
        must(tarn_stream_create(0, !is_blocking(actor, test_stream), &test_stream->raw),
             "stream");
    test_stream_register(test_stream,
                         registered && test_stream->raw != TARN_STREAM_PER_THREAD);
}

void test_stream_destroy(struct test_stream *test_stream)
{
    test_stream_unregister(test_stream);
    if (test_stream->raw != TARN_STREAM_PER_THREAD &&
        test_stream->raw != TARN_STREAM_LEGACY)
        must(tarn_stream_destroy(0, test_stream->raw), "stream");
    test_stream->raw = NULL;
}

static struct test_stream *random_stream(struct actor *actor)
{
    return &actor->streams[actor_draw(actor, actor->order->scenario->streams)];
}

tarn_stream actor_stream(struct actor *actor, const struct test_stream *test_stream)
{
    unsigned no_stream = actor->order->scenario->no_stream;

    if (no_stream == 0 || actor_draw(actor, 1000) >= no_stream ||
        !tarn_resource_supports_no_stream(actor->order->resource))
        return test_stream->stream;
    return TARN_STREAM_NONE;
}

/* --- blocks ---------------------------------------------------------------------------- */

/* Sizes of three programs: the block size at each twentieth of their allocations in order
 * of size. A query on four streams, a server of a language model, loops over small
 * arrays. Sizes above the scenario's maximum are divided until they fit. */
static size_t bytes_of_a_trace(struct actor *actor)
{
    static const unsigned sizes[][20] = {
        {256,      256,      512,      1024,     8192,     32396,    161256,
         396672,   719288,   1421620,  2582536,  4480488,  7206928,  11068576,
         16526460, 23039360, 34392896, 51621092, 81238408, 152987800},
        {8192,    122880,   262144,   294912,   327680,   352256,  376832,
         417792,  466944,   540672,   737280,   2007040,  2408448, 2981888,
         8781824, 15903744, 19494912, 22573056, 27190272, 33554432},
        {512,   512,   2048,  2048,  2048,   8192,   8192,   16384,  16384,  16384,
         16384, 65536, 65536, 65536, 131072, 131072, 262144, 524288, 524288, 4194304}};
    size_t bytes = sizes[actor->order->seed % 3][actor_draw(actor, 20)];

    while (bytes > actor->order->scenario->largest)
        bytes /= 16;
    return bytes / 4 * 4;
}

/* Between 2^n and 2^(n+1), n drawn: as many small sizes as large ones at each scale. */
static size_t some_bytes(struct actor *actor)
{
    const struct scenario *scenario = actor->order->scenario;
    size_t smallest = scenario->smallest ? scenario->smallest : SMALLEST;
    size_t most = SMALL_MOST > smallest ? SMALL_MOST : scenario->largest;
    unsigned scales = 0;

    if (scenario->from_traces)
        return bytes_of_a_trace(actor);
    if (actor->large)
        return scenario->largest / 2 + actor_draw(actor, scenario->largest / 2) / 4 * 4;
    if (most > scenario->largest || actor_draw(actor, 12) == 0)
        most = scenario->largest;
    while ((smallest << (scales + 1)) <= most)
        scales++;
    size_t floor = smallest << (scales ? actor_draw(actor, scales) : 0);
    return floor + actor_draw(actor, floor) / 4 * 4;
}

/* The alignment of a block is drawn from its size alone, so that no table has to keep it.
 */
static size_t alignment_of(size_t bytes)
{
    return bytes % 52 == 0 ? (size_t)512 << (bytes / 52 % 12) : 0;
}

static void forget(struct actor *actor, unsigned index)
{
    actor->live_bytes -= actor->live[index].bytes;
    actor->live[index] = actor->live[--actor->live_count];
}

/* Queue a check of a block and free it behind that, in the order of its stream. */
static void finish(struct actor *actor, const struct block *block)
{
    const struct test_stream *test_stream = &actor->streams[block->test_stream];

    checks_queue(&actor->checks, block, test_stream->raw);
    order_free(actor->order, block->address, block->bytes, alignment_of(block->bytes),
               actor_stream(actor, test_stream));
}

static void free_one(struct actor *actor)
{
    if (actor->live_count == 0)
        return;
    unsigned index = (unsigned)actor_draw(actor, actor->live_count);
    struct block block = actor->live[index];
    forget(actor, index);
    finish(actor, &block);
}

static size_t divided(const struct actor *actor, size_t bytes)
{
    size_t smaller = bytes / actor->divisor / 4 * 4;

    return smaller >= SMALLEST ? smaller : bytes;
}

/* Allocate a block on its stream, and fill it. Returns false if there is no memory. */
static bool fill_new(struct actor *actor, struct block *block)
{
    const struct test_stream *test_stream = &actor->streams[block->test_stream];

    if (!order_allocate(actor->order, block->bytes, alignment_of(block->bytes),
                        actor_stream(actor, test_stream), &block->address))
        return false;
    block->tag = order_tag(actor->order);
    order_fill(block, block->bytes, test_stream->raw, false);
    return true;
}

static void allocate_one(struct actor *actor)
{
    unsigned test_stream = (unsigned)actor_draw(actor, actor->order->scenario->streams);
    struct block block = {.bytes = divided(actor, some_bytes(actor)),
                          .test_stream = test_stream};

    if (actor->live_count == BLOCKS_MAX)
        return;
    if (!fill_new(actor, &block)) {
        for (int i = 0; i < 4; i++)
            free_one(actor);
        return;
    }
    actor->live[actor->live_count++] = block;
    actor->live_bytes += block.bytes;
}

/* --- actions of a scenario ---------------------------------------------------------- */

static void drop(struct actor *actor)
{
    while (actor->live_count > 0)
        free_one(actor);
    actor->large = !actor->large;
}

/* A plan has the same address for each of them. */
static void use_temporaries(struct actor *actor)
{
    struct block block = {
        .bytes = divided(actor, some_bytes(actor)),
        .test_stream = (unsigned)actor_draw(actor, actor->order->scenario->streams)};

    for (uint64_t count = 2 + actor_draw(actor, 8); count > 0; count--)
        if (fill_new(actor, &block))
            finish(actor, &block);
}

/* Put the block into the order of another stream. */
static void move_block(struct actor *actor, struct block *block, unsigned test_stream)
{
    event moved;

    if (block->test_stream == test_stream)
        return;
    CU(cuEventCreate(&moved, NO_TIMING));
    CU(cuEventRecord(moved, actor->streams[block->test_stream].raw));
    CU(cuStreamWaitEvent(actor->streams[test_stream].raw, moved, 0));
    CU(cuEventDestroy_v2(moved));
    block->test_stream = test_stream;
}

static void move_one(struct actor *actor)
{
    if (actor->live_count == 0)
        return;
    struct block *block = &actor->live[actor_draw(actor, actor->live_count)];
    move_block(actor, block,
               (unsigned)actor_draw(actor, actor->order->scenario->streams));
}

static void transfer(struct actor *actor)
{
    struct order *order = actor->order;
    struct actor *to = &order->actors[actor_draw(actor, order->scenario->actors)];

    if (actor->live_count == 0 || to == actor)
        return;
    unsigned index = (unsigned)actor_draw(actor, actor->live_count);
    pthread_mutex_lock(&to->lock);
    bool has_capacity = to->inbox_count < INBOX_MAX;
    if (has_capacity) {
        struct block block = actor->live[index];
        CU(cuEventCreate(&block.filled, NO_TIMING));
        CU(cuEventRecord(block.filled, actor->streams[block.test_stream].raw));
        to->inbox[to->inbox_count++] = block;
    }
    pthread_mutex_unlock(&to->lock);
    if (has_capacity)
        forget(actor, index);
}

/* Free the blocks that others passed to this actor, on a stream of its own. */
static void receive_blocks(struct actor *actor)
{
    struct block inbox[INBOX_MAX];

    pthread_mutex_lock(&actor->lock);
    unsigned count = actor->inbox_count;
    memcpy(inbox, actor->inbox, count * sizeof *inbox);
    actor->inbox_count = 0;
    pthread_mutex_unlock(&actor->lock);
    for (unsigned i = 0; i < count; i++) {
        inbox[i].test_stream =
            (unsigned)actor_draw(actor, actor->order->scenario->streams);
        CU(cuStreamWaitEvent(actor->streams[inbox[i].test_stream].raw, inbox[i].filled,
                             0));
        CU(cuEventDestroy_v2(inbox[i].filled));
        finish(actor, &inbox[i]);
    }
}

/* Take all blocks out of the order of this stream. */
static void empty_stream(struct actor *actor, unsigned test_stream)
{
    for (unsigned i = actor->live_count; i-- > 0;) {
        struct block block = actor->live[i];
        if (block.test_stream != test_stream)
            continue;
        if (actor->order->scenario->streams > 1 && actor_draw(actor, 2) == 0) {
            move_block(actor, &actor->live[i],
                       (test_stream + 1) % actor->order->scenario->streams);
            continue;
        }
        forget(actor, i);
        finish(actor, &block);
    }
}

/* Destroy a stream with queued work; the next one has its handle. */
static void renew(struct actor *actor)
{
    unsigned number = (unsigned)actor_draw(actor, actor->order->scenario->streams);
    struct test_stream *test_stream = &actor->streams[number];

    empty_stream(actor, number);
    device_delay(test_stream->raw, DELAY_MOST);
    test_stream_destroy(test_stream);
    test_stream_create(actor, test_stream, actor->order->scenario->registered);
}

static void reregister(struct actor *actor)
{
    struct test_stream *test_stream = random_stream(actor);

    device_delay(test_stream->raw, DELAY_MOST);
    test_stream_unregister(test_stream);
    test_stream_register(test_stream, actor_draw(actor, 4) != 0);
}

static void trim(struct actor *actor)
{
    struct order *order = actor->order;
    size_t keep = (size_t)actor_draw(actor, order->scenario->live_bytes + 1);

    must(tarn_resource_trim(order->resource, keep, NULL), "trim");
}

static void delay(struct actor *actor)
{
    unsigned most = actor->order->scenario->delay_most;

    device_delay(random_stream(actor)->raw,
                 (unsigned)actor_draw(actor, most ? most : DELAY_MOST));
}

/* --- steps ----------------------------------------------------------------------------- */

static void allocate_or_free(struct actor *actor)
{
    size_t most = actor->order->scenario->live_bytes;

    if (actor_draw(actor, most) < actor->live_bytes)
        free_one(actor);
    else
        allocate_one(actor);
}

/* The action of the draw; false: nothing special. */
static bool special(struct actor *actor)
{
    const struct scenario *scenario = actor->order->scenario;
    unsigned draw = (unsigned)actor_draw(actor, 1000), below = 0;

#define SHARE(share) (draw < (below += scenario->share))
    if (SHARE(drop))
        drop(actor);
    else if (SHARE(move))
        move_one(actor);
    else if (SHARE(transfer))
        transfer(actor);
    else if (SHARE(temporaries))
        use_temporaries(actor);
    else if (SHARE(renew))
        renew(actor);
    else if (SHARE(reregister))
        reregister(actor);
    else if (SHARE(wait))
        device_stream_wait(random_stream(actor)->raw);
    else if (SHARE(delay))
        delay(actor);
    else if (SHARE(beside))
        capture_beside(actor);
    else if (SHARE(capture) && actor->order->is_pool)
        capture_pool_work(actor);
    else if (SHARE(trim))
        trim(actor);
    else
        return false;
#undef SHARE
    return true;
}

void actor_step(struct actor *actor)
{
    atomic_fetch_add_explicit(&actor->order->steps, 1, memory_order_relaxed);
    receive_blocks(actor);
    if (!special(actor))
        allocate_or_free(actor);
}

static void seed(struct actor *actor)
{
    actor->random = actor->order->seed * 1000003u + actor->index;
}

void actor_restart(struct actor *actor)
{
    while (actor->live_count > 0)
        free_one(actor);
    actor->large = false;
    /* smaller sizes now and then: other ones each time, which have no plan of their own */
    actor->restarts++;
    actor->divisor = actor->restarts % 4 == 3 ? 2 + actor->restarts / 4 % 7 : 1;
    seed(actor);
}

void actor_begin(struct actor *actor)
{
    const struct scenario *scenario = actor->order->scenario;

    actor->divisor = 1;
    seed(actor);
    pthread_mutex_init(&actor->lock, NULL);
    checks_begin(&actor->checks, scenario->largest * 2 + CHECKS_BYTES);
    CU(cuMemAlloc_v2(&actor->scratch, SCRATCH_BYTES));
    for (unsigned i = 0; i < scenario->streams; i++)
        if (scenario->shared && actor->index > 0)
            actor->streams[i] = actor->order->actors[0].streams[i];
        else
            test_stream_create(actor, &actor->streams[i], scenario->registered);
}

void actor_end(struct actor *actor)
{
    receive_blocks(actor);
    while (actor->live_count > 0)
        free_one(actor);
    checks_finish(&actor->checks);
    capture_pool_work_end(actor);
    capture_beside_forget(actor);
    for (unsigned i = 0; i < actor->order->scenario->streams; i++) {
        device_stream_wait(actor->streams[i].raw);
        if (!actor->order->scenario->shared ||
            actor->index + 1 == actor->order->scenario->actors)
            test_stream_destroy(&actor->streams[i]);
    }
    checks_finish(&actor->checks);
    checks_end(&actor->checks);
    CU(cuMemFree_v2(actor->scratch));
    pthread_mutex_destroy(&actor->lock);
}
