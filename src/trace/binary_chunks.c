/* binary_chunks.c -- the chunks of a binary log: which are in use, and for what.
 *
 * Chunks have increasing numbers, and times at which they start that do not decrease. A
 * free has the time of its begin, and its row comes after its end. So a chunk may get a row
 * that is older than the chunk. It starts a moment before its first row. A row that is
 * older even than that gets the time of the chunk's start.
 *
 * A file that is no ring only grows. In a ring a chunk has a place, which other chunks use
 * after it.
 */
#include "trace/binary_chunks.h"
#include "base/mutex_assert.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SLACK_NS = 10000000;
/* Chunks of a window: of a file, those of a ring besides its size, and the most. */
enum { WINDOW_CHUNKS = 16, WINDOW_MORE = 64, WINDOW_MOST = 65536 };

uint64_t tarn__binary_chunks_offset(const struct tarn__binary_chunks *chunks,
                                    uint32_t place)
{
    return TARN__BINARY_HEADER_BYTES + (uint64_t)place * chunks->chunk_bytes;
}

uint32_t tarn__binary_chunks_rows(const struct tarn__binary_chunks *chunks)
{
    return (uint32_t)((chunks->chunk_bytes - sizeof(struct tarn__binary_chunk)) /
                      sizeof(struct tarn__binary_row));
}

void tarn__binary_chunks_number(struct tarn__binary_chunks *chunks,
                                struct tarn__binary_chunk *header)
{
    tarn__assert_mutex_held(&chunks->lock);

    memcpy(header->magic, "TCHK", sizeof header->magic);
    header->id = chunks->id;
    header->number = chunks->next_number++;
    header->crc = tarn__binary_crc(0, header, offsetof(struct tarn__binary_chunk, crc));
}

/* Store a header so that a process that is killed leaves a whole one, or none: the magic
 * goes first and comes last. */
static void store_header(struct tarn__binary_chunk *place,
                         const struct tarn__binary_chunk *header)
{
    memset(place->magic, 0, sizeof place->magic);
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(&place->kind, &header->kind,
           sizeof *header - offsetof(struct tarn__binary_chunk, kind));
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(place->magic, header->magic, sizeof place->magic);
}

/* --- places --- */

static void set_use(struct tarn__binary_chunks *chunks, uint32_t place,
                    enum tarn__binary_use use)
{
    chunks->used[chunks->places[place].use]--;
    chunks->places[place] = (struct tarn__binary_place){.use = use};
    chunks->used[use]++;
}

/* Add a free place, in memory alone. */
static bool add_place(struct tarn__binary_chunks *chunks)
{
    if (chunks->place_count == chunks->place_capacity) {
        uint32_t capacity = chunks->place_capacity ? 2 * chunks->place_capacity : 64;
        void *more = realloc(chunks->places, capacity * sizeof *chunks->places);
        if (!more) {
            errno = ENOMEM;
            return false;
        }
        chunks->places = more;
        chunks->place_capacity = capacity;
    }
    chunks->places[chunks->place_count] =
        (struct tarn__binary_place){.use = TARN__BINARY_USE_FREE};
    chunks->used[TARN__BINARY_USE_FREE]++;
    return true;
}

/* Add `count` places at the end of the file; `*out` is the first. */
static bool grow(struct tarn__binary_chunks *chunks, uint32_t count, uint32_t *out)
{
    uint32_t first = chunks->place_count;

    if (first + count < first) {
        errno = EFBIG;
        return false;
    }
    if (!tarn__binary_file_reserve(&chunks->file,
                                   tarn__binary_chunks_offset(chunks, first + count)) ||
        (chunks->ring_chunks && !add_place(chunks)))
        return false;
    chunks->place_count += count;
    *out = first;
    return true;
}

/* Find a free place; there is one. */
static uint32_t find_free(struct tarn__binary_chunks *chunks)
{
    uint32_t place = chunks->next_free;

    while (place >= chunks->place_count ||
           chunks->places[place].use != TARN__BINARY_USE_FREE)
        place = place + 1 < chunks->place_count ? place + 1 : 0;
    chunks->next_free = place + 1;
    return place;
}

/* Return how many more chunks a ring may have. Checkpoints come on top: else each would
 * add the place of the one before. */
static uint32_t left_of(const struct tarn__binary_chunks *chunks)
{
    uint32_t used = chunks->used[TARN__BINARY_USE_ROWS] +
                    chunks->used[TARN__BINARY_USE_EVENTS] +
                    chunks->used[TARN__BINARY_USE_DEFINITIONS];

    return used < chunks->ring_chunks ? chunks->ring_chunks - used : 0;
}

bool tarn__binary_chunks_has_free(const struct tarn__binary_chunks *chunks,
                                  uint32_t count)
{
    tarn__assert_mutex_held(&chunks->lock);

    return left_of(chunks) >= count;
}

/* Find a place in a ring. */
static enum tarn__binary_take find_place(struct tarn__binary_chunks *chunks,
                                         enum tarn__binary_use use, bool must_grow,
                                         uint32_t *out)
{
    if (use == TARN__BINARY_USE_DEFINITIONS &&
        chunks->used[use] >= chunks->ring_chunks / 2)
        return TARN__BINARY_FULL;
    if (!must_grow && left_of(chunks) == 0)
        return TARN__BINARY_FULL;
    if (chunks->used[TARN__BINARY_USE_FREE] > 0)
        *out = find_free(chunks);
    else if (!grow(chunks, 1, out))
        return TARN__BINARY_FAILED;
    set_use(chunks, *out, use);
    return TARN__BINARY_TAKEN;
}

