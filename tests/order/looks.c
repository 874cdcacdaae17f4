/* looks.c -- is a block still as its owner filled it? Asked in the order of its stream. */
#include "order.h"
#include <string.h>

enum { NO_TIMING = 2, UNIT = 256, REPORT_WORDS = 64 };

void looks_begin(struct looks *looks, size_t capacity)
{
    memset(looks, 0, sizeof *looks);
    looks->capacity = capacity;
    looks->ring = device_pinned(capacity);
    looks->report = device_pinned(REPORT_WORDS * sizeof *looks->report);
    memset(looks->report, 0, REPORT_WORDS * sizeof *looks->report);
    for (unsigned i = 0; i < LOOKS; i++)
        CU(cuEventCreate(&looks->all[i].event, NO_TIMING));
}

static void check_report(const struct looks *looks)
{
    const volatile unsigned *report = looks->report;

    if (report[0] > 0)
        order_fail("%u wrong words; the first was %#x, its owner wrote %#x", report[0],
                   report[2], report[1]);
}

/* The first word that is not `tag`; `count`: none. The event that was waited for orders the
 * copy, which the thread sanitizer cannot know in all cases, and it is most of the work. */
__attribute__((no_sanitize("thread"))) static size_t first_other(const unsigned *words,
                                                                 size_t count,
                                                                 unsigned tag)
{
    size_t i = 0;

    while (i < count && words[i] == tag)
        i++;
    return i;
}

/* Wait for the oldest look, and compare. */
static void settle_one(struct looks *looks)
{
    struct look *look = &looks->all[looks->first];
    size_t words = look->block.bytes / sizeof *look->copy;

    device_event_wait(look->event);
    size_t other = first_other(look->copy, words, look->block.tag);
    if (other < words)
        books_tell(look->block.address, look->block.bytes);
    if (other < words)
        order_fail("block 0x%llx of %zu bytes: word %zu is %#x, its owner wrote %#x",
                   look->block.address, look->block.bytes, other, look->copy[other],
                   look->block.tag);
    looks->used -= look->bytes;
    looks->first = (looks->first + 1) % LOOKS;
    looks->count--;
}

/* `bytes` of the ring in one piece, behind those that are in use. */
static unsigned char *ring_room(struct looks *looks, size_t bytes, size_t *taken_out)
{
    size_t skipped = 0;

    if (looks->count == 0)
        looks->head = looks->used = 0;
    if (looks->head + bytes > looks->capacity)
        skipped = looks->capacity - looks->head;
    while (looks->count > 0 && looks->used + skipped + bytes > looks->capacity)
        settle_one(looks);
    if (looks->count == 0)
        looks->head = looks->used = skipped = 0;
    size_t at = (looks->head + skipped) % looks->capacity;
    looks->head = at + bytes;
    *taken_out = skipped + bytes;
    looks->used += *taken_out;
    return looks->ring + at;
}

void looks_queue(struct looks *looks, const struct block *block, void *stream)
{
    size_t room = (block->bytes + UNIT - 1) / UNIT * UNIT;

    if (device_verify(block->address, block->bytes, block->tag, stream, looks->report)) {
        check_report(looks);
        return;
    }
    if (looks->count == LOOKS)
        settle_one(looks);
    size_t taken;
    unsigned char *copy = ring_room(looks, room, &taken); /* may settle others */
    struct look *look = &looks->all[(looks->first + looks->count) % LOOKS];
    look->copy = (unsigned *)(void *)copy;
    look->bytes = taken;
    look->block = *block;
    CU(cuMemcpyDtoHAsync_v2(look->copy, block->address, block->bytes, stream));
    CU(cuEventRecord(look->event, stream));
    looks->count++;
}

void looks_settle(struct looks *looks)
{
    while (looks->count > 0)
        settle_one(looks);
    check_report(looks);
}

void looks_end(struct looks *looks)
{
    for (unsigned i = 0; i < LOOKS; i++)
        CU(cuEventDestroy_v2(looks->all[i].event));
    device_pinned_free(looks->ring);
    device_pinned_free(looks->report);
}
