/* file.c -- writes and reads plans as files. */
#include "plan/file.h"
#include "plan/check.h"
#include "plan/layout.h"
#include "plan/make.h"
#include "plan/waits.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'T', 'A', 'R', 'N', 'P', 'L', 'A', 'N'};

enum { SLOTS_AT_ONCE = 1024, SLOTS_FIRST = 4096 };

/* --- numbers ----------------------------------------------------------------------------- */

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void put_slot(unsigned char *at, const struct tarn__plan_slot *slot)
{
    put(at, slot->start, 4);
    put(at + 4, slot->end, 4);
    put(at + 8, slot->quanta, 4);
    put(at + 12, slot->offset, 4);
    put(at + 16, slot->stream, 4);
    put(at + 20, slot->free_stream, 4);
    put(at + 24, slot->thread, 4);
}

/* A thread beyond the bound stays beyond that of any plan. */
static struct tarn__plan_slot get_slot(const unsigned char *at)
{
    uint32_t thread = (uint32_t)get(at + 24, 4);

    return (struct tarn__plan_slot){
        .start = (uint32_t)get(at, 4),
        .end = (uint32_t)get(at + 4, 4),
        .quanta = (uint32_t)get(at + 8, 4),
        .offset = (uint32_t)get(at + 12, 4),
        .stream = (uint32_t)get(at + 16, 4),
        .free_stream = (uint32_t)get(at + 20, 4),
        .thread = thread < TARN__PLAN_THREADS_MAX ? thread : TARN__PLAN_THREADS_MAX};
}

static void put_header(unsigned char *at, const tarn_plan *plan)
{
    memcpy(at, magic, sizeof magic);
    put(at + 8, TARN__FILE_VERSION, 4);
    put(at + 12, TARN__PLAN_QUANTUM, 4);
    put(at + 16, plan->count, 8);
    put(at + 24, plan->operations, 4);
    put(at + 28, plan->streams, 4);
    put(at + 32, plan->threads, 4);
    put(at + 36, plan->rules.lag, 4);
    put(at + 40, plan->rules.price, 4);
    put(at + 44, plan->height, 4);
    put(at + 48, plan->peak_live_bytes, 8);
}

/* --- writing ----------------------------------------------------------------------------- */

struct output {
    const char *name;
    tarn_plan_write_fn write;
    void *data;
};

static tarn_status write_bytes(const struct output *output, const unsigned char *bytes,
                               size_t count)
{
    errno = 0;
    if (output->write(output->data, (const char *)bytes, count))
        return TARN_OK;
    int error = errno;
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, error, "%.200s: cannot write: %s",
                                 output->name,
                                 error ? strerror(error) : "no reason given");
}

/* Put the slots from `first` on into a buffer; returns its bytes. */
static size_t put_slots(unsigned char *buffer, const tarn_plan *plan, size_t first)
{
    size_t count =
        plan->count - first < SLOTS_AT_ONCE ? plan->count - first : SLOTS_AT_ONCE;

    for (size_t i = 0; i < count; i++)
        put_slot(buffer + i * TARN__FILE_SLOT_BYTES, &plan->slots[first + i]);
    return count * TARN__FILE_SLOT_BYTES;
}

static tarn_status write_all(const struct output *output, const tarn_plan *plan,
                             unsigned char *buffer)
{
    unsigned char header[TARN__FILE_HEADER_BYTES];
    uint64_t sum;

    put_header(header, plan);
    sum = tarn__file_checksum(TARN__FILE_CHECKSUM_START, header, TARN__FILE_CHECKSUM_AT);
    for (size_t i = 0; i < plan->count; i += SLOTS_AT_ONCE)
        sum = tarn__file_checksum(sum, buffer, put_slots(buffer, plan, i));
    put(header + TARN__FILE_CHECKSUM_AT, sum, 8);
    tarn_status status = write_bytes(output, header, sizeof header);
    for (size_t i = 0; i < plan->count && status == TARN_OK; i += SLOTS_AT_ONCE)
        status = write_bytes(output, buffer, put_slots(buffer, plan, i));
    return status;
}

