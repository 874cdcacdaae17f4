/* The heap of a pool: cutting, joining, epochs and fences, without a driver. */
#include "pool/blocks/check.h"
#include "pool/blocks/heap.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/order/epoch.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"
#include "pool/order/steal.h"
#include "base/random.h"
#include "test.h"
#include <stdlib.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define BASE ((uint64_t)0x7000000000)

static struct tarn__heap *new_heap(void)
{
    struct tarn__heap *heap = malloc(sizeof *heap);

    CHECK(heap != NULL);
    tarn__heap_init(heap);
    return heap;
}

static void end_heap(struct tarn__heap *heap)
{
    tarn__heap_free(heap);
    free(heap);
}

static void is_whole(const struct tarn__heap *heap)
{
    const char *words = tarn__check_heap(heap);

    if (words)
        fail_msg("%s", words);
}

static struct tarn__request request_of(uint64_t bytes, uint64_t alignment)
{
    return (struct tarn__request){(uint32_t)(bytes / TARN__QUANTUM), alignment};
}

static tarn__index take(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                        uint64_t bytes)
{
    struct tarn__request request = request_of(bytes, TARN__QUANTUM);
    bool was_completed, no_memory;

    return tarn__take_block(heap, stream_state, &request, &was_completed, &no_memory);
}

/* As a stream state records a fence. */
static CUevent_ fence(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                      uintptr_t event)
{
    uint64_t epoch = tarn__epoch_close(heap, stream_state);

    stream_state->recording = false;
    CHECK(tarn__epoch_publish_fence(heap, stream_state, epoch, (CUevent_)event));
    return (CUevent_)event;
}

static struct tarn__stream_state *new_lane(struct tarn__heap *heap, uint64_t key)
{
    struct tarn__stream_state *stream_state = tarn__identity_get(heap, key);

    CHECK(stream_state != NULL);
    stream_state->users++;
    return stream_state;
}

TEST(heap_gives_back_what_was_cut_as_one_block)
{
    struct tarn__heap *heap = new_heap();
    tarn__index blocks[8];

    CHECK(tarn__ranges_add_segment(heap, BASE, 8 * MIB, NULL));
    for (int i = 0; i < 8; i++) {
        blocks[i] = take(heap, NULL, MIB);
        CHECK(blocks[i] != 0);
        is_whole(heap);
    }
    CHECK_EQUAL(0, take(heap, NULL, 512));
    for (int i = 0; i < 8; i++) {
        tarn__heap_put(heap, blocks[i * 3 % 8], NULL);
        is_whole(heap);
    }
    CHECK_EQUAL(8 * MIB, heap->completed_bytes);
    CHECK_EQUAL(1, heap->blocks);
    end_heap(heap);
}

TEST(heap_keeps_what_one_stream_freed_from_others)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11), *other = new_lane(heap, 12),
                              *source;
    struct tarn__request request = request_of(MIB, TARN__QUANTUM);
    uint64_t epoch;

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    tarn__heap_put(heap, take(heap, one, MIB), one);
    CHECK_EQUAL(0, take(heap, other, MIB));
    CHECK_EQUAL(0, take(heap, NULL, MIB));
    CHECK_EQUAL(0, tarn__steal_from_source(heap, other, &request, &source, &epoch));
    tarn__index block = take(heap, one, MIB);
    CHECK(block != 0);
    tarn__heap_put(heap, block, one);
    fence(heap, one, 0x100);
    block = tarn__steal_from_source(heap, other, &request, &source, &epoch);
    CHECK(block != 0 && source == one);
    CHECK_EQUAL(0x100, (uintptr_t)one->fences[tarn__events_fence_for(one, epoch)].event);
    is_whole(heap);
    end_heap(heap);
}

