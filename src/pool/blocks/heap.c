/* heap.c -- freeing: coalescing with neighbours, in the order of a stream or as
 * completed. */
#include "pool/blocks/heap.h"
#include "pool/mutations.h"
#include <stdlib.h>
#include <string.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* Where several streams have memory, a free coalesces with a completed neighbour of at
 * most this size. A larger bound would take more from the other streams. */
#define COMPLETED_ABSORB ((uint64_t)1 << 20)

void tarn__heap_init(struct tarn__heap *heap)
{
    memset(heap, 0, sizeof *heap);
    tarn__map_init(&heap->by_key, sizeof(tarn__index));
    tarn__map_init(&heap->by_handle, sizeof(tarn__index));
    heap->absorb_bytes = (uint64_t)16 << 20;
}

/* Without the lock: see the declaration. */
void tarn__heap_free(struct tarn__heap *heap) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    for (tarn__index i = 1; i < heap->states_made; i++)
        free(tarn__heap_state(heap, i)->fences);
    for (size_t i = 0; i < TARN__STATE_CHUNKS && heap->stream_states[i]; i++)
        free(heap->stream_states[i]);
    tarn__map_free(&heap->by_key);
    tarn__map_free(&heap->by_handle);
    tarn__nodes_free(&heap->nodes);
    tarn__addresses_free(&heap->addresses);
    free(heap->events);
    free(heap->starts);
}

tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address)
{
    return tarn__addresses_find(&heap->addresses, &heap->nodes, address);
}

/* --- the lists of stream states --- */

/* The links of a stream state in one of the lists. */
typedef struct tarn__state_links *links_of(struct tarn__stream_state *stream_state);

static struct tarn__state_links *with_memory(struct tarn__stream_state *stream_state)
{
    return &stream_state->with_memory;
}

static struct tarn__state_links *with_fences(struct tarn__stream_state *stream_state)
{
    return &stream_state->with_fences;
}

static void link_state(struct tarn__heap *heap, struct tarn__state_list *list,
                       links_of *links, struct tarn__stream_state *stream_state)
{
    *links(stream_state) = (struct tarn__state_links){list->first, 0, true};
    if (list->first)
        links(tarn__heap_state(heap, list->first))->previous = stream_state->index;
    list->first = stream_state->index;
    list->count++;
}

static void unlink_state(struct tarn__heap *heap, struct tarn__state_list *list,
                         links_of *links, struct tarn__stream_state *stream_state)
{
    tarn__index next = links(stream_state)->next,
                previous = links(stream_state)->previous;

    if (next)
        links(tarn__heap_state(heap, next))->previous = previous;
    *(previous ? &links(tarn__heap_state(heap, previous))->next : &list->first) = next;
    *links(stream_state) = (struct tarn__state_links){0};
    list->count--;
}

static void change_list(struct tarn__heap *heap, struct tarn__state_list *list,
                        links_of *links, struct tarn__stream_state *stream_state,
                        bool belongs)
{
    if (belongs)
        link_state(heap, list, links, stream_state);
    else
        unlink_state(heap, list, links, stream_state);
}

/* A walk over `with_fences` that goes on at this stream state is to go on behind it. */
static void step_over(struct tarn__heap *heap,
                      const struct tarn__stream_state *stream_state)
{
    if (heap->poll_next == stream_state->index)
        heap->poll_next = stream_state->with_fences.next;
    if (heap->plan_next == stream_state->index)
        heap->plan_next = stream_state->with_fences.next;
}

void tarn__heap_list_state(struct tarn__heap *heap,
                           struct tarn__stream_state *stream_state)
{
    bool has_memory = stream_state->free.oldest != 0;
    bool has_both = has_memory && stream_state->fence_count > 0;

    if (has_memory != stream_state->with_memory.is_linked)
        change_list(heap, &heap->with_memory, with_memory, stream_state, has_memory);
    if (has_both == stream_state->with_fences.is_linked)
        return;
    if (!has_both)
        step_over(heap, stream_state);
    change_list(heap, &heap->with_fences, with_fences, stream_state, has_both);
}

/* --- free nodes as a whole --- */

/* Free a node into `stream_state` (its open epoch), or as completed. */
static inline void attach(struct tarn__heap *heap, tarn__index index,
                          struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = NODE(index);

    tarn__node_set(node, TARN__FREE);
    node->stream_state = stream_state ? stream_state->index : 0;
    if (stream_state) {
        bool is_first = stream_state->free.oldest == 0;
        node->epoch = stream_state->open_epoch;
        tarn__heap_link_after(heap, stream_state, stream_state->free.youngest, index);
        if (is_first)
            tarn__heap_list_state(heap, stream_state);
    }
    tarn__heap_into_bins(heap, index, stream_state);
}

