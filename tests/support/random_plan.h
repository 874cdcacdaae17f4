/* random_plan.h -- plans that are valid and fit to no program, to be followed in tests.
 *
 * Each block of such a plan lives for one operation, so that its address can be anywhere:
 * live blocks of a program that follows it are in each other's way all the time. The
 * streams and threads are drawn, and half of the sizes are small. */
#ifndef TARN_TEST_RANDOM_PLAN_H
#define TARN_TEST_RANDOM_PLAN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/plan.h>

struct random_plan {
    uint64_t seed;
    uint32_t slots, streams, threads;
    uint32_t height, largest; /* quanta of 512 bytes */
    const uint32_t *sizes;    /* the sizes to draw from, in quanta; NULL: any */
    uint32_t size_count;
    uint32_t unit; /* quanta that each offset is a multiple of; 0: 1 */
};

struct random_plan_bytes {
    unsigned char *bytes;
    size_t count, at;
};

static inline uint32_t random_plan_below(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % (limit ? limit : 1));
}

static inline void random_plan_put(unsigned char *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * i);
}

static inline long random_plan_supply(void *data, char *buffer, size_t capacity)
{
    struct random_plan_bytes *source = data;
    size_t count = source->count - source->at;

    count = count < capacity ? count : capacity;
    memcpy(buffer, source->bytes + source->at, count);
    source->at += count;
    return (long)count;
}

static inline uint64_t random_plan_sum(uint64_t sum, const unsigned char *bytes,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* Write the slots. Returns the highest end and the largest size. */
static inline void random_plan_slots(const struct random_plan *wanted,
                                     unsigned char *bytes, uint32_t *height_out,
                                     uint32_t *largest_out)
{
    uint64_t state = wanted->seed * 0x9e3779b97f4a7c15u + 1;

    *height_out = *largest_out = 0;
    for (uint32_t i = 0; i < wanted->slots; i++, bytes += 28) {
        uint32_t scale = random_plan_below(&state, 2) ? 16 : wanted->largest;
        uint32_t quanta =
            wanted->sizes ? wanted->sizes[random_plan_below(&state, wanted->size_count)]
                          : 1 + random_plan_below(&state, scale);
        uint32_t unit = wanted->unit ? wanted->unit : 1;
        uint32_t offset = random_plan_below(&state, wanted->height) / unit * unit;
        uint32_t stream = random_plan_below(&state, wanted->streams);
        const uint32_t fields[] = {2 * i,
                                   2 * i + 1,
                                   quanta,
                                   offset,
                                   stream,
                                   random_plan_below(&state, wanted->streams),
                                   random_plan_below(&state, wanted->threads)};
        for (int field = 0; field < 7; field++)
            random_plan_put(bytes + 4 * field, fields[field], 4);
        *height_out = offset + quanta > *height_out ? offset + quanta : *height_out;
        *largest_out = quanta > *largest_out ? quanta : *largest_out;
    }
}

/* Make such a plan; NULL: it was rejected. */
static inline tarn_plan *random_plan(const struct random_plan *wanted)
{
    struct random_plan_bytes source = {calloc(1, 64 + (size_t)28 * wanted->slots),
                                       64 + (size_t)28 * wanted->slots, 0};
    uint32_t height, largest;
    tarn_plan *plan = NULL;

    if (!source.bytes)
        return NULL;
    random_plan_slots(wanted, source.bytes + 64, &height, &largest);
    for (int i = 0; i < 8; i++)
        source.bytes[i] = (uint8_t)"TARNPLAN"[i];
    random_plan_put(source.bytes + 8, 1, 4);
    random_plan_put(source.bytes + 12, 512, 4);
    random_plan_put(source.bytes + 16, wanted->slots, 8);
    random_plan_put(source.bytes + 24, (uint64_t)2 * wanted->slots, 4);
    random_plan_put(source.bytes + 28, wanted->streams, 4);
    random_plan_put(source.bytes + 32, wanted->threads, 4);
    random_plan_put(source.bytes + 44, height, 4);
    random_plan_put(source.bytes + 48, (uint64_t)largest * 512, 8);
    uint64_t sum = random_plan_sum(0xcbf29ce484222325u, source.bytes, 56);
    sum = random_plan_sum(sum, source.bytes + 64, source.count - 64);
    random_plan_put(source.bytes + 56, sum, 8);
    tarn_plan_read("random plan", random_plan_supply, &source, &plan);
    free(source.bytes);
    return plan;
}

#endif
