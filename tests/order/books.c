/* books.c -- who has which addresses: a block that two have at once is told at the moment
 * at which it is handed out, whatever the bytes say. */
#include "order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    tarn_device_ptr address;
    size_t bytes;
};

/* What happened last, for the words of a failure. */
struct happening {
    tarn_device_ptr address;
    size_t bytes;
    unsigned long number;
    tarn_stream stream;
    unsigned long thread;
    bool is_free;
};

enum { HAPPENINGS = 1 << 14, TOLD = 24 };
static struct happening happenings[HAPPENINGS];
static unsigned long happened;

/* By address. */
static struct {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t count, capacity;
} books = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first entry at or above an address. */
static size_t place_of(tarn_device_ptr address)
{
    size_t low = 0, high = books.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (books.entries[middle].address < address)
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

static void make_room(void)
{
    if (books.count < books.capacity)
        return;
    books.capacity = books.capacity ? books.capacity * 2 : 1024;
    books.entries = realloc(books.entries, books.capacity * sizeof *books.entries);
    if (!books.entries)
        order_fail("no host memory for the books");
}

/* Under the lock. */
static void note(tarn_device_ptr address, size_t bytes, tarn_stream stream, bool is_free)
{
    struct happening *happening = &happenings[happened % HAPPENINGS];

    *happening = (struct happening){
        address, bytes, happened++, stream, (unsigned long)pthread_self(), is_free};
}

void books_tell(tarn_device_ptr address, size_t bytes)
{
    unsigned told = 0;

    for (unsigned long i = happened;
         i-- > 0 && happened - i < HAPPENINGS && told < TOLD;) {
        const struct happening *it = &happenings[i % HAPPENINGS];
        if (it->address + it->bytes <= address || address + bytes <= it->address)
            continue;
        fprintf(stderr,
                "  %lu before: 0x%llx of %zu bytes %s on stream %p by thread %lx\n",
                happened - it->number, it->address, it->bytes,
                it->is_free ? "freed" : "handed out", (void *)it->stream, it->thread);
        told++;
    }
}

void books_enter(tarn_device_ptr address, size_t bytes, tarn_stream stream)
{
    struct entry entry = {address, bytes};

    pthread_mutex_lock(&books.lock);
    size_t at = place_of(address);
    if (at > 0)
        check_apart(&books.entries[at - 1], &entry);
    if (at < books.count)
        check_apart(&entry, &books.entries[at]);
    make_room();
    memmove(&books.entries[at + 1], &books.entries[at],
            (books.count - at) * sizeof entry);
    books.entries[at] = entry;
    books.count++;
    note(address, bytes, stream, false);
    pthread_mutex_unlock(&books.lock);
}

void books_leave(tarn_device_ptr address, tarn_stream stream)
{
    pthread_mutex_lock(&books.lock);
    size_t at = place_of(address);
    if (at == books.count || books.entries[at].address != address)
        order_fail("0x%llx is freed and nobody has it", address);
    note(address, books.entries[at].bytes, stream, true);
    books.count--;
    memmove(&books.entries[at], &books.entries[at + 1],
            (books.count - at) * sizeof *books.entries);
    pthread_mutex_unlock(&books.lock);
}