/* Do the same with an older epoch, behind `older` in the list. */
static void attach_in_epoch(struct tarn__heap *heap, tarn__index index,
                            struct tarn__stream_state *stream_state, uint64_t epoch,
                            tarn__index older) TARN__REQUIRES(pool_lock)
{
    bool is_first = stream_state->free.oldest == 0;

    NODE(index)->stream_state = stream_state->index;
    NODE(index)->epoch = epoch;
    tarn__node_set(NODE(index), TARN__FREE);
    tarn__heap_link_after(heap, stream_state, older, index);
    if (is_first)
        tarn__heap_list_state(heap, stream_state);
    tarn__heap_into_bins(heap, index, stream_state);
}

/* --- neighbours --- */

/* Drop the upper neighbour of `index`, which is in no bin and not entered, and is part of
 * it now. */
static inline void drop_upper(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index upper = node->after, after = NODE(upper)->after;

    node->after = after;
    if (after)
        NODE(after)->before = index;
    tarn__nodes_put(&heap->nodes, upper);
    heap->blocks--;
}

void tarn__heap_absorb(struct tarn__heap *heap, tarn__index index)
{
    tarn__node_size(NODE(index), NODE(index)->quanta + NODE(NODE(index)->after)->quanta);
    drop_upper(heap, index);
}

void tarn__heap_absorb_live(struct tarn__heap *heap, tarn__index index)
{
    tarn__heap_leave(heap, NODE(index)->after);
    tarn__heap_absorb(heap, index);
}

/* Extend a free node by its upper neighbour, which is in transit. */
static inline void extend_up(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    tarn__heap_resize(heap, index,
                      NODE(index)->quanta + NODE(NODE(index)->after)->quanta);
    drop_upper(heap, index);
}

/* Extend a free node by its lower neighbour, which is in transit. */
static inline void extend_down(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = NODE(index);
    tarn__index lower = node->before;
    const struct tarn__node *gone = NODE(lower);

    tarn__node_set_address(node, gone->address);
    node->before = gone->before;
    if (gone->before)
        NODE(gone->before)->after = index;
    else
        tarn__addresses_replace(&heap->addresses, &heap->nodes, lower, index);
    tarn__heap_resize(heap, index, node->quanta + gone->quanta);
    tarn__nodes_put(&heap->nodes, lower);
    heap->blocks--;
}

/* Return true if a free neighbour coalesces with what `stream_state` frees now (NULL:
 * with a completed one), which has so many quanta. The neighbour would get the stream
 * state's open epoch, so a large fenced or completed one stays by itself. */
static bool coalesces(const struct tarn__heap *heap,
                      const struct tarn__stream_state *stream_state, uint32_t quanta,
                      const struct tarn__node *neighbour) TARN__REQUIRES(pool_lock)
{
    if (tarn__node_state(neighbour) != TARN__FREE ||
        neighbour->quanta > UINT32_MAX - quanta)
        return false;
    uint64_t bytes = tarn__node_bytes(neighbour);
    uint64_t bytes_freed = (uint64_t)quanta << TARN__QUANTUM_SHIFT;
    if (TARN_MUTATION(coalesced_across_streams))
        return true;
    if (!stream_state)
        return neighbour->stream_state == 0;
    if (neighbour->stream_state == stream_state->index)
        return neighbour->epoch == stream_state->open_epoch ||
               (stream_state->in_order && bytes <= heap->absorb_bytes);
    return neighbour->stream_state == 0 && stream_state->in_order &&
           !stream_state->is_capture && bytes <= heap->absorb_bytes &&
           (bytes <= COMPLETED_ABSORB || bytes <= bytes_freed ||
            heap->with_memory.count < 2);
}

/* Return true if a free neighbour has the stream state and epoch of what `stream_state`
 * frees now. Then the new one extends it in place. */
static inline bool is_alike(const struct tarn__stream_state *stream_state,
                            const struct tarn__node *neighbour) TARN__REQUIRES(pool_lock)
{
    if (TARN_MUTATION(no_renewal))
        return false;
    return stream_state ? neighbour->stream_state == stream_state->index &&
                              neighbour->epoch == stream_state->open_epoch
                        : neighbour->stream_state == 0;
}

/* Take neighbours that coalesce with `index`, but are not alike, out of their lists
 * first. */
static tarn__index absorb_others(struct tarn__heap *heap, tarn__index index,
                                 const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = NODE(index);
    tarn__index after = node->after, before = node->before;
    uint32_t quanta = node->quanta;

    if (after && coalesces(heap, stream_state, quanta, NODE(after))) {
        quanta += NODE(after)->quanta;
        if (!is_alike(stream_state, NODE(after))) {
            tarn__heap_detach(heap, after);
            tarn__heap_absorb(heap, index);
        }
    }
    if (!before || is_alike(stream_state, NODE(before)) ||
        !coalesces(heap, stream_state, quanta, NODE(before)))
        return index;
    tarn__heap_detach(heap, before);
    tarn__heap_absorb(heap, before);
    return before;
}

