/* capture.c -- captures beside the work, which must survive it, and captures of work that
 * uses the pool. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

enum {
    GRAPH_BYTES = 4096,
    WARM = 6,
    LAUNCHES = 2,
    SCRATCH_WORDS = 256,
    NO_TIMING = 2 /* CU_EVENT_DISABLE_TIMING */
};
/* The first block of an unannounced capture: no size that a thread cache keeps, and none
 * that the stream has freed before. So its allocation is no cache hit. */
enum { JOINED_BYTES = 640 << 10, JOINED_BEFORE_BYTES = 3 * JOINED_BYTES };

static void announce_beside(struct actor *actor, bool capturing)
{
    if (actor->beside_registered &&
        tarn_stream_announce_capture(actor->beside_registered, capturing) != TARN_OK)
        order_fail("announce: %s", tarn_error_last()->message);
}

static void make_beside(struct actor *actor)
{
    if (tarn_stream_create(0, actor->index % 2 == 0, &actor->beside) != TARN_OK ||
        (actor->order->scenario->beside_announced &&
         tarn_stream_register(0, actor->beside, &actor->beside_registered) != TARN_OK))
        order_fail("%s", tarn_error_last()->message);
}

void capture_beside_forget(struct actor *actor)
{
    if ((actor->beside_registered &&
         tarn_stream_unregister(actor->beside_registered) != TARN_OK) ||
        (actor->beside && tarn_stream_destroy(0, actor->beside) != TARN_OK))
        order_fail("%s", tarn_error_last()->message);
}

/* Begin a capture in the next of the three modes. The pool does not know the stream, or
 * knows only that it captures. */
static void beside_begin(struct actor *actor)
{
    unsigned number = actor->beside_number++;

    if (!actor->beside)
        make_beside(actor);
    announce_beside(actor, true);
    CU(cuStreamBeginCapture_v2(actor->beside, (int)(number % CAPTURE_MODES)));
    actor->beside_captures = true;
    CU(cuMemsetD32Async(actor->scratch, number, SCRATCH_WORDS, actor->beside));
}

/* On the thread that began it: the driver requires that. */
void capture_beside_end(struct actor *actor)
{
    graph captured = NULL;

    if (!actor->beside_captures)
        return;
    CU(cuMemsetD32Async(actor->scratch, 0, SCRATCH_WORDS, actor->beside));
    CU(cuStreamEndCapture(actor->beside, &captured));
    announce_beside(actor, false);
    if (!captured)
        order_fail("a capture was lost");
    CU(cuGraphDestroy(captured));
    actor->beside_captures = false;
}

void capture_beside(struct actor *actor)
{
    if (actor->beside_captures)
        capture_beside_end(actor);
    else
        beside_begin(actor);
}

/* --- work that uses the pool, captured ------------------------------------------------- */

/* Use memory on the stream and free it. */
static void use_block(struct actor *actor, const struct test_stream *test_stream,
                      size_t bytes)
{
    struct order *order = actor->order;
    struct block block = {.bytes = bytes, .tag = order_tag(order)};

    if (!order_allocate(order, bytes, 0, test_stream->stream, &block.address))
        return;
    order_fill(&block, bytes, test_stream->raw, false);
    checks_queue(&actor->checks, &block, test_stream->raw);
    order_free(order, block.address, bytes, 0, test_stream->stream);
}

/* Fill a thread cache for the stream with memory behind work that is not done. */
static void warm_up(struct actor *actor, const struct test_stream *test_stream)
{
    device_delay(test_stream->raw, 100);
    for (unsigned i = 0; i < WARM; i++)
        use_block(actor, test_stream, 256 + actor_draw(actor, GRAPH_BYTES - 256));
    if (!actor->order->scenario->joins)
        return;
    use_block(actor, test_stream, GRAPH_BYTES);
    use_block(actor, test_stream, JOINED_BEFORE_BYTES);
}

static void set_announced(const struct test_stream *test_stream, bool capturing)
{
    if (test_stream->stream == test_stream->raw)
        return;
    if (tarn_stream_announce_capture(test_stream->stream, capturing) != TARN_OK)
        order_fail("announce: %s", tarn_error_last()->message);
}

