/* lane.c -- lanes, the states of streams: creation and deletion, epochs, event fences,
 * source streams. */
#include "resource/pool/heap.h"
#include "resource/pool/mutations.h"
#include <stdlib.h>
#include <string.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* --- creation and deletion --- */

static bool add_chunk(struct tarn__heap *heap)
{
    size_t chunk = heap->lanes_made / TARN__LANE_CHUNK;

    if (chunk == TARN__LANE_CHUNKS)
        return false;
    heap->lanes[chunk] = calloc(TARN__LANE_CHUNK, sizeof *heap->lanes[chunk]);
    if (!heap->lanes[chunk])
        return false;
    heap->lane_metadata += TARN__LANE_CHUNK * sizeof *heap->lanes[chunk];
    return true;
}

/* Return the index of an unused lane; 0: no host memory. */
static tarn__index unused_lane(struct tarn__heap *heap)
{
    tarn__index index = heap->unused_lane;

    if (index) {
        heap->unused_lane = tarn__lane(heap, index)->next_unused;
        return index;
    }
    if (heap->lanes_made == 0) {
        if (!add_chunk(heap))
            return 0;
        heap->lanes_made = 1; /* lane 0 stands for completed frees */
    }
    if (heap->lanes_made % TARN__LANE_CHUNK == 0 && !add_chunk(heap))
        return 0;
    return heap->lanes_made++;
}

struct tarn__lane *tarn__heap_known_lane(const struct tarn__heap *heap, uint64_t key)
{
    const tarn__index *index = tarn__map_get(&heap->by_key, key);

    return index ? tarn__lane(heap, *index) : NULL;
}

struct tarn__lane *tarn__heap_lane(struct tarn__heap *heap, uint64_t key)
{
    struct tarn__lane *lane = tarn__heap_known_lane(heap, key);

    if (lane)
        return lane;
    if (!tarn__map_reserve_one(&heap->by_key))
        return NULL;
    tarn__index index = unused_lane(heap);
    if (!index)
        return NULL;
    lane = tarn__lane(heap, index);
    struct tarn__fence *fences = lane->fences;
    size_t room = lane->fence_room;
    memset(lane, 0, sizeof *lane);
    lane->index = index;
    lane->key = key;
    lane->open_epoch = 1;
    lane->in_order = key != TARN__KEY_LEFT &&
                     (key != TARN__KEY_NOBODY || TARN_MUTATION(nobody_is_in_order));
    lane->fences = fences; /* its array serves the next lane */
    lane->fence_room = room;
    tarn__map_put(&heap->by_key, key, &index);
    heap->lane_count++;
    return lane;
}

static bool is_pinned(const struct tarn__lane *lane)
{
    for (size_t i = 0; i < lane->fence_count; i++)
        if (lane->fences[i].pins)
            return true;
    return false;
}

CUevent_ tarn__lane_pin(struct tarn__lane *lane, struct tarn__fence *fence)
{
    fence->pins++;
    lane->users++;
    return fence->event;
}

void tarn__lane_unpin(struct tarn__lane *lane, CUevent_ event)
{
    for (size_t i = 0; i < lane->fence_count; i++)
        if (lane->fences[i].event == event)
            lane->fences[i].pins--;
    lane->users--;
}

/* Remove the first `count` event fences; their events are reused. */
static void drop_fences(struct tarn__heap *heap, struct tarn__lane *lane, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < lane->fence_count; i++) {
        struct tarn__fence *fence = &lane->fences[i];
        bool in_use = fence->pins > 0 && !TARN_MUTATION(event_recycled_in_use);
        if (i < count && !in_use && tarn__heap_keep_event(heap, fence->event))
            continue;
        lane->fences[kept++] = *fence;
    }
    lane->fence_count = kept;
}

