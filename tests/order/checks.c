/* checks.c -- is a block still as its owner filled it? Asked in the order of its stream. */
#include "order.h"
#include <string.h>

enum { NO_TIMING = 2, UNIT = 256, REPORT_WORDS = 64 };

void checks_begin(struct checks *checks, size_t capacity)
{
    memset(checks, 0, sizeof *checks);
    checks->capacity = capacity;
    checks->ring = device_pinned(capacity);
    checks->report = device_pinned(REPORT_WORDS * sizeof *checks->report);
    memset(checks->report, 0, REPORT_WORDS * sizeof *checks->report);
    for (unsigned i = 0; i < CHECKS_MAX; i++)
        CU(cuEventCreate(&checks->all[i].event, NO_TIMING));
}

static void check_report(const struct checks *checks)
{
    const volatile unsigned *report = checks->report;
    tarn_device_ptr address = report[4] | (tarn_device_ptr)report[5] << 32;

    if (report[0] == 0)
        return;
    live_blocks_print_history(address, sizeof *report);
    order_fail("%u wrong words; the first was %#x, its owner wrote %#x", report[0],
               report[2], report[1]);
}

/* Return the first word that is not `tag`; `count`: none. The awaited event orders the
 * copy. The thread sanitizer cannot know that in all cases, and this loop is most of the
 * work. */
__attribute__((no_sanitize("thread"))) static size_t first_other(const unsigned *words,
                                                                 size_t count,
                                                                 unsigned tag)
{
    size_t i = 0;

    while (i < count && words[i] == tag)
        i++;
    return i;
}

/* Wait for the oldest check, and compare. */
static void finish_one(struct checks *checks)
{
    struct check *check = &checks->all[checks->first];
    size_t words = check->block.bytes / sizeof *check->copy;

    device_event_wait(check->event);
    size_t other = first_other(check->copy, words, check->block.tag);
    if (other < words)
        live_blocks_print_history(check->block.address, check->block.bytes);
    if (other < words)
        order_fail("block 0x%llx of %zu bytes: word %zu is %#x, its owner wrote %#x",
                   check->block.address, check->block.bytes, other, check->copy[other],
                   check->block.tag);
    checks->used -= check->bytes;
    checks->first = (checks->first + 1) % CHECKS_MAX;
    checks->count--;
}

/* Reserve `bytes` of the ring in one piece, behind those in use. */
static unsigned char *ring_reserve(struct checks *checks, size_t bytes, size_t *taken_out)
{
    size_t skipped = 0;

    if (checks->count == 0)
        checks->head = checks->used = 0;
    if (checks->head + bytes > checks->capacity)
        skipped = checks->capacity - checks->head;
    while (checks->count > 0 && checks->used + skipped + bytes > checks->capacity)
        finish_one(checks);
    if (checks->count == 0)
        checks->head = checks->used = skipped = 0;
    size_t at = (checks->head + skipped) % checks->capacity;
    checks->head = at + bytes;
    *taken_out = skipped + bytes;
    checks->used += *taken_out;
    return checks->ring + at;
}

void checks_queue(struct checks *checks, const struct block *block, void *stream)
{
    size_t padded_bytes = (block->bytes + UNIT - 1) / UNIT * UNIT;

    if (device_verify(block->address, block->bytes, block->tag, stream, checks->report)) {
        check_report(checks);
        return;
    }
    if (checks->count == CHECKS_MAX)
        finish_one(checks);
    size_t taken;
    unsigned char *copy =
        ring_reserve(checks, padded_bytes, &taken); /* may complete others */
    struct check *check = &checks->all[(checks->first + checks->count) % CHECKS_MAX];
    check->copy = (unsigned *)(void *)copy;
    check->bytes = taken;
    check->block = *block;
    CU(cuMemcpyDtoHAsync_v2(check->copy, block->address, block->bytes, stream));
    CU(cuEventRecord(check->event, stream));
    checks->count++;
}

void checks_finish(struct checks *checks)
{
    while (checks->count > 0)
        finish_one(checks);
    check_report(checks);
}

void checks_end(struct checks *checks)
{
    for (unsigned i = 0; i < CHECKS_MAX; i++)
        CU(cuEventDestroy_v2(checks->all[i].event));
    device_pinned_free(checks->ring);
    device_pinned_free(checks->report);
}