bool tarn__binary_chunks_take_live(struct tarn__binary_chunks *chunks, uint32_t *out)
{
    tarn__assert_mutex_held(&chunks->lock);

    return find_place(chunks, TARN__BINARY_USE_LIVE, true, out) == TARN__BINARY_TAKEN;
}

bool tarn__binary_chunks_free(struct tarn__binary_chunks *chunks, uint32_t place)
{
    static const struct tarn__binary_chunk none;

    tarn__assert_mutex_held(&chunks->lock);

    set_use(chunks, place, TARN__BINARY_USE_FREE);
    return tarn__binary_file_write(
        &chunks->file, tarn__binary_chunks_offset(chunks, place), &none, sizeof none);
}

/* --- parts --- */

/* Return how many chunks the next window is to have. */
static size_t window_chunks(const struct tarn__binary_chunks *chunks, uint32_t count)
{
    size_t all = (size_t)chunks->ring_chunks + WINDOW_MORE;

    if (!chunks->ring_chunks)
        return count < WINDOW_CHUNKS ? WINDOW_CHUNKS : count;
    if (chunks->window) /* the ring exceeds its window */
        return count;
    return all < WINDOW_MOST ? all : WINDOW_MOST;
}

/* Map the chunks of a part, which has its place. */
static bool map_part(struct tarn__binary_chunks *chunks, uint32_t count,
                     struct tarn__binary_part *part)
{
    uint64_t offset = tarn__binary_chunks_offset(chunks, part->place);
    struct tarn__binary_window *window = chunks->window;

    if (!tarn__binary_window_has(window, offset, part->bytes)) {
        window = tarn__binary_window_open(
            &chunks->file, offset, window_chunks(chunks, count) * chunks->chunk_bytes);
        if (!window)
            return false;
    }
    part->window = window;
    part->memory = tarn__binary_window_use(window, offset);
    if (window == chunks->window)
        return true;
    if (chunks->ring_chunks && chunks->window) { /* it is of this part alone */
        tarn__binary_window_leave(window);
        return true;
    }
    struct tarn__binary_window *before = chunks->window;
    chunks->window = window;
    tarn__binary_window_leave(before);
    return true;
}

enum tarn__binary_take tarn__binary_chunks_take(struct tarn__binary_chunks *chunks,
                                                enum tarn__binary_use use,
                                                uint64_t thread, uint64_t time_ns,
                                                uint32_t count, bool must_grow,
                                                struct tarn__binary_part *out)
{
    tarn__assert_mutex_held(&chunks->lock);

    uint64_t start_ns = time_ns > SLACK_NS ? time_ns - SLACK_NS : 0;
    uint64_t floor_ns = atomic_load(&chunks->floor_ns);
    struct tarn__binary_part part = {.bytes = (size_t)count * chunks->chunk_bytes};
    enum tarn__binary_take taken = TARN__BINARY_TAKEN;

    if (chunks->ring_chunks)
        taken = find_place(chunks, use, must_grow, &part.place);
    else if (!grow(chunks, count, &part.place))
        taken = TARN__BINARY_FAILED;
    if (taken != TARN__BINARY_TAKEN)
        return taken;
    if (!map_part(chunks, count, &part))
        return TARN__BINARY_FAILED;
    if (chunks->start_ns < start_ns)
        chunks->start_ns = start_ns;
    if (chunks->start_ns < floor_ns)
        chunks->start_ns = floor_ns;
    part.header = (struct tarn__binary_chunk){
        .kind = use == TARN__BINARY_USE_ROWS ? TARN__BINARY_ROWS : TARN__BINARY_RECORDS,
        .start_ns = chunks->start_ns,
        .thread = thread,
        .chunks = count};
    tarn__binary_chunks_number(chunks, &part.header);
    if (chunks->ring_chunks)
        chunks->places[part.place] =
            (struct tarn__binary_place){.use = use,
                                        .is_open = true,
                                        .number = part.header.number,
                                        .start_ns = part.header.start_ns};
    *out = part;
    return TARN__BINARY_TAKEN;
}

bool tarn__binary_chunks_begin(const struct tarn__binary_chunks *chunks,
                               const struct tarn__binary_part *part)
{
    if (!tarn__binary_file_make(&chunks->file,
                                tarn__binary_chunks_offset(chunks, part->place),
                                part->memory, part->bytes))
        return false;
    store_header((void *)part->memory, &part->header);
    return true;
}

void tarn__binary_chunks_close(struct tarn__binary_chunks *chunks,
                               struct tarn__binary_part *part, uint64_t last_ns)
{
    tarn__assert_mutex_held(&chunks->lock);

    if (!part->memory)
        return;
    if (chunks->ring_chunks) {
        chunks->places[part->place].is_open = false;
        chunks->places[part->place].last_ns = last_ns;
    }
    struct tarn__binary_window *window = part->window;
    *part = (struct tarn__binary_part){0};
    tarn__binary_window_leave(window);
}

void tarn__binary_chunks_end(struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    struct tarn__binary_window *window = chunks->window;

    chunks->window = NULL;
    tarn__binary_window_leave(window);
}