TEST(heap_has_no_more_stream_states_than_its_table)
{
    struct tarn__heap *heap = new_heap();

    heap->states_made = (tarn__index)TARN__STATE_CHUNK * TARN__STATE_CHUNKS;
    CHECK(tarn__identity_get(heap, 11) == NULL);
    CHECK_EQUAL(0, heap->state_count);
    heap->states_made = 0;
    CHECK(tarn__identity_get(heap, 11) != NULL);
    end_heap(heap);
}

TEST(heap_is_not_whole_with_an_epoch_that_has_not_begun)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11);

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    tarn__index block = take(heap, one, MIB);
    tarn__heap_put(heap, block, one);
    is_whole(heap);
    struct tarn__node *node = tarn__node(&heap->nodes, block);
    node->epoch += 1;
    CHECK(strstr(tarn__check_heap(heap), "an epoch that has not begun"));
    node->epoch -= 1;
    is_whole(heap);
    end_heap(heap);
}

TEST(heap_takes_no_source_for_what_was_freed_after_the_fence)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11), *other = new_lane(heap, 12),
                              *source;
    struct tarn__request request = request_of(MIB, TARN__QUANTUM);
    uint64_t ignored;

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    CHECK(tarn__ranges_add_segment(heap, BASE + 4 * MIB, MIB, NULL));
    tarn__index first = take(heap, one, MIB), second = take(heap, one, MIB);
    uint64_t address = tarn__node(&heap->nodes, first)->address;
    tarn__heap_put(heap, first, one);
    uint64_t epoch = tarn__epoch_close(heap, one);
    tarn__heap_put(heap, second, one); /* between the closing and the record */
    one->recording = false;
    CHECK(tarn__epoch_publish_fence(heap, one, epoch, (CUevent_)0x100));
    is_whole(heap);
    tarn__index block = tarn__steal_from_source(heap, other, &request, &source, &ignored);
    CHECK(block != 0);
    CHECK_EQUAL(address, tarn__node(&heap->nodes, block)->address);
    CHECK_EQUAL(0, tarn__steal_from_source(heap, other, &request, &source, &ignored));
    end_heap(heap);
}

static void free_beside_a_fenced_block(bool is_fenced_below)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11), *other = new_lane(heap, 12),
                              *source;
    struct tarn__request request = request_of(MIB, TARN__QUANTUM);
    uint64_t epoch;

    CHECK(tarn__ranges_add_segment(heap, BASE, 2 * MIB, NULL));
    tarn__index low = take(heap, one, MIB), high = take(heap, one, MIB);
    tarn__heap_put(heap, is_fenced_below ? low : high, one);
    fence(heap, one, 0x100);
    tarn__heap_put(heap, is_fenced_below ? high : low, one); /* absorbs the fenced one */
    CHECK_EQUAL(1, heap->blocks);
    CHECK_EQUAL(0, tarn__steal_from_source(heap, other, &request, &source, &epoch));
    fence(heap, one, 0x200);
    CHECK(tarn__steal_from_source(heap, other, &request, &source, &epoch) != 0);
    CHECK_EQUAL(0x200, (uintptr_t)one->fences[tarn__events_fence_for(one, epoch)].event);
    end_heap(heap);
}

TEST(heap_gives_a_younger_epoch_to_what_is_joined)
{
    free_beside_a_fenced_block(true);
    free_beside_a_fenced_block(false);
}

TEST(heap_makes_ready_what_a_done_fence_covers_and_no_more)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11);

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    CHECK(tarn__ranges_add_segment(heap, BASE + 4 * MIB, MIB, NULL));
    tarn__index first = take(heap, one, MIB), second = take(heap, one, MIB);
    tarn__heap_put(heap, first, one);
    fence(heap, one, 0x100);
    tarn__heap_put(heap, second, one);
    tarn__epoch_fence_completed(heap, one, one->fences[0].epoch);
    CHECK(!tarn__epoch_sweep(heap, 100));
    CHECK_EQUAL(MIB, heap->completed_bytes);
    CHECK_EQUAL(MIB, one->free.bytes);
    CHECK_EQUAL(0, one->fence_count);
    CHECK_EQUAL(1, heap->event_count);
    is_whole(heap);
    end_heap(heap);
}