/* Capture the nodes: allocate, fill, copy out, free, a few times. */
static void capture_work(struct actor *actor, const struct test_stream *test_stream)
{
    struct order *order = actor->order;
    struct work_graph *work = &actor->graph;

    work->count = 0;
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++) {
        size_t bytes = order->scenario->joins && i == 0 ? JOINED_BYTES : GRAPH_BYTES;
        struct block block = {.bytes = bytes, .tag = order_tag(order)};
        if (!order_allocate(order, bytes, 0, test_stream->stream, &block.address))
            break;
        order_fill(&block, GRAPH_BYTES, test_stream->raw, true);
        CU(cuMemcpyDtoHAsync_v2((char *)work->copies + i * (size_t)GRAPH_BYTES,
                                block.address, GRAPH_BYTES, test_stream->raw));
        order_free(order, block.address, bytes, 0, test_stream->stream);
        work->tags[work->count++] = block.tag;
    }
    if (work->count > 0 && tarn_pool_get_capture(order->resource, test_stream->stream,
                                                 &work->memory) != TARN_OK)
        order_fail("get_capture: %s", tarn_error_last()->message);
}

static void wait_for(tarn_stream stream, event end, tarn_stream other)
{
    CU(cuEventRecord(end, other));
    CU(cuStreamWaitEvent(stream, end, 0));
}

/* Capture the work on a stream that joins the capture of another one. */
static graph capture_joined(struct actor *actor, const struct test_stream *test_stream)
{
    tarn_stream origin = NULL;
    graph captured = NULL;
    event forked, joined;

    if (tarn_stream_create(0, true, &origin) != TARN_OK)
        order_fail("%s", tarn_error_last()->message);
    CU(cuEventCreate(&forked, NO_TIMING));
    CU(cuEventCreate(&joined, NO_TIMING));
    CU(cuStreamBeginCapture_v2(origin, (int)actor_draw(actor, CAPTURE_MODES)));
    wait_for(test_stream->raw, forked, origin);
    capture_work(actor, test_stream);
    wait_for(origin, joined, test_stream->raw);
    CU(cuStreamEndCapture(origin, &captured));
    CU(cuEventDestroy_v2(forked));
    CU(cuEventDestroy_v2(joined));
    if (tarn_stream_destroy(0, origin) != TARN_OK)
        order_fail("%s", tarn_error_last()->message);
    use_block(actor, test_stream, JOINED_BYTES);
    use_block(actor, test_stream, GRAPH_BYTES);
    return captured;
}

static graph capture_alone(struct actor *actor, const struct test_stream *test_stream)
{
    graph captured = NULL;

    set_announced(test_stream, true);
    CU(cuStreamBeginCapture_v2(test_stream->raw, (int)actor_draw(actor, CAPTURE_MODES)));
    capture_work(actor, test_stream);
    CU(cuStreamEndCapture(test_stream->raw, &captured));
    set_announced(test_stream, false);
    return captured;
}

static void begin_graph(struct actor *actor)
{
    struct work_graph *work = &actor->graph;
    struct test_stream *test_stream = &actor->captured;

    if (!work->copies)
        work->copies = device_pinned(GRAPH_BLOCKS * (size_t)GRAPH_BYTES);
    if (!test_stream->raw)
        test_stream_create(actor, test_stream, actor->order->scenario->registered);
    warm_up(actor, test_stream);
    graph captured = actor->order->scenario->joins ? capture_joined(actor, test_stream)
                                                   : capture_alone(actor, test_stream);
    if (!captured)
        order_fail("a capture that used the pool was lost");
    work->exec = device_instantiate(captured);
}

/* Launch the graph on a stream that is unrelated to the captured one, and release its
 * memory in the order of that stream. */
static void launch_graph(struct actor *actor)
{
    struct work_graph *work = &actor->graph;
    struct test_stream *test_stream = &actor->streams[0];

    for (unsigned i = 0; i < LAUNCHES; i++)
        CU(cuGraphLaunch(work->exec, test_stream->raw));
    if (tarn_pool_capture_release(work->memory, test_stream->stream) != TARN_OK)
        order_fail("capture_release: %s", tarn_error_last()->message);
    work->memory = NULL;
    device_stream_wait(test_stream->raw);
    for (unsigned i = 0; i < work->count; i++)
        for (unsigned k = 0; k < GRAPH_BYTES / sizeof(unsigned); k++)
            if (work->copies[i * (GRAPH_BYTES / sizeof(unsigned)) + k] != work->tags[i])
                order_fail("block %u of a graph: word %u is %#x, the graph wrote %#x", i,
                           k, work->copies[i * (GRAPH_BYTES / sizeof(unsigned)) + k],
                           work->tags[i]);
    device_exec_destroy(work->exec);
    work->exec = NULL;
}

void capture_pool_work(struct actor *actor)
{
    if (actor->graph.exec)
        launch_graph(actor);
    else
        begin_graph(actor);
}

void capture_pool_work_end(struct actor *actor)
{
    if (actor->graph.exec)
        launch_graph(actor);
    if (actor->captured.raw)
        test_stream_destroy(&actor->captured);
    if (actor->graph.copies)
        device_pinned_free(actor->graph.copies);
    actor->graph.copies = NULL;
}
