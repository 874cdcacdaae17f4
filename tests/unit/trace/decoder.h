/* decoder.h -- a small decoder of binary logs for tests, written from the layout alone.
 *
 * It shares no code with libtarn. It checks what the layout promises: checksums, the order
 * of times, and that everything a row names is defined.
 */
#ifndef TARN_TEST_DECODER_H
#define TARN_TEST_DECODER_H

#include "test.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct decoded_row {
    uint64_t time_ns, address, bytes, stream;
    uint32_t stack, duration_ns;
    uint8_t action;
    int16_t device;
    uint64_t thread, chunk;
    uint32_t index;
};

struct decoded_record {
    uint32_t kind, bytes;
    const unsigned char *payload; /* in `file` */
};

struct decoded {
    unsigned char *file;
    size_t bytes;
    uint64_t id, chunk_bytes, ring_chunks, pid, parent_pid, start_ns, unix_ns, depth;
    const char *text;
    size_t text_bytes;

    struct decoded_row *rows; /* by time */
    size_t count, torn;       /* rows; and those that are not whole */
    struct decoded_row *live; /* of the newest checkpoint */
    size_t live_count;
    uint64_t checkpoint_ns; /* 0: there is none */
    size_t chunks;          /* of rows */
    struct decoded_record *records;
    size_t record_count;
    uint32_t *by_number; /* index of the record of a number, plus 1 */
};

enum { DECODER_NUMBERS = (1 << 20) + 2 };

static inline uint64_t decoder_number(const unsigned char *at, int bytes)
{
    uint64_t number = 0;

    for (int i = bytes; i > 0; i--)
        number = number << 8 | at[i - 1];
    return number;
}