/* Return true if a free neighbour would not simply become longer. Node 0 has no state
 * that matches. */
static inline bool has_others(const struct tarn__heap *heap,
                              const struct tarn__node *node,
                              const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *after = NODE(node->after), *before = NODE(node->before);

    return (tarn__node_state(after) == TARN__FREE && !is_alike(stream_state, after)) ||
           (tarn__node_state(before) == TARN__FREE && !is_alike(stream_state, before));
}

/* Alike neighbours coalesce, whatever their size, unless the sum overflows. */
static inline bool coalesces_alike(const struct tarn__stream_state *stream_state,
                                   uint32_t quanta, const struct tarn__node *neighbour)
    TARN__REQUIRES(pool_lock)
{
    return tarn__node_state(neighbour) == TARN__FREE &&
           is_alike(stream_state, neighbour) && neighbour->quanta <= UINT32_MAX - quanta;
}

/* Return the youngest free block of an epoch or of older ones; for a mutation. */
static tarn__index youngest_of(const struct tarn__heap *heap,
                               const struct tarn__stream_state *stream_state,
                               uint64_t epoch)
{
    tarn__index index = stream_state->free.youngest;

    while (index && NODE(index)->epoch > epoch)
        index = NODE(index)->age.older;
    return index;
}

/* Free a node that is in transit: as a part of alike neighbours, or by itself. */
static inline void insert(struct tarn__heap *heap, tarn__index index,
                          struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = NODE(index);
    bool up = coalesces_alike(stream_state, node->quanta, NODE(node->before));

    if (coalesces_alike(stream_state, node->quanta, NODE(node->after))) {
        if (!up) {
            extend_down(heap, node->after);
            return;
        }
        tarn__heap_detach(heap, node->after);
        tarn__heap_absorb(heap, index);
        up = coalesces_alike(stream_state, node->quanta, NODE(node->before));
    }
    if (up)
        extend_up(heap, node->before);
    else if (TARN_MUTATION(no_renewal) && stream_state && stream_state->fence_count)
        attach_in_epoch(heap, index, stream_state, stream_state->fenced_epoch,
                        youngest_of(heap, stream_state, stream_state->fenced_epoch));
    else
        attach(heap, index, stream_state);
}

/* Free a node that is in transit, in no bin and not entered. */
static inline void release(struct tarn__heap *heap, tarn__index index,
                           struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    /* A completed node coalesces with completed neighbours alone. */
    if ((stream_state || TARN_MUTATION(coalesced_across_streams)) &&
        has_others(heap, NODE(index), stream_state))
        index = absorb_others(heap, index, stream_state);
    insert(heap, index, stream_state);
}

void tarn__heap_put(struct tarn__heap *heap, tarn__index index,
                    struct tarn__stream_state *stream_state)
{
    struct tarn__node *node = NODE(index);

    heap->allocated_bytes -= tarn__node_bytes(node);
    tarn__node_set(node, TARN__IN_TRANSIT);
    tarn__node_set_capture(node, 0);
    if (stream_state) {
        if (stream_state->has_ended)
            stream_state = heap->orphaned;
        stream_state->frees++;
    }
    tarn__heap_leave(heap, index);
    release(heap, index, stream_state);
}

void tarn__heap_put_alone(struct tarn__heap *heap, tarn__index index,
                          struct tarn__stream_state *stream_state)
{
    uint64_t most = heap->absorb_bytes;

    heap->absorb_bytes = 0;
    tarn__heap_put(heap, index, stream_state);
    heap->absorb_bytes = most;
}

void tarn__heap_complete(struct tarn__heap *heap, tarn__index index)
{
    tarn__heap_detach(heap, index);
    release(heap, index, NULL);
}

void tarn__heap_coalesce_neighbours(struct tarn__heap *heap, tarn__index first,
                                    uint32_t quanta)
{
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, NODE(first));
    uint64_t epoch = NODE(first)->epoch;
    /* the one before the youngest part in the list by epoch, where the whole goes */
    tarn__index older = stream_state ? NODE(first)->age.older : 0;

    tarn__heap_detach(heap, first);
    while (NODE(first)->quanta < quanta) {
        tarn__index i = NODE(first)->after;
        if (NODE(i)->stream_state) {
            bool is_younger = !stream_state || NODE(i)->epoch > epoch;
            if (is_younger)
                epoch = NODE(i)->epoch;
            if (is_younger || older == i)
                older = NODE(i)->age.older;
            stream_state = tarn__heap_state_of(heap, NODE(i));
        }
        tarn__heap_detach(heap, i);
        tarn__heap_absorb(heap, first);
    }
    if (stream_state)
        attach_in_epoch(heap, first, stream_state, epoch, older);
    else
        attach(heap, first, NULL);
}
