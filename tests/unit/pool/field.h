/* field.h -- a pool with free blocks of known sizes and owners, for the tests of reports.
 *
 * The free blocks lie between live blocks, and are all too small to move. Their owners
 * are a stream that is held up, another stream, no stream (completed), and a graph.
 */
#ifndef TARN_TESTS_POOL_FIELD_H
#define TARN_TESTS_POOL_FIELD_H

#include "pools.h"
#include "pool/cache/thread_cache.h"
#include "pool/order/epoch.h"
#include "pool/order/fence.h"
#include "pool/pool.h"

/* Into the heap, past the thread cache. */
static inline void give(tarn_resource *pool, tarn_device_ptr block, size_t bytes,
                        tarn_stream stream)
{
    put(pool, block, bytes, stream);
    tarn__thread_caches_drain(inside(pool));
}

enum { OWN = 768, OTHERS = 512, READY = 256, GRAPHS = 128, PIECES = 4, POOL_MIB = 64 };

static struct {
    tarn_resource *pool;
    tarn_stream own, other, captured;
    struct gate gate;
    tarn_device_ptr piece[PIECES], between[PIECES], rest;
    size_t rest_bytes;
    void *graph;
} field;

static const size_t piece_bytes[PIECES] = {(size_t)OWN << 10, (size_t)OTHERS << 10,
                                           (size_t)READY << 10, (size_t)GRAPHS << 10};

static inline void begin_field(void)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = POOL_MIB * MIB,
                                       .maximum_bytes = POOL_MIB * MIB,
                                       .oom_policy = TARN_POOL_OOM_FAIL};

    use_driver(0);
    field.pool = new_pool(&options);
    field.own = new_stream();
    field.other = new_stream();
    field.captured = new_stream();
    field.rest_bytes = POOL_MIB * MIB;
    CU(cuStreamBeginCapture_v2(field.captured, CAPTURE_RELAXED));
    for (int i = 0; i < PIECES; i++) {
        tarn_stream stream = i == PIECES - 1 ? field.captured : field.own;
        field.piece[i] = take(field.pool, piece_bytes[i], stream);
        field.between[i] = take(field.pool, 64 * KIB, field.own);
        field.rest_bytes -= piece_bytes[i] + 64 * KIB;
    }
    field.rest = take(field.pool, field.rest_bytes, field.own);
}

/* The free bytes of the graph, of completed blocks, and of two streams, one of which is
 * held up. */
static inline void give_pieces(void)
{
    give(field.pool, field.piece[3], GRAPHS * KIB, field.captured);
    CU(cuStreamEndCapture(field.captured, &field.graph));
    give(field.pool, field.piece[2], READY * KIB, field.other);
    CHECK_OK(tarn__fences_wait_for_device(inside(field.pool)));
    tarn__pool_lock(inside(field.pool));
    while (tarn__epoch_sweep(&inside(field.pool)->heap, 1))
        continue;
    tarn__pool_unlock(inside(field.pool));
    hold_up(field.own, &field.gate);
    give(field.pool, field.piece[0], OWN * KIB, field.own);
    give(field.pool, field.piece[1], OTHERS * KIB, field.other);
}

static inline void end_field(void)
{
    let_on(&field.gate);
    CU(cuGraphDestroy(field.graph));
    for (int i = 0; i < PIECES; i++)
        put(field.pool, field.between[i], 64 * KIB, field.own);
    put(field.pool, field.rest, field.rest_bytes, field.own);
    adds_up(field.pool);
    CU(cuStreamDestroy_v2(field.own));
    CU(cuStreamDestroy_v2(field.other));
    CU(cuStreamDestroy_v2(field.captured));
    end_pool(field.pool);
}

#endif
