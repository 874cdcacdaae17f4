/* segments.c -- the memory of a pool as blocks of another resource.
 *
 * A pool's pages are 2 MiB, so a segment that begins on such a border is the simplest.
 * cuMemAlloc aligns large blocks that way without a request; requesting it could cost up
 * to 2 MiB more. So the pool first requests the common alignment from the upstream. It
 * requests 2 MiB only once the upstream has returned a block that is not aligned.
 *
 * The host has seen the device finish with memory before the pool returns it, so the
 * stream does not matter. The pool passes the thread's own default stream, which no
 * capture includes. But a segment that the pool returns at once, because it is not aligned,
 * goes back on the stream of its allocation.
 */
#include "base/size.h"
#include "base/warn.h"
#include "nvtx/heaps.h"
#include "resource/block_generation.h"
#include "resource/observer.h"
#include "pool/backing/segments.h"
#include <stdlib.h>
#include <string.h>

tarn_status tarn__segments_open(struct tarn__pages *pages, tarn_resource *upstream)
{
    struct tarn__segments *segments = &pages->segments;

    if (pthread_mutex_init(&segments->lock, NULL) != 0)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: could not create a mutex");
    segments->upstream = tarn_resource_retain(upstream);
    return TARN_OK;
}

/* Return a segment to the upstream. The upstream may have two blocks of its address; the
 * generation selects one. */
static tarn_status release_segment(struct tarn__segments *segments,
                                   const struct tarn__segment *segment,
                                   tarn_stream stream)
{
    uint64_t before = tarn__block_generation_set(segment->context_generation);
    bool was_hidden = tarn__observer_hide_calls();
    tarn__heaps_remove(segment->span.address, segment->span.bytes);
    tarn_status status =
        tarn_resource_deallocate(segments->upstream, segment->span.address,
                                 segment->span.bytes, segment->alignment, stream);

    tarn__observer_show_calls(was_hidden);
    tarn__block_generation_set(before);
    return status;
}

/* Return all segments. The function cannot return a status, so a failed return is tried
 * again once, and a block that stays with the upstream causes a warning. */
static void release_all(struct tarn__segments *segments)
{
    size_t failed = 0, bytes = 0;
    tarn_error first = {.status = TARN_OK};

    for (size_t i = 0; i < segments->count; i++) {
        const struct tarn__segment *segment = &segments->list[i];
        if (release_segment(segments, segment, TARN_STREAM_PER_THREAD) == TARN_OK ||
            release_segment(segments, segment, TARN_STREAM_PER_THREAD) == TARN_OK)
            continue;
        if (failed++ == 0)
            first = *tarn_error_last();
        bytes += segments->list[i].span.bytes;
    }
    if (failed > 0)
        tarn__warn(
            "pool: %zu segments of %zu bytes in total could not be returned to %s: %s",
            failed, bytes, tarn_resource_name(segments->upstream), first.message);
}

void tarn__segments_close(struct tarn__pages *pages)
{
    struct tarn__segments *segments = &pages->segments;

    if (pages->device == TARN_DEVICE_NONE || !tarn__driver_gone())
        release_all(segments);
    tarn_resource_release(segments->upstream); /* fails where blocks stay with it */
    pthread_mutex_destroy(&segments->lock);
    free(segments->list);
}

/* --- the list --- */

/* Reserve one more entry, so that entering cannot fail. Only the one change that is under
 * way calls this, so the capacity remains. */
static bool reserve(struct tarn__pages *pages)
{
    struct tarn__segments *segments = &pages->segments;
    size_t capacity = segments->capacity ? 2 * segments->capacity : 16;

    if (segments->count < segments->capacity)
        return true;
    struct tarn__segment *list = malloc(capacity * sizeof *list);
    if (!list)
        return false;
    pthread_mutex_lock(&segments->lock);
    struct tarn__segment *before = segments->list;
    if (segments->count > 0)
        memcpy(list, before, segments->count * sizeof *list);
    segments->list = list;
    segments->capacity = capacity;
    pthread_mutex_unlock(&segments->lock);
    free(before);
    atomic_store(&pages->metadata, sizeof *pages + capacity * sizeof *list);
    return true;
}

/* Return how many segments begin before `address`. Locked, or called by the one thread
 * that changes the list. */