static uint64_t handle_key(CUstream_ handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Another stream may have the handle by now. */
static void forget_handle(struct tarn__heap *heap, const struct tarn__lane *lane)
{
    uint64_t key = handle_key(lane->handle);
    const tarn__index *named = key ? tarn__map_get(&heap->by_handle, key) : NULL;

    if (named && *named == lane->index)
        tarn__map_take(&heap->by_handle, key, NULL);
}

void tarn__heap_forget_lane(struct tarn__heap *heap, struct tarn__lane *lane)
{
    if (lane->users || lane->oldest || lane->recording || is_pinned(lane))
        return;
    drop_fences(heap, lane, lane->fence_count);
    if (lane->fence_count)
        return;
    forget_handle(heap, lane);
    tarn__map_take(&heap->by_key, lane->key, NULL);
    lane->key = 0;
    lane->next_unused = heap->unused_lane;
    heap->unused_lane = lane->index;
    heap->lane_count--;
}

/* --- streams that end --- */

struct tarn__lane *tarn__heap_left(struct tarn__heap *heap)
{
    if (!heap->left && (heap->left = tarn__heap_lane(heap, TARN__KEY_LEFT)) != NULL)
        heap->left->users++;
    return heap->left;
}

struct tarn__lane *tarn__heap_name_lane(struct tarn__heap *heap, struct tarn__lane *lane,
                                        CUstream_ handle)
{
    tarn__index *named = tarn__map_get(&heap->by_handle, handle_key(handle));
    struct tarn__lane *earlier = named ? tarn__lane(heap, *named) : NULL;

    /* the memory of the earlier stream is going to move there */
    if (named && !tarn__heap_left(heap))
        return NULL;
    if (named)
        *named = lane->index;
    else if (!tarn__map_put(&heap->by_handle, handle_key(handle), &lane->index))
        return NULL;
    lane->handle = handle;
    return earlier;
}

bool tarn__heap_leave_unfenced(struct tarn__heap *heap, struct tarn__lane *lane,
                               size_t most)
{
    tarn__index index;

    while ((index = lane->youngest) != 0 && NODE(index)->epoch > lane->fenced_epoch) {
        if (most-- == 0)
            return true;
        tarn__heap_take_whole(heap, index);
        tarn__heap_put(heap, index, TARN_MUTATION(left_taken_as_done) ? NULL : lane);
    }
    return false;
}

void tarn__heap_free(struct tarn__heap *heap)
{
    for (tarn__index i = 1; i < heap->lanes_made; i++)
        free(tarn__lane(heap, i)->fences);
    for (size_t i = 0; i < TARN__LANE_CHUNKS && heap->lanes[i]; i++)
        free(heap->lanes[i]);
    tarn__map_free(&heap->by_key);
    tarn__map_free(&heap->by_handle);
    tarn__nodes_free(&heap->nodes);
    tarn__addresses_free(&heap->addresses);
    free(heap->events);
    free(heap->starts);
}

void tarn__lane_has_memory(struct tarn__heap *heap, struct tarn__lane *lane)
{
    lane->previous_with_memory = 0;
    lane->next_with_memory = heap->with_memory;
    if (heap->with_memory)
        tarn__lane(heap, heap->with_memory)->previous_with_memory = lane->index;
    heap->with_memory = lane->index;
    heap->with_memory_count++;
}

void tarn__lane_is_empty(struct tarn__heap *heap, struct tarn__lane *lane)
{
    tarn__index next = lane->next_with_memory, previous = lane->previous_with_memory;

    if (next)
        tarn__lane(heap, next)->previous_with_memory = previous;
    *(previous ? &tarn__lane(heap, previous)->next_with_memory : &heap->with_memory) =
        next;
    lane->next_with_memory = lane->previous_with_memory = 0;
    heap->with_memory_count--;
}

/* --- events --- */

CUevent_ tarn__heap_event(struct tarn__heap *heap)
{
    return heap->event_count ? heap->events[--heap->event_count] : NULL;
}

bool tarn__heap_keep_event(struct tarn__heap *heap, CUevent_ event)
{
    if (heap->event_count == heap->event_room) {
        size_t room = heap->event_room ? 2 * heap->event_room : 32;
        CUevent_ *events = realloc(heap->events, room * sizeof *events);
        if (!events)
            return false;
        heap->events = events;
        heap->event_room = room;
    }
    heap->events[heap->event_count++] = event;
    return true;
}

void tarn__heap_collect_events(struct tarn__heap *heap)
{
    for (tarn__index i = 1; i < heap->lanes_made; i++) {
        struct tarn__lane *lane = tarn__lane(heap, i);
        for (size_t j = 0; j < lane->fence_count; j++)
            tarn__heap_keep_event(heap, lane->fences[j].event);
        lane->fence_count = 0;
    }
}

/* --- epochs and event fences --- */

uint64_t tarn__lane_close(struct tarn__heap *heap, struct tarn__lane *lane)
{
    (void)heap;
    lane->closed_bytes += lane->open_bytes;
    lane->open_bytes = 0;
    lane->recording = true;
    return lane->open_epoch++;
}

/* Return the bytes that were freed after `epoch`, before the open one. */
static uint64_t bytes_closed_after(const struct tarn__heap *heap,
                                   const struct tarn__lane *lane, uint64_t epoch)
{
    uint64_t bytes = 0;

    for (tarn__index i = lane->youngest; i && NODE(i)->epoch > epoch;
         i = NODE(i)->age.older)
        if (NODE(i)->epoch != lane->open_epoch)
            bytes += tarn__node_bytes(NODE(i));
    return bytes;
}

/* Recount the unfenced bytes: an epoch can complete without ever having had an event
 * fence. */
static void recount(struct tarn__heap *heap, struct tarn__lane *lane)
{
    uint64_t rest = bytes_closed_after(heap, lane, lane->fenced_epoch);

    heap->unfenced_bytes -= lane->closed_bytes - rest;
    lane->closed_bytes = rest;
}

/* Find an event fence that can be dropped, because the next one covers the same frees. 0:
 * none. */
static size_t dispensable(const struct tarn__lane *lane)
{
    for (size_t i = lane->fence_count; i-- > 1;)
        if (lane->fences[i].pins == 0 || TARN_MUTATION(event_recycled_in_use))
            return i;
    return 0;
}

/* The mutation uses a smaller bound, so that it takes effect. */
enum { FENCES_MAX = 16, FENCES_FEW = 2 };

/* Reserve capacity for one more event fence. */
static bool fence_room(struct tarn__heap *heap, struct tarn__lane *lane)
{
    size_t most = TARN_MUTATION(event_recycled_in_use) ? FENCES_FEW : FENCES_MAX;
    size_t spare = lane->fence_count >= most ? dispensable(lane) : 0;

    if (spare && tarn__heap_keep_event(heap, lane->fences[spare].event)) {
        memmove(&lane->fences[spare], &lane->fences[spare + 1],
                (lane->fence_count - spare - 1) * sizeof *lane->fences);
        lane->fence_count--;
    }
    if (lane->fence_count < lane->fence_room)
        return true;
    size_t room = lane->fence_room ? 2 * lane->fence_room : 4;
    struct tarn__fence *fences = realloc(lane->fences, room * sizeof *fences);
    if (!fences)
        return false;
    lane->fences = fences;
    lane->fence_room = room;
    return true;
}

bool tarn__lane_publish(struct tarn__heap *heap, struct tarn__lane *lane, uint64_t epoch,
                        CUevent_ event)
{
    if (!fence_room(heap, lane))
        return false;
    lane->fences[lane->fence_count++] = (struct tarn__fence){epoch, event, 0};
    if (lane->fenced_epoch < epoch) /* a device-wide wait may have come in between */
        lane->fenced_epoch = epoch;
    recount(heap, lane);
    return true;
}

void tarn__lane_fence_done(struct tarn__heap *heap, struct tarn__lane *lane,
                           uint64_t epoch)
{
    size_t count = 0;

    if (lane->done_epoch < epoch)
        lane->done_epoch = epoch + (TARN_MUTATION(ready_too_early) ? 1 : 0);
    while (count < lane->fence_count && lane->fences[count].epoch <= epoch)
        count++;
    drop_fences(heap, lane, count);
}

void tarn__lane_settle(struct tarn__heap *heap, struct tarn__lane *lane, uint64_t epoch)
{
    if (lane->fenced_epoch < epoch) {
        lane->fenced_epoch = epoch;
        recount(heap, lane);
    }
    tarn__lane_fence_done(heap, lane, epoch);
}

/* Make the finished frees of `lane` completed, up to `*most` blocks. */
static void sweep_lane(struct tarn__heap *heap, struct tarn__lane *lane, size_t *most)
{
    tarn__index index;

    while ((index = lane->oldest) != 0 && NODE(index)->epoch <= lane->done_epoch &&
           *most > 0) {
        tarn__heap_make_ready(heap, index);
        --*most;
    }
}

bool tarn__heap_sweep(struct tarn__heap *heap, size_t most)
{
    tarn__index next;

    for (tarn__index i = heap->with_memory; i; i = next) {
        struct tarn__lane *lane = tarn__lane(heap, i);
        next = lane->next_with_memory;
        sweep_lane(heap, lane, &most);
        if (most == 0)
            return true;
        if (!lane->oldest)
            tarn__heap_forget_lane(heap, lane);
    }
    return false;
}

void tarn__heap_close_all(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__lane(heap, i)->next_with_memory) {
        struct tarn__lane *lane = tarn__lane(heap, i);
        if (lane->is_capture)
            continue;
        lane->barrier_epoch = lane->open_epoch++;
        lane->closed_bytes += lane->open_bytes;
        lane->open_bytes = 0;
    }
}

