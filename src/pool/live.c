/* live.c -- the live block at an address. */
#include "pool/live.h"
#include "base/error.h"
#include "driver/driver.h"

tarn_status tarn__live_fail(tarn_device_ptr block)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: 0x%llx is not a live allocation of this resource",
                          block);
}

tarn__index tarn__live_find_again(struct tarn__pool *pool, tarn_device_ptr block)
{
    tarn__index index =
        tarn__addresses_look_in_older(&pool->heap.addresses, &pool->heap.nodes, block);

    if (tarn__live_is(pool, index) || tarn__driver_gone())
        return tarn__live_is(pool, index) ? index : 0;
    tarn__pool_lock(pool);
    index = tarn__heap_find(&pool->heap, block);
    tarn__pool_unlock(pool);
    return tarn__live_is(pool, index) ? index : 0;
}