TEST(heap_lists_the_stream_states_that_a_poll_can_query)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11), *other = new_lane(heap, 12);

    CHECK(tarn__ranges_add_segment(heap, BASE, 2 * MIB, NULL));
    tarn__index block = take(heap, one, MIB);
    tarn__heap_put(heap, take(heap, other, MIB), other); /* never fenced */
    tarn__heap_put(heap, block, one);
    CHECK_EQUAL(2, heap->with_memory.count);
    CHECK_EQUAL(0, heap->with_fences.count);
    fence(heap, one, 0x100);
    fence(heap, one, 0x200);
    CHECK_EQUAL(1, heap->with_fences.count);
    CHECK_EQUAL(one->index, heap->with_fences.first);
    heap->poll_next = heap->plan_next = one->index;
    CHECK_EQUAL(block, take(heap, one, MIB)); /* no memory: nothing to query for */
    CHECK_EQUAL(0, heap->with_fences.count);
    CHECK_EQUAL(0, heap->poll_next);
    CHECK_EQUAL(0, heap->plan_next);
    is_whole(heap);
    tarn__heap_put(heap, block, one);
    CHECK_EQUAL(1, heap->with_fences.count);
    is_whole(heap);
    tarn__epoch_fence_completed(heap, one, one->fences[1].epoch);
    CHECK_EQUAL(0, heap->with_fences.count);
    CHECK_EQUAL(2, heap->with_memory.count);
    is_whole(heap);
    end_heap(heap);
}

TEST(heap_keeps_a_pinned_event)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *one = new_lane(heap, 11);

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    tarn__heap_put(heap, take(heap, one, MIB), one);
    fence(heap, one, 0x100);
    one->fences[0].pins++;
    tarn__epoch_fence_completed(heap, one, one->fences[0].epoch);
    CHECK_EQUAL(0, heap->event_count);
    one->fences[0].pins--;
    tarn__epoch_fence_completed(heap, one, one->fences[0].epoch);
    CHECK_EQUAL(1, heap->event_count);
    end_heap(heap);
}

TEST(heap_does_not_join_segments_that_touch)
{
    struct tarn__heap *heap = new_heap();

    CHECK(tarn__ranges_add_segment(heap, BASE, MIB, NULL));
    CHECK(tarn__ranges_add_segment(heap, BASE + MIB, MIB, NULL));
    CHECK_EQUAL(0, take(heap, NULL, 2 * MIB));
    CHECK_EQUAL(2, heap->blocks);
    is_whole(heap);
    end_heap(heap);
}

TEST(heap_aligns_up_to_two_mib)
{
    struct tarn__heap *heap = new_heap();

    CHECK(tarn__ranges_add_segment(heap, BASE + 512, 8 * MIB, NULL));
    for (uint64_t alignment = 256; alignment <= 2 * MIB; alignment *= 2) {
        struct tarn__request request = request_of(512, alignment);
        bool was_completed, no_memory;
        tarn__index block =
            tarn__take_block(heap, NULL, &request, &was_completed, &no_memory);
        CHECK(block != 0);
        CHECK_EQUAL(0, tarn__node(&heap->nodes, block)->address % alignment);
        is_whole(heap);
    }
    end_heap(heap);
}

TEST(heap_cuts_off_what_is_no_multiple_of_the_granule)
{
    struct tarn__heap *heap = new_heap();

    CHECK(tarn__ranges_add_segment(heap, BASE + 256, 4096, NULL));
    CHECK_EQUAL(3584, heap->completed_bytes);
    CHECK(!tarn__ranges_add_segment(heap, BASE + MIB + 256, 256, NULL));
    CHECK(!tarn__ranges_add_segment(heap, (uint64_t)1 << 48, MIB, NULL));
    is_whole(heap);
    end_heap(heap);
}