tarn_status tarn_plan_write(const tarn_plan *plan, const char *name,
                            tarn_plan_write_fn write, void *data)
{
    struct output output = {name, write, data};

    if (!plan || !name || !write)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: write: plan, name or write is NULL");
    unsigned char *buffer = malloc((size_t)SLOTS_AT_ONCE * TARN__FILE_SLOT_BYTES);
    if (!buffer)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "%.200s: no host memory to write",
                              name);
    tarn_status status = write_all(&output, plan, buffer);
    free(buffer);
    return status;
}

/* --- reading ----------------------------------------------------------------------------- */

struct input {
    const char *name;
    tarn_plan_read_fn read;
    void *data;
};

/* Read `count` bytes, or as many as there are: `*got`. */
static tarn_status read_bytes(const struct input *input, unsigned char *out, size_t count,
                              size_t *got)
{
    *got = 0;
    while (*got < count) {
        errno = 0;
        long taken = input->read(input->data, (char *)out + *got, count - *got);
        int error = errno;
        if (taken == 0)
            break;
        if (taken < 0 || (size_t)taken > count - *got)
            return tarn_error_set_native(TARN_SYSTEM_FAILURE, error,
                                         "%.200s: cannot read: %s", input->name,
                                         error ? strerror(error) : "no reason given");
        *got += (size_t)taken;
    }
    return TARN_OK;
}

static tarn_status read_header(const struct input *input, unsigned char *header)
{
    size_t got;
    tarn_status status = read_bytes(input, header, TARN__FILE_HEADER_BYTES, &got);

    if (status != TARN_OK)
        return status;
    if (got < sizeof magic || memcmp(header, magic, sizeof magic) != 0)
        return tarn_error_set(TARN_BAD_FORMAT, "%.200s: not a plan of Tarn", input->name);
    if (got < TARN__FILE_HEADER_BYTES)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: the plan ends after %zu bytes of its header of %d",
                              input->name, got, TARN__FILE_HEADER_BYTES);
    if (get(header + 8, 4) != TARN__FILE_VERSION)
        return tarn_error_set(
            TARN_NOT_SUPPORTED, "%.200s: a plan of version %u, this library reads %d",
            input->name, (unsigned)get(header + 8, 4), TARN__FILE_VERSION);
    if (get(header + 12, 4) != TARN__PLAN_QUANTUM)
        return tarn_error_set(
            TARN_NOT_SUPPORTED,
            "%.200s: a plan with quanta of %u bytes, this library has %d", input->name,
            (unsigned)get(header + 12, 4), TARN__PLAN_QUANTUM);
    if (get(header + 16, 8) > TARN__PLAN_SLOTS_MAX)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: a plan of %" PRIu64
                              " blocks, the maximum is %" PRIu64,
                              input->name, get(header + 16, 8), TARN__PLAN_SLOTS_MAX);
    return TARN_OK;
}

/* Make space for more slots: twice as many, and no more than the header claims. */
static tarn_status reserve(const struct input *input, tarn_plan *plan, size_t *capacity,
                           uint64_t claimed)
{
    uint64_t wanted = *capacity ? 2 * (uint64_t)*capacity : SLOTS_FIRST;
    void *grown;

    if (plan->count + SLOTS_AT_ONCE <= *capacity)
        return TARN_OK;
    wanted = wanted < claimed ? wanted : claimed + SLOTS_AT_ONCE;
    grown = realloc(plan->slots, (size_t)wanted * sizeof *plan->slots);
    if (!grown)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%.200s: no host memory for %" PRIu64 " blocks",
                              input->name, wanted);
    plan->slots = grown;
    *capacity = (size_t)wanted;
    return TARN_OK;
}