static size_t position_of(const struct tarn__segments *segments, uint64_t address)
{
    size_t low = 0, high = segments->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segments->list[middle].span.address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void enter(struct tarn__segments *segments, const struct tarn__segment *segment)
{
    pthread_mutex_lock(&segments->lock);
    size_t place = position_of(segments, segment->span.address);
    memmove(&segments->list[place + 1], &segments->list[place],
            (segments->count - place) * sizeof *segment);
    segments->list[place] = *segment;
    segments->count++;
    pthread_mutex_unlock(&segments->lock);
}

static void remove_entry(struct tarn__segments *segments, size_t place)
{
    pthread_mutex_lock(&segments->lock);
    segments->count--;
    memmove(&segments->list[place], &segments->list[place + 1],
            (segments->count - place) * sizeof *segments->list);
    pthread_mutex_unlock(&segments->lock);
}

/* Return true if `span` is the segment at `place`. */
static bool is_segment(const struct tarn__segments *segments, size_t place,
                       struct tarn__span span)
{
    return place < segments->count &&
           segments->list[place].span.address == span.address &&
           segments->list[place].span.bytes == span.bytes;
}

/* --- grow and shrink --- */

static tarn_status request(struct tarn__pages *pages, size_t bytes, size_t alignment,
                           tarn_stream stream, struct tarn__segment *out)
{
    tarn_device_ptr block;
    bool was_hidden = tarn__observer_hide_calls();
    tarn_status status = tarn_resource_allocate(pages->segments.upstream, bytes,
                                                alignment, stream, &block);

    tarn__observer_show_calls(was_hidden);
    if (status != TARN_OK)
        return status;
    *out = (struct tarn__segment){
        .span = {block, bytes},
        .alignment = alignment,
        .context_generation =
            pages->context_generation ? tarn__context_generation(pages->device) : 0,
    };
    if (pages->device != TARN_DEVICE_NONE)
        tarn__heaps_add(block, bytes);
    return TARN_OK;
}

/* Obtain a segment on a border of 2 MiB if possible, else another one. */
static tarn_status obtain(struct tarn__pages *pages, size_t bytes, tarn_stream stream,
                          struct tarn__segment *out)
{
    struct tarn__segments *segments = &pages->segments;
    struct tarn__segment plain;

    if (atomic_load(&segments->requests_aligned) &&
        request(pages, bytes, TARN__PAGE_BYTES, stream, out) == TARN_OK)
        return TARN_OK;
    tarn_status status = request(pages, bytes, TARN_ALIGNMENT, stream, &plain);
    if (status != TARN_OK)
        return status;
    if (plain.span.address % TARN__PAGE_BYTES == 0 ||
        atomic_load(&segments->requests_aligned)) {
        *out = plain;
        return TARN_OK;
    }
    atomic_store(&segments->requests_aligned, true);
    if (request(pages, bytes, TARN__PAGE_BYTES, stream, out) != TARN_OK) {
        *out = plain;
        return TARN_OK;
    }
    if (release_segment(segments, &plain, stream) == TARN_OK)
        return TARN_OK;
    release_segment(segments, out, stream); /* keep the one that was not taken back */
    *out = plain;
    return TARN_OK;
}

tarn_status tarn__segments_grow(struct tarn__pages *pages, size_t bytes,
                                tarn_stream stream, struct tarn__span *out)
{
    struct tarn__segment segment;

    if (!reserve(pages))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a list of %zu segments",
                              pages->segments.count + 1);
    tarn_status status = obtain(pages, bytes, stream, &segment);
    if (status != TARN_OK)
        return status;
    enter(&pages->segments, &segment);
    atomic_fetch_add(&pages->reserved, bytes);
    *out = segment.span;
    return TARN_OK;
}

struct tarn__span tarn__segments_removable(const struct tarn__pages *pages,
                                           struct tarn__span idle)
{
    struct tarn__segments *segments = (struct tarn__segments *)&pages->segments;

    pthread_mutex_lock(&segments->lock);
    size_t place = position_of(segments, idle.address);
    if (!is_segment(segments, place, idle))
        idle.bytes = 0;
    pthread_mutex_unlock(&segments->lock);
    return idle;
}

tarn_status tarn__segments_remove(struct tarn__pages *pages, struct tarn__span span)
{
    struct tarn__segments *segments = &pages->segments;
    size_t place = position_of(segments, span.address);

    if (!is_segment(segments, place, span))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: %zu bytes at 0x%llx are not a segment", span.bytes,
                              (unsigned long long)span.address);
    struct tarn__segment segment = segments->list[place];
    tarn_status status = release_segment(segments, &segment, TARN_STREAM_PER_THREAD);
    if (status != TARN_OK)
        return status;
    remove_entry(segments, place);
    atomic_fetch_sub(&pages->reserved, span.bytes);
    return TARN_OK;
}