/* Search in all parts of the heap. */
static void take_run(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                     const struct tarn__request *request, struct tarn__run *out)
{
    struct tarn__runs_cursor cursor = {0};

    while (tarn__runs_take_part(heap, stream_state, request, &cursor, out))
        CHECK_EQUAL(0, out->count);
}

TEST(heap_welds_what_several_streams_freed_side_by_side)
{
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *stream_states[3], *consumer = new_lane(heap, 99);
    struct tarn__request request = request_of(3 * MIB - 512, TARN__QUANTUM);
    tarn__index blocks[3];
    struct tarn__run run;

    CHECK(tarn__ranges_add_segment(heap, BASE, 3 * MIB, NULL));
    for (int i = 0; i < 3; i++)
        blocks[i] = take(heap, NULL, MIB);
    for (int i = 0; i < 3; i++) {
        stream_states[i] = new_lane(heap, 10 + (uint64_t)i);
        tarn__heap_put(heap, blocks[i], stream_states[i]);
    }
    take_run(heap, consumer, &request, &run);
    CHECK_EQUAL(0, run.count); /* nothing has a fence */
    for (uintptr_t i = 0; i < 3; i++)
        fence(heap, stream_states[i], 0x100 + i);
    take_run(heap, consumer, &request, &run);
    CHECK_EQUAL(3, run.count);
    is_whole(heap);
    tarn__runs_put(heap, &run);
    is_whole(heap);
    for (uintptr_t i = 0; i < 3; i++)
        fence(heap, stream_states[i], 0x200 + i);
    take_run(heap, consumer, &request, &run);
    tarn__index block = tarn__runs_coalesce(heap, &run);
    CHECK_EQUAL(3 * MIB - 512, tarn__node_bytes(tarn__node(&heap->nodes, block)));
    is_whole(heap);
    end_heap(heap);
}

/* The stream that the search for adjacent blocks is at loses its memory between two
 * parts. */
TEST(heap_finds_adjacent_blocks_while_other_streams_lose_theirs)
{
    enum { STREAMS = 60 };
    struct tarn__heap *heap = new_heap();
    struct tarn__stream_state *consumer = new_lane(heap, 99), *lost;
    struct tarn__request request = request_of(2 * MIB, TARN__QUANTUM);
    struct tarn__runs_cursor cursor = {0};
    tarn__index blocks[STREAMS];
    struct tarn__run run;
    unsigned parts = 1;

    CHECK(tarn__ranges_add_segment(heap, BASE, 2 * STREAMS * MIB, NULL));
    for (uintptr_t i = 0; i < STREAMS; i++) { /* only the first two are adjacent */
        blocks[i] = take(heap, NULL, MIB);
        CHECK(blocks[i] && (i == 0 || take(heap, NULL, MIB)));
    }
    take(heap, NULL, MIB);
    for (uintptr_t i = 0; i < STREAMS; i++) {
        struct tarn__stream_state *stream_state = new_lane(heap, 100 + i);
        tarn__heap_put(heap, blocks[i], stream_state);
        fence(heap, stream_state, 0x100 + i);
    }
    for (; tarn__runs_take_part(heap, consumer, &request, &cursor, &run); parts++)
        if (parts == 3) {
            lost = tarn__heap_state(heap, cursor.next);
            tarn__take_whole(heap, lost->free.oldest);
        }
    CHECK(parts > 3);
    CHECK_EQUAL(2, run.count);
    end_heap(heap);
}

/* Run with every stream and no stream, blocks of all sizes, and fences that are recorded,
 * completed and late. The checker runs after each step, and each byte is in exactly one
 * block. */
enum { LANES = 5, BLOCKS = 400 };

struct world {
    struct tarn__heap *heap;
    struct tarn__stream_state *stream_states[LANES];
    tarn__index blocks[BLOCKS];
    uint64_t random;
    uintptr_t events;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    return tarn__random_below(&world->random, below);
}

