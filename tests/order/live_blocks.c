/* live_blocks.c -- the live blocks by address: a block that overlaps a live one fails the test
 * when the pool returns it, even if no byte is overwritten. */
#include "order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    tarn_device_ptr address;
    size_t bytes;
};

enum event_kind { HANDED_OUT, FREED, FILLED, FILLED_BY_A_GRAPH };

/* The last events, for the message of a failure. */
struct history_entry {
    tarn_device_ptr address;
    size_t bytes;
    unsigned long number;
    tarn_stream stream;
    unsigned long thread;
    enum event_kind kind;
    unsigned tag; /* of a fill */
};

enum { HISTORY_MAX = 1 << 14, PRINTED_MAX = 24 };
static struct history_entry history[HISTORY_MAX];
static unsigned long history_count;

/* By address. */
static struct {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t count, capacity;
} live_blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first entry at or above an address. */
static size_t find_entry(tarn_device_ptr address)
{
    size_t low = 0, high = live_blocks.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (live_blocks.entries[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void check_apart(const struct entry *below, const struct entry *above)
{
    if (below->address + below->bytes > above->address)
        order_fail("0x%llx of %zu bytes and 0x%llx of %zu are both handed out",
                   below->address, below->bytes, above->address, above->bytes);
}

static void reserve_entry(void)
{
    if (live_blocks.count < live_blocks.capacity)
        return;
    live_blocks.capacity = live_blocks.capacity ? live_blocks.capacity * 2 : 1024;
    live_blocks.entries =
        realloc(live_blocks.entries, live_blocks.capacity * sizeof *live_blocks.entries);
    if (!live_blocks.entries)
        order_fail("no host memory for the books");
}

/* The caller holds the lock. */
static void add_to_history(tarn_device_ptr address, size_t bytes, tarn_stream stream,
                           enum event_kind kind, unsigned tag)
{
    struct history_entry *history_entry = &history[history_count % HISTORY_MAX];

    *history_entry = (struct history_entry){
        address, bytes, history_count++, stream, (unsigned long)pthread_self(),
        kind,    tag};
}

void live_blocks_print_history(tarn_device_ptr address, size_t bytes)
{
    static const char *const what[] = {"handed out", "freed", "filled with",
                                       "to be filled by a graph with"};
    unsigned printed = 0;

    for (unsigned long i = history_count;
         i-- > 0 && history_count - i < HISTORY_MAX && printed < PRINTED_MAX;) {
        const struct history_entry *it = &history[i % HISTORY_MAX];
        if (it->address + it->bytes <= address || address + bytes <= it->address)
            continue;
        fprintf(stderr,
                "  %lu before: 0x%llx of %zu bytes %s %#x on stream %p by thread %lx\n",
                history_count - it->number, it->address, it->bytes, what[it->kind],
                it->tag, (void *)it->stream, it->thread);
        printed++;
    }
}

void live_blocks_add(tarn_device_ptr address, size_t bytes, tarn_stream stream)
{
    struct entry entry = {address, bytes};

    pthread_mutex_lock(&live_blocks.lock);
    size_t at = find_entry(address);
    if (at > 0)
        check_apart(&live_blocks.entries[at - 1], &entry);
    if (at < live_blocks.count)
        check_apart(&entry, &live_blocks.entries[at]);
    reserve_entry();
    memmove(&live_blocks.entries[at + 1], &live_blocks.entries[at],
            (live_blocks.count - at) * sizeof entry);
    live_blocks.entries[at] = entry;
    live_blocks.count++;
    add_to_history(address, bytes, stream, HANDED_OUT, 0);
    pthread_mutex_unlock(&live_blocks.lock);
}

void live_blocks_remove(tarn_device_ptr address, tarn_stream stream)
{
    pthread_mutex_lock(&live_blocks.lock);
    size_t at = find_entry(address);
    if (at == live_blocks.count || live_blocks.entries[at].address != address)
        order_fail("0x%llx is freed and is not live", address);
    add_to_history(address, live_blocks.entries[at].bytes, stream, FREED, 0);
    live_blocks.count--;
    memmove(&live_blocks.entries[at], &live_blocks.entries[at + 1],
            (live_blocks.count - at) * sizeof *live_blocks.entries);
    pthread_mutex_unlock(&live_blocks.lock);
}

void live_blocks_note_fill(const struct block *block, tarn_stream stream, bool by_graph)
{
    pthread_mutex_lock(&live_blocks.lock);
    add_to_history(block->address, block->bytes, stream,
                   by_graph ? FILLED_BY_A_GRAPH : FILLED, block->tag);
    pthread_mutex_unlock(&live_blocks.lock);
}
