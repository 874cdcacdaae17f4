/* field.h -- helpers of the tests of PyTorch's functions: a pool that serves PyTorch on
 * device 0. */
#ifndef TARN_TESTS_TORCH_FIELD_H
#define TARN_TESTS_TORCH_FIELD_H

#include "../pool/pools.h"
#include <tarn/torch.h>

/* Serve PyTorch from a new pool with a maximum (0: none). */
static inline tarn_resource *serve(size_t maximum)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = maximum};

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    CHECK_OK(tarn_torch_set_resource(0, pool));
    return pool;
}

static inline void end_service(tarn_resource *pool)
{
    CHECK_OK(tarn_torch_set_resource(0, NULL));
    CHECK_OK(tarn_torch_reset_peaks(0));
    CHECK_OK(tarn_torch_reset_totals(0));
    end_pool(pool);
}

static inline tarn_torch_statistics counts(void)
{
    tarn_torch_statistics all = {.size = sizeof all};

    CHECK_OK(tarn_torch_get_statistics(0, &all));
    return all;
}

static inline uint64_t active_bytes(void)
{
    return counts().active_bytes[TARN_TORCH_ALL].current;
}

#endif
