/* binary_log.h -- makes binary logs in memory, for tests: it shares no code with Tarn. */
#ifndef TARN_TEST_BINARY_LOG_H
#define TARN_TEST_BINARY_LOG_H

#include "text.h"

enum { LOG_ID = 0x5eed, LOG_CHUNK = 1024, LOG_HEADER = 4096 };
enum { ROWS = 1, RECORDS = 2, LIVE = 3 };
enum { ALLOCATE = 0, FREE = 1, FAILURE = 2, THREAD = 255 };
enum { STRING = 1, FRAME = 2, STACK = 3, POOL = 4, MARK = 5, LOST = 6 };

/* A chunk that is being made; `at` is the end of its contents. */
struct log_chunk {
    unsigned char bytes[8 * LOG_CHUNK];
    size_t at, size;
    uint64_t number;
};

static inline uint32_t log_crc(uint32_t crc, const void *data, size_t count)
{
    const unsigned char *bytes = data;

    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

/* Store a number of `bytes` bytes at its place. */
static inline void log_put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Append the header; `ring` is the chunks of a ring. */
static inline void log_begin(struct text *text, uint32_t ring, unsigned major)
{
    static const char pairs[] = "host\0box\0command\0python a.py\0gpu1\0GPU-7\0";
    unsigned char header[LOG_HEADER] = "TARNLOG";

    log_put(header + 8, major, 2);
    log_put(header + 12, ring != 0, 4);
    log_put(header + 16, LOG_CHUNK, 4);
    log_put(header + 20, ring, 4);
    log_put(header + 24, LOG_ID, 8);
    log_put(header + 32, 1000, 8);
    log_put(header + 40, 1700000000000000000, 8);
    log_put(header + 48, 4711, 4);
    log_put(header + 52, 17, 4);
    log_put(header + 56, 16, 4);
    log_put(header + 60, sizeof pairs - 1, 4);
    memcpy(header + 72, pairs, sizeof pairs - 1);
    log_put(header + 68, log_crc(log_crc(0, header, 68), pairs, sizeof pairs - 1), 4);
    CHECK(text_write(text, (const char *)header, sizeof header));
}

static inline struct log_chunk log_chunk(int kind, uint64_t number, uint64_t start_ns,
                                         uint64_t thread, uint32_t chunks)
{
    struct log_chunk chunk = {.at = 64, .size = LOG_CHUNK, .number = number};

    memcpy(chunk.bytes, "TCHK", 4);
    log_put(chunk.bytes + 4, (uint64_t)kind, 4);
    log_put(chunk.bytes + 8, LOG_ID, 8);
    log_put(chunk.bytes + 16, number, 8);
    log_put(chunk.bytes + 24, start_ns, 8);
    log_put(chunk.bytes + 32, thread, 8);
    log_put(chunk.bytes + 40, chunks, 4);
    log_put(chunk.bytes + 44, log_crc(0, chunk.bytes, 44), 4);
    if (kind == RECORDS)
        chunk.size = chunks * LOG_CHUNK;
    return chunk;
}

/* A row; its stack is 0 and its device 1 unless the test changes them. */
struct log_row {
    uint64_t time, address, bytes, stream;
    uint32_t stack, duration;
    int action;
};

static inline void log_add(struct log_chunk *chunk, struct log_row row)
{
    unsigned char *at = chunk->bytes + chunk->at;
    uint64_t index = (chunk->at - 64) / 48, device = 1;
    uint64_t seed = (LOG_ID ^ chunk->number * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;

    CHECK(chunk->at + 48 <= chunk->size);
    log_put(at, row.time, 8);
    log_put(at + 8, row.address, 8);
    log_put(at + 16, row.bytes, 8);
    log_put(at + 24, row.stream, 8);
    log_put(at + 32, row.stack, 4);
    log_put(at + 36, row.duration, 4);
    log_put(at + 40, (uint64_t)row.action, 1);
    log_put(at + 42, device, 2);
    uint64_t sum =
        (seed ^ seed >> 32) ^ row.time * 0x9e3779b97f4a7c15u ^
        row.address * 0xbf58476d1ce4e5b9u ^ row.bytes * 0x94d049bb133111ebu ^
        row.stream * 0xff51afd7ed558ccdu ^
        ((uint64_t)row.duration << 32 | row.stack) * 0xc4ceb9fe1a85ec53u ^
        (index << 32 | device << 16 | (uint64_t)row.action) * 0x2545f4914f6cdd1du;
    uint32_t check = (uint32_t)(sum ^ sum >> 32);
    log_put(at + 44, check ? check : 1, 4);
    chunk->at += 48;
}

static inline void log_record(struct log_chunk *chunk, int kind, const void *payload,
                              size_t count)
{
    unsigned char *at = chunk->bytes + chunk->at;

    CHECK(chunk->at + 16 + count <= chunk->size);
    log_put(at, count, 4);
    log_put(at + 4, (uint64_t)kind, 4);
    memcpy(at + 16, payload, count);
    uint32_t crc = log_crc(0, chunk->bytes + 8, 16); /* id and number */
    crc = log_crc(log_crc(crc, at, 8), payload, count);
    log_put(at + 12, crc ? crc : 1, 4);
    chunk->at += 16 + (count + 7) / 8 * 8;
}

static inline void log_string(struct log_chunk *chunk, uint32_t number, const char *text)
{
    unsigned char payload[512] = {0};

    log_put(payload, number, 4);
    memcpy(payload + 8, text, strlen(text) + 1);
    log_record(chunk, STRING, payload, 8 + strlen(text));
}

static inline void log_frame(struct log_chunk *chunk, uint32_t number, uint32_t function,
                             uint32_t file, uint32_t line, uint32_t build_id)
{
    unsigned char payload[32] = {0};

    log_put(payload, number, 4);
    log_put(payload + 4, function, 4);
    log_put(payload + 8, file, 4);
    log_put(payload + 12, line, 4);
    log_put(payload + 16, build_id, 4);
    log_put(payload + 24, 0xabc, 8);
    log_record(chunk, FRAME, payload, sizeof payload);
}

/* A stack of the frames `frames`, which end with 0. */
static inline void log_stack(struct log_chunk *chunk, uint32_t number,
                             const uint32_t *frames)
{
    unsigned char payload[64] = {0};
    uint32_t count = 0;

    for (; frames[count]; count++)
        log_put(payload + 8 + 4 * count, frames[count], 4);
    log_put(payload, number, 4);
    log_put(payload + 4, count, 4);
    log_record(chunk, STACK, payload, 8 + 4 * count);
}

static inline void log_mark(struct log_chunk *chunk, uint64_t time, uint32_t string)
{
    unsigned char payload[16] = {0};

    log_put(payload, time, 8);
    log_put(payload + 8, string, 4);
    log_record(chunk, MARK, payload, sizeof payload);
}

static inline void log_lost(struct log_chunk *chunk, uint64_t time, uint64_t rows)
{
    unsigned char payload[16];

    log_put(payload, time, 8);
    log_put(payload + 8, rows, 8);
    log_record(chunk, LOST, payload, sizeof payload);
}

static inline void log_append(struct text *text, const struct log_chunk *chunk)
{
    CHECK(text_write(text, (const char *)chunk->bytes, chunk->size));
}

#endif
