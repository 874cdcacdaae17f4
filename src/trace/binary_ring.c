/* binary_ring.c -- the blocks that are live where the rows of a ring begin.
 *
 * Before the chunks of a ring are used again, their rows are folded into the set of live
 * blocks. A turn takes some of the oldest chunks, the last of whose rows is just before a
 * time T. It folds all rows before T, those of other chunks too. Then the set is what
 * lives at T. It is written as a checkpoint, and the chunks become free.
 *
 * Only the order of the rows of one address matters, and a row has its time. So chunks are
 * folded one after another, and the later row of an address counts. The address of a free
 * is kept until the end of the turn: a chunk that is folded later may have the allocation
 * of that block.
 *
 * No row may get a time before T after the turn has looked at its chunk. First T becomes
 * the floor. Then a barrier on all threads separates it from the reads of the chunks. A
 * thread stores a row and then reads the floor. So either this turn sees the row, or the
 * thread sees the floor, and corrects the row under the lock of the ring.
 *
 * The turn takes the lock of the chunks for moments alone. Threads go on to log meanwhile,
 * and wait for the end of the turn only when no chunk is left.
 */
#include "trace/binary_ring.h"
#include "base/mutex_assert.h"
#include "base/process_barrier.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/resource.h>

enum { CHUNKS_MOST = 64 }; /* of a turn: it is short */

/* A chunk to fold. */
struct task {
    uint32_t place, folded;
    uint64_t number;
};

struct tasks {
    uint64_t before_ns; /* rows with an earlier time are folded */
    struct task *items;
    size_t count;
};

void tarn__binary_ring_init(struct tarn__binary_ring *ring)
{
    *ring = (struct tarn__binary_ring){0};
    pthread_mutex_init(&ring->lock, NULL);
    tarn__map_init(&ring->live, sizeof(struct tarn__binary_row));
    tarn__process_barrier_open();
}

void tarn__binary_ring_free(struct tarn__binary_ring *ring)
{
    tarn__map_free(&ring->live);
    free(ring->freed);
    free(ring->places);
    pthread_mutex_destroy(&ring->lock);
}

/* --- rows --- */

static bool out_of_memory(void)
{
    errno = ENOMEM;
    return false;
}

/* Keep the address of a block that was freed. `lock` held. */
static bool keep_freed(struct tarn__binary_ring *ring, uint64_t address)
{
    tarn__assert_mutex_held(&ring->lock);

    if (ring->freed_count == ring->freed_capacity) {
        size_t capacity = ring->freed_capacity ? 2 * ring->freed_capacity : 4096;
        void *more = realloc(ring->freed, capacity * sizeof *ring->freed);
        if (!more)
            return out_of_memory();
        ring->freed = more;
        ring->freed_capacity = capacity;
    }
    ring->freed[ring->freed_count++] = address;
    return true;
}

/* Fold a row. Returns false without host memory. `lock` held. */
static bool fold_row(struct tarn__binary_ring *ring, const struct tarn__binary_row *row)
{
    tarn__assert_mutex_held(&ring->lock);

    if (row->address == 0 ||
        (row->action != TARN_ACTION_ALLOCATE && row->action != TARN_ACTION_FREE))
        return true;
    struct tarn__binary_row *known = tarn__map_get(&ring->live, row->address);
    if (known && known->time_ns > row->time_ns)
        return true;
    if (row->action == TARN_ACTION_FREE && !keep_freed(ring, row->address))
        return false;
    if (known)
        *known = *row;
    return known || tarn__map_put(&ring->live, row->address, row) || out_of_memory();
}

/* Remove the blocks that were freed. `lock` held. */
static void remove_freed(struct tarn__binary_ring *ring)
{
    tarn__assert_mutex_held(&ring->lock);

    for (size_t i = 0; i < ring->freed_count; i++) {
        const struct tarn__binary_row *row = tarn__map_get(&ring->live, ring->freed[i]);
        if (row && row->action == TARN_ACTION_FREE)
            tarn__map_take(&ring->live, ring->freed[i], NULL);
    }
    ring->freed_count = 0;
}

bool tarn__binary_ring_takes(const struct tarn__binary_ring *ring,
                             const struct tarn__binary_row *row)
{
    tarn__assert_mutex_held(&ring->lock);

    const struct tarn__binary_row *known =
        row->address ? tarn__map_get(&ring->live, row->address) : NULL;

    return row->action != TARN_ACTION_FREE || (known && known->time_ns <= row->time_ns);
}

/* --- a turn --- */

/* Return true if nobody writes any more into a chunk that a turn frees. */
static bool can_end(const struct tarn__binary_place *place)
{
    return !place->is_open &&
           (place->use == TARN__BINARY_USE_ROWS || place->use == TARN__BINARY_USE_EVENTS);
}