static tarn_status read_slots(const struct input *input, tarn_plan *plan,
                              uint64_t claimed, uint64_t *sum)
{
    unsigned char buffer[SLOTS_AT_ONCE * TARN__FILE_SLOT_BYTES];
    size_t capacity = 0;

    while (plan->count < claimed) {
        uint64_t left = claimed - plan->count;
        size_t count = left < SLOTS_AT_ONCE ? (size_t)left : SLOTS_AT_ONCE, got;
        tarn_status status = reserve(input, plan, &capacity, claimed);
        if (status == TARN_OK)
            status = read_bytes(input, buffer, count * TARN__FILE_SLOT_BYTES, &got);
        if (status != TARN_OK)
            return status;
        *sum = tarn__file_checksum(*sum, buffer, got);
        for (size_t i = 0; i < got / TARN__FILE_SLOT_BYTES; i++)
            plan->slots[plan->count++] = get_slot(buffer + i * TARN__FILE_SLOT_BYTES);
        if (got < count * TARN__FILE_SLOT_BYTES)
            return tarn_error_set(TARN_BAD_FORMAT,
                                  "%.200s: the plan ends after %zu of %" PRIu64 " blocks",
                                  input->name, plan->count, claimed);
    }
    return TARN_OK;
}

/* The file has to end here, and its checksum to be right. */
static tarn_status check_end(const struct input *input, uint64_t sum, uint64_t wanted)
{
    unsigned char byte;
    size_t got;
    tarn_status status = read_bytes(input, &byte, 1, &got);

    if (status == TARN_OK && got > 0)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: more bytes follow the last block of the plan",
                              input->name);
    if (status == TARN_OK && sum != wanted)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: the plan is damaged: its checksum is %016" PRIx64
                              ", not %016" PRIx64,
                              input->name, sum, wanted);
    return status;
}

/* The height and the peak have to be those of the slots. */
static tarn_status check_figures(const struct input *input, const tarn_plan *plan)
{
    uint64_t bound;
    uint32_t height = 0;

    if (!tarn__layout_bound(plan, &bound))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "%.200s: no host memory to check",
                              input->name);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].offset + plan->slots[i].quanta > height)
            height = plan->slots[i].offset + plan->slots[i].quanta;
    if (plan->height != height || plan->peak_live_bytes > bound * TARN__PLAN_QUANTUM ||
        plan->rules.lag > TARN__PLAN_LAG_MAX)
        return tarn_error_set(
            TARN_BAD_FORMAT,
            "%.200s: a height of %u quanta where the blocks have %u, a peak of %" PRIu64
            " bytes where they have %" PRIu64 ", or a lag of %u",
            input->name, plan->height, height, plan->peak_live_bytes,
            bound * TARN__PLAN_QUANTUM, plan->rules.lag);
    return TARN_OK;
}

static tarn_status read_plan(const struct input *input, tarn_plan *plan)
{
    unsigned char header[TARN__FILE_HEADER_BYTES];
    tarn_status status = read_header(input, header);

    if (status != TARN_OK)
        return status;
    plan->operations = (uint32_t)get(header + 24, 4);
    plan->streams = (uint32_t)get(header + 28, 4);
    plan->threads = (uint32_t)get(header + 32, 4);
    plan->rules.lag = (uint32_t)get(header + 36, 4);
    plan->rules.price = (uint32_t)get(header + 40, 4);
    plan->height = (uint32_t)get(header + 44, 4);
    plan->peak_live_bytes = get(header + 48, 8);
    uint64_t sum =
        tarn__file_checksum(TARN__FILE_CHECKSUM_START, header, TARN__FILE_CHECKSUM_AT);
    status = read_slots(input, plan, get(header + 16, 8), &sum);
    if (status == TARN_OK)
        status = check_end(input, sum, get(header + TARN__FILE_CHECKSUM_AT, 8));
    if (status == TARN_OK)
        status = tarn__check_plan(input->name, plan);
    if (status == TARN_OK)
        status = check_figures(input, plan);
    return status == TARN_OK ? tarn__waits_count(plan) : status;
}

tarn_status tarn_plan_read(const char *name, tarn_plan_read_fn read, void *data,
                           tarn_plan **out)
{
    struct input input = {name, read, data};
    tarn_plan *plan;

    if (!name || !read || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: read: name, read or out is NULL");
    tarn_status status = tarn__make_empty(0, &plan);
    if (status != TARN_OK)
        return status;
    status = read_plan(&input, plan);
    if (status == TARN_OK)
        *out = plan;
    else
        tarn_plan_release(plan);
    return status;
}
