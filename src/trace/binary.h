/* binary.h -- the layout of a binary log.
 *
 * A log has a header of HEADER_BYTES and then chunks of `chunk_bytes` each. A thread
 * writes into a chunk of its own, so threads share no lock and no cache line. All numbers
 * are little-endian, and all offsets are multiples of 8.
 *
 *     header | chunk 0 | chunk 1 | chunk 2 | ... | zeros up to the preallocated end
 *
 * The file is mapped and preallocated. What a thread has stored is in the file
 * even if the process is killed. The chunks are not sorted: a reader merges them by time.
 *
 *   - The chunks of a file have increasing numbers, and `start_ns` does not decrease from
 *     chunk to chunk. A ring reuses chunks. In it the numbers give the order, and unused
 *     chunks may precede used ones.
 *   - The times of rows in a chunk do not decrease, and are not before its `start_ns`.
 *
 * After reading up to a chunk that starts at T, a reader can deliver all rows before T.
 * It keeps at most one unfinished chunk for each thread, and those of the last
 * milliseconds.
 *
 * The time of an allocation is the end of the call, that of a free its begin. Thus the
 * free of a block precedes the next allocation at its address, on any thread, without a
 * lock.
 *
 * A chunk of rows has rows of fixed size. `check` is stored last, with release order. A
 * row whose check differs was not written to its end, or belongs to an earlier use of the
 * chunk in a ring. Its neighbours stay readable. A thread that ends leaves its chunk to
 * the next one. A row with the action TARN__BINARY_THREAD then has the id of the new
 * thread.
 *
 * A chunk of records has records of any size, one after another: strings, frames and
 * stacks, pool rows and marks. A record is in the file before a row that refers to it is
 * written.
 *
 * A ring has checkpoints: chunks of the kind LIVE, with a row for each block that is live
 * at the time `start_ns` of the checkpoint. These rows have the times of the allocations.
 * `thread` of such a chunk is the number of the checkpoint, and `chunks` the number of
 * chunks with that number. A checkpoint is complete if the file has all of them. The
 * newest complete one counts. Rows and records with an earlier time than the checkpoint's
 * are part of it, or too old. A ring without a complete checkpoint has all its rows.
 * Strings, frames and stacks of a ring are never removed.
 */
#ifndef TARN_TRACE_BINARY_H
#define TARN_TRACE_BINARY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TARN__BINARY_HEADER_BYTES = 4096,
    TARN__BINARY_CHUNK_BYTES = 64 * 1024, /* default of `chunk_bytes` */
    TARN__BINARY_CHUNK_BYTES_MAX = 16 * 1024 * 1024,
    TARN__BINARY_MAJOR = 1, /* a reader rejects a log with a higher one */
    TARN__BINARY_MINOR = 0
};

#define TARN__BINARY_MAGIC "TARNLOG" /* with its NUL */

enum { TARN__BINARY_RING = 1 }; /* bit of `flags` */

/* The header, at offset 0. Behind it are `text_bytes` bytes of text, up to HEADER_BYTES.
 * The text has pairs of a key and a value, each terminated by NUL. The keys are host,
 * command, tarn, driver, gpu0, gpu1 and so on. */
struct tarn__binary_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t flags;
    uint32_t chunk_bytes;
    /* Chunks of rows that a ring keeps; 0: not a ring. The file may have more. */
    uint32_t ring_chunks;
    uint64_t id;                                /* random; repeated in each chunk */
    uint64_t start_monotonic_ns, start_unix_ns; /* both of time 0 */
    uint32_t pid, parent_pid;
    uint32_t stack_depth;
    uint32_t text_bytes;
    uint32_t zero;
    uint32_t crc; /* of the header before this member, and of the text */
};

enum tarn__binary_chunk_kind {
    TARN__BINARY_ROWS = 1,
    TARN__BINARY_RECORDS = 2,
    TARN__BINARY_LIVE = 3 /* a part of a checkpoint */
};

struct tarn__binary_chunk {
    char magic[4]; /* "TCHK"; zeros: the chunk is unused */
    uint32_t kind;
    uint64_t id;       /* of the header */
    uint64_t number;   /* from 0 */
    uint64_t start_ns; /* since the log began */
    uint64_t thread;   /* thread id of the system; LIVE: number of the checkpoint */
    /* RECORDS: number of chunks, this one and those without a header that continue it for
     * a long record. LIVE: number of chunks of the checkpoint. */
    uint32_t chunks;
    uint32_t crc;     /* of the members before this one */
    uint64_t zero[2]; /* the header has 64 bytes */
};

enum { TARN__BINARY_CHUNK_HEADER_BYTES = 64 };