static void allocate_some(struct world *world, size_t slot)
{
    uint64_t bytes = (1 + draw(world, 64)) * TARN__QUANTUM << draw(world, 10);
    struct tarn__stream_state *stream_state = world->stream_states[draw(world, LANES)],
                              *source;
    struct tarn__request request =
        request_of(bytes, (uint64_t)256 << draw(world, draw(world, 4) ? 2 : 14));
    bool was_completed, no_memory;
    uint64_t epoch;
    struct tarn__run run;

    tarn__index block =
        tarn__take_block(world->heap, stream_state, &request, &was_completed, &no_memory);
    if (!block && tarn__runs_coalesce_for(world->heap, stream_state, &request))
        block = tarn__take_block(world->heap, stream_state, &request, &was_completed,
                                 &no_memory);
    if (!block)
        block =
            tarn__steal_from_source(world->heap, stream_state, &request, &source, &epoch);
    if (!block) {
        take_run(world->heap, stream_state, &request, &run);
        if (run.count > 0 && draw(world, 2) == 0)
            tarn__runs_put(world->heap, &run);
        else if (run.count > 0)
            block = tarn__runs_coalesce(world->heap, &run);
    }
    if (block)
        CHECK_EQUAL(0,
                    tarn__node(&world->heap->nodes, block)->address % request.alignment);
    world->blocks[slot] = block;
}

static void fence_some(struct world *world)
{
    struct tarn__stream_state *stream_state = world->stream_states[draw(world, LANES)];

    switch (draw(world, 3)) {
    case 0:
        fence(world->heap, stream_state, ++world->events);
        break;
    case 1:
        if (stream_state->fence_count > 0)
            tarn__epoch_fence_completed(
                world->heap, stream_state,
                stream_state->fences[draw(world, stream_state->fence_count)].epoch);
        break;
    default:
        tarn__epoch_sweep(world->heap, draw(world, 20));
    }
}

TEST(heap_stays_whole_under_random_operations)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world = {.heap = new_heap()};
        world.random = seed;
        for (int i = 0; i < LANES; i++)
            world.stream_states[i] = new_lane(world.heap, 10 + (uint64_t)i);
        for (uint64_t i = 0; i < 4; i++)
            CHECK(tarn__ranges_add_segment(world.heap, BASE + i * 8 * MIB, 8 * MIB,
                                           i % 2 ? world.stream_states[i] : NULL));
        world.heap->absorb_bytes = seed % 3 * MIB;
        for (int step = 0; step < 1500; step++) {
            size_t slot = draw(&world, BLOCKS);
            if (draw(&world, 10) == 0) {
                fence_some(&world);
            } else if (world.blocks[slot]) {
                struct tarn__stream_state *stream_state =
                    world.stream_states[draw(&world, LANES)];
                tarn__heap_put(world.heap, world.blocks[slot],
                               draw(&world, 8) ? stream_state : NULL);
                world.blocks[slot] = 0;
            } else {
                allocate_some(&world, slot);
            }
            is_whole(world.heap);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            if (world.blocks[i])
                tarn__heap_put(world.heap, world.blocks[i], NULL);
        for (tarn__index next = 1; tarn__epoch_close_some(world.heap, &next, 2);)
            continue;
        for (tarn__index next = 1; tarn__epoch_complete_some(world.heap, &next, 2);)
            continue;
        while (tarn__epoch_sweep(world.heap, 3))
            continue;
        is_whole(world.heap);
        CHECK_EQUAL(32 * MIB, world.heap->completed_bytes);
        CHECK_EQUAL(0, world.heap->unfenced_bytes);
        CHECK_EQUAL(4, world.heap->blocks);
        end_heap(world.heap);
    }
}

/* Counts the visits of each block. */
struct visits {
    struct tarn__heap *heap;
    unsigned count;
    tarn__index last;
};

static bool count_visit(void *data, tarn__index index)
{
    struct visits *visits = data;

    CHECK_EQUAL(TARN__FREE, tarn__node_state(tarn__node(&visits->heap->nodes, index)));
    visits->count++;
    visits->last = index;
    return true;
}

