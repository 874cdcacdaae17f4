/* pools_tortured.h -- a pool whose driver calls fail, and what has to hold afterwards. */
#ifndef TARN_TEST_POOLS_TORTURED_H
#define TARN_TEST_POOLS_TORTURED_H

#include "../unit/pool/pools.h"

/* One call fails, so a failed call succeeds when it is repeated. */
#define IN_THE_END(call)       \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static tarn_stream one, other, third;
static tarn_pool_statistics seen; /* of the last pool that ended */

static inline void end_seen(tarn_resource *pool)
{
    seen = statistics(pool);
    end_pool(pool);
}

static inline tarn_device_ptr get(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 77;

    if (tarn_resource_allocate(pool, bytes, 0, stream, &block) != TARN_OK) {
        CHECK_EQUAL(77, block);
        adds_up(pool);
        CHECK_OK(tarn_resource_allocate(pool, bytes, 0, stream, &block));
    }
    return block;
}

static inline void put_block(tarn_resource *pool, tarn_device_ptr block, size_t bytes,
                             tarn_stream stream)
{
    IN_THE_END(tarn_resource_deallocate(pool, block, bytes, 0, stream));
    adds_up(pool);
}

#ifdef __SANITIZE_THREAD__
enum { THREADS_ARE_WATCHED = 1 };
#else
enum { THREADS_ARE_WATCHED = 0 };
#endif

static inline void with_streams(void (*run)(void (*)(void)), void (*scenario)(void))
{
    use_driver(0);
    one = new_stream();
    other = new_stream();
    third = new_stream();
    run(scenario);
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
    CU(cuStreamDestroy_v2(third));
}

/* One thread calls, so the thread sanitizer has nothing to check, and needs half a
 * minute. */
static inline void tortured(void (*scenario)(void))
{
    if (!on_sim() || THREADS_ARE_WATCHED)
        skip();
    with_streams(torture, scenario);
}

#endif