/* The action of a row that is no event: the rows after it are of the thread `address`. */
enum { TARN__BINARY_THREAD = 255 };

struct tarn__binary_row {
    uint64_t time_ns; /* since the log began */
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;      /* as in tarn_trace_event */
    uint32_t stack;       /* number of a stack record; 0: none */
    uint32_t duration_ns; /* of the call; 0: unknown; UINT32_MAX: that or more */
    uint8_t action;       /* a tarn_action */
    uint8_t zero;
    int16_t device;
    uint32_t check; /* tarn__binary_check() */
};

enum tarn__binary_record_kind {
    TARN__BINARY_STRING = 1, /* u32 number, u32 zero, the bytes */
    TARN__BINARY_FRAME = 2,  /* struct tarn__binary_frame */
    /* u32 number, u32 count, u32 frames[count], innermost first */
    TARN__BINARY_STACK = 3,
    /* struct tarn__binary_pool, then, if it has one, struct tarn__binary_report, then
     * `block_count` struct tarn__binary_block */
    TARN__BINARY_POOL = 4,
    TARN__BINARY_MARK = 5, /* u64 time, u32 string, u32 zero */
    TARN__BINARY_LOST = 6  /* u64 time of the first lost row, u64 number of lost rows */
};

struct tarn__binary_record {
    uint32_t bytes; /* of the payload, before it is rounded up to 8 */
    uint32_t kind;
    uint32_t zero;
    uint32_t check; /* tarn__binary_record_check(); stored last */
};

/* A frame. The numbers of absent strings are 0. A native frame has a `build_id` other
 * than 0. */
struct tarn__binary_frame {
    uint32_t number, function, file;
    int32_t line;
    uint32_t build_id, zero;
    uint64_t offset;
};

/* The members are those of tarn_trace_pool_row. */
struct tarn__binary_pool {
    uint64_t time_ns, pool, reserved_bytes, live_bytes;
    uint32_t cause;
    int32_t device;
    uint32_t stack;
    uint32_t has_report; /* 1: a report follows */
    uint64_t block_count;
};

/* The members are those of tarn_pool_oom_report. */
struct tarn__binary_report {
    uint64_t requested, alignment, live, thread_cached, cached, unfenced, captured,
        reserved, maximum, same_stream, other_streams, completed, largest_free,
        device_free, device_total;
    uint32_t attempts;
    int32_t upstream_status;
    double fragmentation;
    char upstream_message[256];
};

/* The members are those of tarn_pool_block. */
struct tarn__binary_block {
    uint64_t address, bytes, requested_bytes, stream_id, segment;
    uint32_t state, zero;
};

_Static_assert(sizeof(struct tarn__binary_header) == 72, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_chunk) == TARN__BINARY_CHUNK_HEADER_BYTES,
               "part of the layout");
_Static_assert(sizeof(struct tarn__binary_row) == 48, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_record) == 16, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_frame) == 32, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_pool) == 56, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_report) == 392, "part of the layout");
_Static_assert(sizeof(struct tarn__binary_block) == 48, "part of the layout");

/* Return the seed for the checks of the rows of chunk `number` in log `id`. */
static inline uint64_t tarn__binary_seed(uint64_t id, uint64_t number)
{
    uint64_t seed = (id ^ number * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;

    return seed ^ seed >> 32;
}

/* Return the check of row `index` of a chunk. It covers the index and all members before
 * `check`. It is never 0. */
static inline uint32_t tarn__binary_check(uint64_t seed, uint64_t index,
                                          const struct tarn__binary_row *row)
{
    uint64_t rest = (uint64_t)row->stack | (uint64_t)row->duration_ns << 32;
    uint64_t kind = index << 32 | (uint64_t)(uint16_t)row->device << 16 |
                    (uint64_t)row->zero << 8 | row->action;
    uint64_t sum = seed ^ row->time_ns * 0x9e3779b97f4a7c15u ^
                   row->address * 0xbf58476d1ce4e5b9u ^ row->bytes * 0x94d049bb133111ebu ^
                   row->stream * 0xff51afd7ed558ccdu ^ rest * 0xc4ceb9fe1a85ec53u ^
                   kind * 0x2545f4914f6cdd1du;
    uint32_t check = (uint32_t)(sum ^ sum >> 32);

    return check ? check : 1;
}

/* Return a CRC-32 as zlib computes it, continued from `crc`; the first call passes 0. */
uint32_t tarn__binary_crc(uint32_t crc, const void *bytes, size_t count);

/* Return the check of a record. It covers the chunk's header, `bytes`, `kind` and the
 * payload. It is never 0. */
uint32_t tarn__binary_record_check(const struct tarn__binary_chunk *chunk,
                                   const struct tarn__binary_record *record,
                                   const void *payload);

#endif