/* Make `count` completed blocks of 1 KiB to 64 KiB, with live ones between them. */
static void make_holes(struct tarn__heap *heap, tarn__index *holes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        holes[i] = take(heap, NULL, KIB << i % 7);
        CHECK(holes[i] && take(heap, NULL, KIB));
    }
    tarn__index rest = take(heap, NULL, 512);
    CHECK(rest != 0);
    for (unsigned i = 0; i < count; i++)
        tarn__heap_put(heap, holes[i], NULL);
}

TEST(heap_visits_free_blocks_in_parts)
{
    enum { HOLES = 70 };
    struct tarn__heap *heap = new_heap();
    tarn__index holes[HOLES];

    CHECK(tarn__ranges_add_segment(heap, BASE, 8 * MIB, NULL));
    make_holes(heap, holes, HOLES);
    for (unsigned looks = 1; looks <= HOLES + 2; looks++) {
        struct visits visits = {.heap = heap};
        struct tarn__bins_cursor cursor = tarn__bins_begin();
        while (tarn__bins_visit_part(&heap->completed, &heap->nodes, 1, &cursor, looks,
                                     count_visit, &visits))
            CHECK(visits.count % looks == 0);
        CHECK_EQUAL(HOLES + 1, visits.count); /* and the rest of the segment */
    }
    end_heap(heap);
}

TEST(heap_visits_in_parts_while_blocks_go)
{
    enum { HOLES = 70 };
    struct tarn__heap *heap = new_heap();
    tarn__index holes[HOLES];

    CHECK(tarn__ranges_add_segment(heap, BASE, 8 * MIB, NULL));
    make_holes(heap, holes, HOLES);
    struct visits visits = {.heap = heap};
    struct tarn__bins_cursor cursor = tarn__bins_begin();
    while (tarn__bins_visit_part(&heap->completed, &heap->nodes, 1, &cursor, 1,
                                 count_visit, &visits))
        if (cursor.next) { /* the one that would be next */
            tarn__take_whole(heap, cursor.next);
            is_whole(heap);
        }
    CHECK(visits.count >= 8); /* one of each class, and of the rest */
    end_heap(heap);
}

/* The list by epoch stays in order when pieces of several epochs become one block. */
TEST(heap_keeps_the_order_of_epochs_when_neighbours_are_coalesced)
{
    enum { PIECES = 6, FIRST = 2 };
    for (unsigned order = 0; order < 20; order++) {
        struct tarn__heap *heap = new_heap();
        struct tarn__stream_state *stream_state = new_lane(heap, 1);
        tarn__index blocks[PIECES];
        uint32_t quanta = 0;

        CHECK(tarn__ranges_add_segment(heap, BASE, PIECES * MIB, NULL));
        heap->absorb_bytes = 0;
        for (unsigned i = 0; i < PIECES; i++)
            blocks[i] = take(heap, NULL, MIB);
        for (unsigned i = 0; i < PIECES; i++) { /* each in an epoch of its own */
            unsigned which = (i * (order % 2 ? 1 : 5) + order) % PIECES;
            tarn__heap_put(heap, blocks[which], stream_state);
            if (i % 3 != order % 3)
                fence(heap, stream_state, i + 1);
        }
        tarn__index first = tarn__heap_find(heap, BASE);
        for (unsigned i = 0; i < order % FIRST; i++)
            first = tarn__node(&heap->nodes, first)->after;
        for (tarn__index i = first; i && quanta < 3 * MIB / TARN__QUANTUM;
             i = tarn__node(&heap->nodes, i)->after)
            quanta += tarn__node(&heap->nodes, i)->quanta;
        tarn__heap_coalesce_neighbours(heap, first, quanta);
        is_whole(heap);
        CHECK_EQUAL(quanta, tarn__node(&heap->nodes, first)->quanta);
        end_heap(heap);
    }
}
