/* grants.h -- streams that take and free blocks of several sizes. */
#ifndef GRANTS_H
#define GRANTS_H

#include "pools.h"

enum { CACHES = 64, SIZES = 8, MANY = 1000 };

/* Take and free small blocks of several sizes: `held` of each size at once. */
static void use(tarn_resource *pool, tarn_stream stream, int held)
{
    tarn_device_ptr blocks[SIZES][16];

    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < held; j++)
            blocks[i][j] = take(pool, (size_t)256 << i, stream);
    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < held; j++)
            put(pool, blocks[i][j], (size_t)256 << i, stream);
}

static void with_streams(int count, void (*test)(tarn_resource *, tarn_stream *))
{
    tarn_stream streams[MANY];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < count; i++)
        streams[i] = new_stream();
    test(pool, streams);
    adds_up(pool);
    end_pool(pool);
    for (int i = 0; i < count; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

#endif