/* Free the chunks of which the turns before have folded all rows: someone wrote into them
 * then. `lock` of the ring, and that of the chunks, held. */
static bool free_folded(struct tarn__binary_ring *ring,
                        struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&ring->lock);
    tarn__assert_mutex_held(&chunks->lock);

    uint64_t floor_ns = atomic_load(&chunks->floor_ns);
    bool freed = true;

    for (uint32_t i = 0; i < chunks->place_count && freed; i++)
        if (can_end(&chunks->places[i]) && chunks->places[i].last_ns < floor_ns)
            freed = tarn__binary_chunks_free(chunks, i);
    return freed;
}

/* Choose the time of the turn: that behind the last row of the oldest chunks, a quarter of
 * the ring. 0: no chunk can end. `lock` of the chunks held. */
static uint64_t choose_time(const struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    uint64_t last[CHUNKS_MOST]; /* the earliest last times, in order */
    size_t count = 0, most = chunks->ring_chunks / 4;

    if (most > CHUNKS_MOST)
        most = CHUNKS_MOST;
    for (uint32_t i = 0; i < chunks->place_count; i++) {
        if (!can_end(&chunks->places[i]))
            continue;
        size_t at = count < most ? count++ : most;
        uint64_t time_ns = chunks->places[i].last_ns;
        if (at == most && last[most - 1] <= time_ns)
            continue;
        at = at == most ? most - 1 : at;
        for (; at > 0 && last[at - 1] > time_ns; at--)
            last[at] = last[at - 1];
        last[at] = time_ns;
    }
    return count ? last[count - 1] + 1 : 0;
}

/* List the chunks with rows before the time of the turn. `lock` of the chunks held. */
static bool list_tasks(const struct tarn__binary_chunks *chunks, struct tasks *out)
{
    tarn__assert_mutex_held(&chunks->lock);

    out->items = malloc((chunks->place_count + (size_t)1) * sizeof *out->items);
    if (!out->items)
        return out_of_memory();
    for (uint32_t i = 0; i < chunks->place_count; i++) {
        const struct tarn__binary_place *place = &chunks->places[i];
        if (place->use == TARN__BINARY_USE_ROWS && place->start_ns < out->before_ns)
            out->items[out->count++] = (struct task){
                .place = i, .folded = place->folded, .number = place->number};
    }
    return true;
}

/* Begin a turn: choose its time, which becomes the floor, and its chunks. `*out` has no
 * chunk if there is nothing to do. `lock` held. */
static bool begin_turn(struct tarn__binary_ring *ring, struct tarn__binary_chunks *chunks,
                       uint32_t enough, struct tasks *out)
{
    tarn__assert_mutex_held(&ring->lock);

    bool done = true;

    *out = (struct tasks){0};
    pthread_mutex_lock(&chunks->lock);
    if (atomic_load(&chunks->floor_ns) != UINT64_MAX)
        done = free_folded(ring, chunks);
    if (done && !tarn__binary_chunks_has_free(chunks, enough))
        out->before_ns = choose_time(chunks);
    if (out->before_ns > atomic_load(&chunks->floor_ns))
        atomic_store(&chunks->floor_ns, out->before_ns);
    else
        out->before_ns = 0;
    if (out->before_ns)
        done = list_tasks(chunks, out);
    pthread_mutex_unlock(&chunks->lock);
    if (out->before_ns)
        tarn__process_barrier();
    return done;
}

/* Fold the rows of a chunk before a time. `bytes` has space for the chunk. `lock` held. */
static bool fold_chunk(struct tarn__binary_ring *ring,
                       const struct tarn__binary_chunks *chunks, uint64_t before_ns,
                       struct task *task, char *bytes)
{
    tarn__assert_mutex_held(&ring->lock);

    uint64_t seed = tarn__binary_seed(chunks->id, task->number);
    uint32_t count = tarn__binary_chunks_rows(chunks);
    struct tarn__binary_row row;

    if (!tarn__binary_file_read(&chunks->file,
                                tarn__binary_chunks_offset(chunks, task->place), bytes,
                                chunks->chunk_bytes))
        return false;
    for (; task->folded < count; task->folded++) {
        memcpy(&row,
               bytes + sizeof(struct tarn__binary_chunk) + task->folded * sizeof row,
               sizeof row);
        if (row.check != tarn__binary_check(seed, task->folded, &row) ||
            row.time_ns >= before_ns)
            break;
        if (!fold_row(ring, &row))
            return false;
    }
    return true;
}

/* Fold the rows of all chunks of a turn. `lock` held. */
static bool fold_all(struct tarn__binary_ring *ring, struct tarn__binary_chunks *chunks,
                     struct tasks *tasks, char *bytes)
{
    tarn__assert_mutex_held(&ring->lock);

