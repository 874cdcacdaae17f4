/* load.h -- a loaded log, as replay uses it. */
#ifndef TARN_TRACE_LOAD_H
#define TARN_TRACE_LOAD_H

#include <tarn/trace.h>

#define TARN__FREE_BIT 0x80000000u

/* One operation, 24 bytes: logs have millions. */
struct tarn__op {
    uint64_t bytes;
    uint32_t block;  /* numbered by allocation: 0, 1, 2 ... */
    uint32_t stream; /* index into `streams` */
    uint32_t thread; /* 0, 1, 2 ...; with TARN__FREE_BIT it is a free */
};

struct tarn_trace {
    struct tarn__op *ops; /* every free comes after its allocation */
    size_t count, capacity;
    uint32_t blocks, threads, stream_count;
    uint64_t *streams; /* the raw values in the log */
    tarn_trace_summary summary;
};

static inline bool tarn__load_op_is_free(const struct tarn__op *op)
{
    return (op->thread & TARN__FREE_BIT) != 0;
}

static inline uint32_t tarn__load_op_thread(const struct tarn__op *op)
{
    return op->thread & ~TARN__FREE_BIT;
}

#endif
