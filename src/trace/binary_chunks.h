/* binary_chunks.h -- the chunks of a binary log: which are in use, and for what. */
#ifndef TARN_TRACE_BINARY_CHUNKS_H
#define TARN_TRACE_BINARY_CHUNKS_H

#include "base/cache_line.h"
#include "trace/binary.h"
#include "trace/binary_window.h"
#include <pthread.h>
#include <stdatomic.h>

/* The use of a place in the file. */
enum tarn__binary_use {
    TARN__BINARY_USE_FREE,
    TARN__BINARY_USE_ROWS,
    TARN__BINARY_USE_EVENTS,      /* records with a time */
    TARN__BINARY_USE_DEFINITIONS, /* strings, frames and stacks; a ring keeps them */
    TARN__BINARY_USE_LIVE
};

/* A place in the file of a ring, which holds a chunk or is free. */
struct tarn__binary_place {
    enum tarn__binary_use use;
    bool is_open; /* a thread writes into it */
    uint64_t number, start_ns;
    uint64_t last_ns; /* of its rows; set when it is closed */
    uint32_t folded;  /* number of its first rows that the ring has folded; of the ring */
};

/* Mapped chunks into which a thread writes. */
struct tarn__binary_part {
    char *memory; /* begins with the header; NULL: none */
    size_t bytes;
    uint32_t place;
    struct tarn__binary_window *window;
    struct tarn__binary_chunk header;
};

struct tarn__binary_chunks {
    /* Rows with an earlier time are written under the lock of the ring. UINT64_MAX: the
     * log is broken, or this is a forked child without a file of its own yet. Each row
     * reads it. */
    _Alignas(TARN__CACHE_LINE) atomic_uint_least64_t floor_ns;

    /* guards all fields below */
    _Alignas(TARN__CACHE_LINE) pthread_mutex_t lock;
    struct tarn__binary_file file;
    /* It has the next chunks of a file, or all of a ring; NULL: not open yet. */
    struct tarn__binary_window *window;
    uint64_t id;
    uint32_t chunk_bytes;
    uint32_t ring_chunks; /* 0: not a ring */
    uint64_t next_number, start_ns;
    uint32_t place_count; /* chunks that the file has */

    /* of a ring alone */
    struct tarn__binary_place *places; /* `place_count` of `place_capacity` */
    uint32_t place_capacity;
    uint32_t used[TARN__BINARY_USE_LIVE + 1]; /* places of each use */
    uint32_t next_free; /* where the search for a free place begins */
};

/* The result of taking chunks or of writing a record. */
enum tarn__binary_take {
    TARN__BINARY_TAKEN,
    TARN__BINARY_FULL,  /* a ring has to fold chunks first (binary_ring.h), or is full */
    TARN__BINARY_FAILED /* errno has the reason */
};

/* Take `count` adjacent chunks and map them. The first row is to have the time `time_ns`;
 * the chunk starts at most 10 ms before it. A ring takes one chunk at a time. `must_grow`:
 * a ring may exceed its size. `*out` is set only on TARN__BINARY_TAKEN. `lock` held. */
enum tarn__binary_take tarn__binary_chunks_take(struct tarn__binary_chunks *chunks,
                                                enum tarn__binary_use use,
                                                uint64_t thread, uint64_t time_ns,
                                                uint32_t count, bool must_grow,
                                                struct tarn__binary_part *out);
/* Make the pages of a part that was just taken, and store its header. Returns false on
 * failure: errno has the reason. The caller need not hold `lock`. */
bool tarn__binary_chunks_begin(const struct tarn__binary_chunks *chunks,
                               const struct tarn__binary_part *part);
/* Leave a part, if there is one. No thread may write into it any more. `last_ns` is the
 * time of its last row. `lock` held. */
void tarn__binary_chunks_close(struct tarn__binary_chunks *chunks,
                               struct tarn__binary_part *part, uint64_t last_ns);
/* Leave the window. The parts are closed. `lock` held. */
void tarn__binary_chunks_end(struct tarn__binary_chunks *chunks);

/* Take a place of a ring for a part of a checkpoint. Returns false on failure: errno has
 * the reason. `lock` held. */
bool tarn__binary_chunks_take_live(struct tarn__binary_chunks *chunks, uint32_t *out);
/* Return true if a ring can take `count` more chunks within its size. `lock` held. */
bool tarn__binary_chunks_has_free(const struct tarn__binary_chunks *chunks,
                                  uint32_t count);
/* Free a place of a ring. Its header in the file becomes zeros. Returns false on failure:
 * errno has the reason. `lock` held. */
bool tarn__binary_chunks_free(struct tarn__binary_chunks *chunks, uint32_t place);

/* Complete the header of a chunk: its magic, id, number and CRC. `lock` held. */
void tarn__binary_chunks_number(struct tarn__binary_chunks *chunks,
                                struct tarn__binary_chunk *header);
/* Return the offset of a place in the file, in bytes. */
uint64_t tarn__binary_chunks_offset(const struct tarn__binary_chunks *chunks,
                                    uint32_t place);
/* Return the number of rows for which a chunk has space. */
uint32_t tarn__binary_chunks_rows(const struct tarn__binary_chunks *chunks);

#endif