static inline uint32_t decoder_crc(uint32_t crc, const unsigned char *at, size_t count)
{
    for (crc = ~crc; count > 0; count--) {
        crc ^= *at++;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

/* The check of a row from its 48 bytes, as six words. */
static inline uint32_t decoder_check(uint64_t id, uint64_t chunk, uint64_t index,
                                     const unsigned char *row)
{
    uint64_t seed = (id ^ chunk * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    uint64_t words[6];

    for (int i = 0; i < 6; i++)
        words[i] = decoder_number(row + 8 * i, 8);
    uint64_t sum = (seed ^ seed >> 32) ^ words[0] * 0x9e3779b97f4a7c15u ^
                   words[1] * 0xbf58476d1ce4e5b9u ^ words[2] * 0x94d049bb133111ebu ^
                   words[3] * 0xff51afd7ed558ccdu ^ words[4] * 0xc4ceb9fe1a85ec53u ^
                   (index << 32 | (words[5] & 0xffffffffu)) * 0x2545f4914f6cdd1du;
    uint32_t check = (uint32_t)(sum ^ sum >> 32);

    return check ? check : 1;
}

/* --- chunks --- */

static inline void decoder_rows(struct decoded *log, const unsigned char *chunk,
                                struct decoded_row **rows, size_t *count)
{
    uint64_t number = decoder_number(chunk + 16, 8), last = decoder_number(chunk + 24, 8);
    uint64_t thread = decoder_number(chunk + 32, 8);
    bool is_live = decoder_number(chunk + 4, 4) == 3, has_end = false;

    for (uint32_t i = 0; 64 + (i + 1) * 48 <= log->chunk_bytes; i++) {
        const unsigned char *at = chunk + 64 + (size_t)i * 48;
        struct decoded_row row = {.time_ns = decoder_number(at, 8),
                                  .address = decoder_number(at + 8, 8),
                                  .bytes = decoder_number(at + 16, 8),
                                  .stream = decoder_number(at + 24, 8),
                                  .stack = (uint32_t)decoder_number(at + 32, 4),
                                  .duration_ns = (uint32_t)decoder_number(at + 36, 4),
                                  .action = at[40],
                                  .device = (int16_t)decoder_number(at + 42, 2),
                                  .thread = thread,
                                  .chunk = number,
                                  .index = i};
        if (decoder_number(at + 44, 4) != decoder_check(log->id, number, i, at)) {
            has_end = true;
            continue;
        }
        if (has_end)
            log->torn++;
        if (!is_live) {
            CHECK(row.time_ns >= last);
            last = row.time_ns;
        }
        if (row.action == 255)
            thread = row.address;
        if (row.action == 255 || (!is_live && row.time_ns < log->checkpoint_ns))
            continue;
        if ((*count & (*count - 1)) == 0)
            *rows = realloc(*rows, (*count ? 2 * *count : 1) * sizeof row);
        (*rows)[(*count)++] = row;
    }
}

static inline void decoder_records(struct decoded *log, const unsigned char *chunk)
{
    const unsigned char *at = chunk + 64;
    const unsigned char *end = chunk + decoder_number(chunk + 40, 4) * log->chunk_bytes;

    while (at + 16 <= end) {
        struct decoded_record record = {.bytes = (uint32_t)decoder_number(at, 4),
                                        .kind = (uint32_t)decoder_number(at + 4, 4),
                                        .payload = at + 16};
        if (record.bytes > (size_t)(end - at - 16))
            return;
        uint32_t crc = decoder_crc(0, chunk + 8, 16); /* id and number */
        crc = decoder_crc(crc, at, 8);
        crc = decoder_crc(crc, record.payload, record.bytes);
        if (decoder_number(at + 12, 4) != (crc ? crc : 1))
            return;
        if ((log->record_count & (log->record_count - 1)) == 0)
            log->records =
                realloc(log->records,
                        (log->record_count ? 2 * log->record_count : 1) * sizeof record);
        log->records[log->record_count++] = record;
        if (record.kind <= 3) {
            uint64_t number = decoder_number(record.payload, 4);
            CHECK(number > 0 && number < DECODER_NUMBERS);
            CHECK_EQUAL(0, log->by_number[number]); /* once */
            log->by_number[number] = (uint32_t)log->record_count;
        }
        at = record.payload + ((record.bytes + 7) & ~7u);
    }
}

/* Find the newest checkpoint of which all chunks are there. */
static inline uint64_t decoder_checkpoint(struct decoded *log)
{
    uint64_t newest = 0;

    for (size_t i = 4096; i + log->chunk_bytes <= log->bytes; i += log->chunk_bytes) {
        const unsigned char *chunk = log->file + i;
        uint64_t serial = decoder_number(chunk + 32, 8), parts = 0;
        if (memcmp(chunk, "TCHK", 4) != 0 || decoder_number(chunk + 4, 4) != 3)
            continue;
        for (size_t k = 4096; k + log->chunk_bytes <= log->bytes; k += log->chunk_bytes)
            parts += memcmp(log->file + k, "TCHK", 4) == 0 &&
                     decoder_number(log->file + k + 4, 4) == 3 &&
                     decoder_number(log->file + k + 32, 8) == serial;
        if (parts == decoder_number(chunk + 40, 4) && serial > newest) {
            newest = serial;
            log->checkpoint_ns = decoder_number(chunk + 24, 8);
        }
    }
    return newest;
}

static inline int decoder_by_time(const void *one, const void *two)
{
    const struct decoded_row *a = one, *b = two;

    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->chunk != b->chunk)
        return a->chunk < b->chunk ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The definition of a number, or NULL. Strings, frames and stacks share the numbers. */
static inline const struct decoded_record *decoder_find(const struct decoded *log,
                                                        uint32_t kind, uint64_t number)
{
    size_t index = number < DECODER_NUMBERS ? log->by_number[number] : 0;

    return index && log->records[index - 1].kind == kind ? &log->records[index - 1]
                                                         : NULL;
}

/* Every stack is defined, with its frames and their strings. */
static inline void decoder_check_stack(const struct decoded *log, uint32_t stack)
{
    const struct decoded_record *found = decoder_find(log, 3, stack);

    CHECK(found != NULL);
    uint64_t count = decoder_number(found->payload + 4, 4);
    CHECK_EQUAL(8 + 4 * count, found->bytes);
    for (uint64_t i = 0; i < count; i++) {
        const struct decoded_record *frame =
            decoder_find(log, 2, decoder_number(found->payload + 8 + 4 * i, 4));
        CHECK(frame != NULL && frame->bytes == 32);
        for (int at = 4; at <= 16; at += at == 8 ? 8 : 4) { /* function, file, build-id */
            uint64_t string = decoder_number(frame->payload + at, 4);
            CHECK(string == 0 || decoder_find(log, 1, string) != NULL);
        }
    }
}

static inline void decoder_chunks(struct decoded *log)
{
    uint64_t newest = decoder_checkpoint(log), last_number = 0, last_start = 0;
    bool is_first = true;
    size_t step;

    for (size_t i = 4096; i + log->chunk_bytes <= log->bytes; i += step) {
        const unsigned char *chunk = log->file + i;
        uint64_t kind = decoder_number(chunk + 4, 4), number, start;
        step = log->chunk_bytes;
        if (memcmp(chunk, "TCHK", 4) != 0) {
            CHECK(memcmp(chunk, "\0\0\0\0", 4) == 0);
            continue;
        }
        CHECK_EQUAL(decoder_number(chunk + 44, 4), decoder_crc(0, chunk, 44));
        CHECK_EQUAL(log->id, decoder_number(chunk + 8, 8));
        number = decoder_number(chunk + 16, 8);
        start = decoder_number(chunk + 24, 8);
        if (!log->ring_chunks) {
            CHECK(is_first ? number == 0 : number > last_number);
            CHECK(start >= last_start);
        }
        is_first = false;
        last_number = number;
        last_start = start;
        if (kind == 1) {
            log->chunks++;
            decoder_rows(log, chunk, &log->rows, &log->count);
        } else if (kind == 2) {
            step *= decoder_number(chunk + 40, 4);
            CHECK(i + step <= log->bytes);
            decoder_records(log, chunk);
        } else if (decoder_number(chunk + 32, 8) == newest) {
            decoder_rows(log, chunk, &log->live, &log->live_count);
        }
    }
}

static inline struct decoded decode(const char *path)
{
    struct decoded log = {.by_number = calloc(DECODER_NUMBERS, sizeof(uint32_t))};
    int from = open(path, O_RDONLY);
    struct stat facts;
    uint32_t last_stack = 0;

    if (from < 0 || fstat(from, &facts) != 0)
        abort();
    log.bytes = (size_t)facts.st_size;
    log.file = malloc(log.bytes + 1);
    CHECK(log.bytes >= 4096 && read(from, log.file, log.bytes) == (ssize_t)log.bytes);
    close(from);
    CHECK(memcmp(log.file, "TARNLOG", 8) == 0);
    CHECK_EQUAL(1, decoder_number(log.file + 8, 2));
    log.chunk_bytes = decoder_number(log.file + 16, 4);
    log.ring_chunks = decoder_number(log.file + 20, 4);
    CHECK_EQUAL(log.ring_chunks > 0, decoder_number(log.file + 12, 4));
    log.id = decoder_number(log.file + 24, 8);
    log.start_ns = decoder_number(log.file + 32, 8);
    log.unix_ns = decoder_number(log.file + 40, 8);
    log.pid = decoder_number(log.file + 48, 4);
    log.parent_pid = decoder_number(log.file + 52, 4);
    log.depth = decoder_number(log.file + 56, 4);
    log.text_bytes = decoder_number(log.file + 60, 4);
    log.text = (const char *)log.file + 72;
    CHECK_EQUAL(decoder_number(log.file + 68, 4),
                decoder_crc(decoder_crc(0, log.file, 68), log.file + 72, log.text_bytes));
    decoder_chunks(&log);
    if (log.count)
        qsort(log.rows, log.count, sizeof *log.rows, decoder_by_time);
    for (size_t i = 0; i < log.count; i++)
        if (log.rows[i].stack && log.rows[i].stack != last_stack)
            decoder_check_stack(&log, last_stack = log.rows[i].stack);
    return log;
}

static inline void decoded_free(struct decoded *log)
{
    free(log->file);
    free(log->rows);
    free(log->live);
    free(log->records);
    free(log->by_number);
    memset(log, 0, sizeof *log);
}

/* The value of a key in the header; NULL: there is none. */
static inline const char *decoded_text(const struct decoded *log, const char *key)
{
    const char *at = log->text, *end = at + log->text_bytes;

    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, key) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* The number of records of a kind. */
static inline size_t decoded_records(const struct decoded *log, uint32_t kind)
{
    size_t count = 0;

    for (size_t i = 0; i < log->record_count; i++)
        count += log->records[i].kind == kind;
    return count;
}

#endif