void tarn__heap_all_ready(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__lane(heap, i)->next_with_memory) {
        struct tarn__lane *lane = tarn__lane(heap, i);
        if (lane->barrier_epoch > lane->done_epoch)
            tarn__lane_settle(heap, lane, lane->barrier_epoch);
    }
    while (tarn__heap_sweep(heap, SIZE_MAX))
        continue;
}

/* --- source streams --- */

size_t tarn__lane_fence_for(const struct tarn__lane *lane, uint64_t epoch)
{
    size_t fence = 0;

    while (fence + 1 < lane->fence_count && lane->fences[fence].epoch < epoch)
        fence++;
    return fence;
}

struct donor {
    const struct tarn__lane *lane;
    const struct tarn__request *request;
};

/* Return true if a published event fence covers this block of the source stream, and it
 * is large enough. */
static bool is_fenced(const void *data, const struct tarn__node *node)
{
    const struct donor *donor = data;

    return tarn__lane_has_fenced(donor->lane, node) &&
           tarn__request_fits(donor->request, node);
}

/* Source streams considered. With more streams than this the others have their turn
 * later, since a lane moves to the front of the list when it gets memory. */
enum { DONORS = 64 };

tarn__index tarn__heap_take_from_donor(struct tarn__heap *heap,
                                       const struct tarn__lane *lane,
                                       const struct tarn__request *request,
                                       struct tarn__lane **donor_out, size_t *fence_out)
{
    tarn__index best = 0;
    int looks = 0;

    for (tarn__index i = heap->with_memory; i && looks < DONORS;
         i = tarn__lane(heap, i)->next_with_memory, looks++) {
        struct tarn__lane *other = tarn__lane(heap, i);
        struct donor donor = {other, request};
        if (other == lane || other->fence_count == 0 || other->is_capture)
            continue;
        tarn__index found = tarn__bins_find(&other->bins, &heap->nodes, request->granules,
                                            UINT32_MAX, is_fenced, &donor);
        if (found && (!best || NODE(found)->granules < NODE(best)->granules))
            best = found;
    }
    if (!best)
        return 0;
    struct tarn__lane *donor = tarn__lane(heap, NODE(best)->lane);
    uint64_t epoch = NODE(best)->epoch;
    best = tarn__heap_cut(heap, best, request);
    if (!best)
        return 0;
    *donor_out = donor;
    *fence_out = tarn__lane_fence_for(donor, epoch);
    return best;
}