    for (size_t i = 0; i < tasks->count; i++)
        if (!fold_chunk(ring, chunks, tasks->before_ns, &tasks->items[i], bytes))
            return false;
    remove_freed(ring);
    pthread_mutex_lock(&chunks->lock);
    for (size_t i = 0; i < tasks->count; i++)
        chunks->places[tasks->items[i].place].folded = tasks->items[i].folded;
    pthread_mutex_unlock(&chunks->lock);
    return true;
}

/* --- the checkpoint --- */

/* Write one chunk of a checkpoint: its rows and then its header. `lock` held. */
static bool write_part(struct tarn__binary_ring *ring, struct tarn__binary_chunks *chunks,
                       struct tarn__binary_chunk *header, size_t *cursor, char *bytes,
                       uint32_t *place)
{
    tarn__assert_mutex_held(&ring->lock);

    struct tarn__binary_row *rows = (void *)(bytes + sizeof *header);
    uint32_t capacity = tarn__binary_chunks_rows(chunks);
    uint64_t address, offset;
    void *value;

    memset(bytes, 0, chunks->chunk_bytes);
    pthread_mutex_lock(&chunks->lock);
    bool taken = tarn__binary_chunks_take_live(chunks, place);
    if (taken)
        tarn__binary_chunks_number(chunks, header);
    pthread_mutex_unlock(&chunks->lock);
    if (!taken)
        return false;
    uint64_t seed = tarn__binary_seed(header->id, header->number);
    for (uint32_t i = 0; i < capacity; i++) {
        if (!tarn__map_next(&ring->live, cursor, &address, &value))
            break;
        memcpy(&rows[i], value, sizeof rows[i]);
        rows[i].check = tarn__binary_check(seed, i, &rows[i]);
    }
    offset = tarn__binary_chunks_offset(chunks, *place);
    return tarn__binary_file_write(&chunks->file, offset + sizeof *header, rows,
                                   chunks->chunk_bytes - sizeof *header) &&
           tarn__binary_file_write(&chunks->file, offset, header, sizeof *header);
}

/* Write the checkpoint of a time, in chunks that `places` gets. `lock` held. */
static bool write_checkpoint(struct tarn__binary_ring *ring,
                             struct tarn__binary_chunks *chunks, uint64_t time_ns,
                             char *bytes, uint32_t *places, uint32_t count)
{
    tarn__assert_mutex_held(&ring->lock);

    size_t cursor = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct tarn__binary_chunk header = {.kind = TARN__BINARY_LIVE,
                                            .start_ns = time_ns,
                                            .thread = ring->checkpoint + 1,
                                            .chunks = count};
        if (!write_part(ring, chunks, &header, &cursor, bytes, &places[i]))
            return false;
    }
    return true;
}

/* Free the chunks of the checkpoint before, and those of which all rows are folded. `lock`
 * held. */
static bool free_chunks(struct tarn__binary_ring *ring,
                        struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&ring->lock);

    bool freed = true;

    pthread_mutex_lock(&chunks->lock);
    for (uint32_t i = 0; i < ring->place_count && freed; i++)
        freed = tarn__binary_chunks_free(chunks, ring->places[i]);
    if (freed && atomic_load(&chunks->floor_ns) != UINT64_MAX)
        freed = free_folded(ring, chunks);
    pthread_mutex_unlock(&chunks->lock);
    return freed;
}

/* Write the set of live blocks, and free what it replaces. `lock` held. */
static bool end_turn(struct tarn__binary_ring *ring, struct tarn__binary_chunks *chunks,
                     uint64_t before_ns, char *bytes)
{
    tarn__assert_mutex_held(&ring->lock);

    uint32_t rows = tarn__binary_chunks_rows(chunks);
    uint32_t count = (uint32_t)(ring->live.count / rows + 1);
    uint32_t *places = malloc(count * sizeof *places);

    if (!places)
        return out_of_memory();
    if (!write_checkpoint(ring, chunks, before_ns, bytes, places, count) ||
        !free_chunks(ring, chunks)) {
        free(places);
        return false;
    }
    free(ring->places);
    ring->places = places;
    ring->place_count = count;
    ring->checkpoint++;
    return true;
}

bool tarn__binary_ring_fold(struct tarn__binary_ring *ring,
                            struct tarn__binary_chunks *chunks, uint32_t enough)
{
    struct tasks tasks;
    char *bytes = malloc(chunks->chunk_bytes);
    bool done;

    if (!bytes)
        return out_of_memory();
    pthread_mutex_lock(&ring->lock);
    done = begin_turn(ring, chunks, enough, &tasks);
    if (done && tasks.before_ns)
        done = fold_all(ring, chunks, &tasks, bytes) &&
               end_turn(ring, chunks, tasks.before_ns, bytes);
    pthread_mutex_unlock(&ring->lock);
    free(tasks.items);
    free(bytes);
    return done;
}
