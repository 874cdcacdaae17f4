/* Test the depth of stacked resources: every kind of the library, and one of the program.
 */
#include "test.h"
#include "write_nothing.h"

static tarn_status make_limiter(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_limiter_create(upstream, SIZE_MAX, out);
}

static tarn_status make_logger(tarn_resource *upstream, tarn_resource **out)
{
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_RMM, &writer));
    tarn_status status = tarn_logger_create(upstream, writer, out);
    CHECK_OK(tarn_trace_writer_release(writer));
    return status;
}

static tarn_status make_binning(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_binning_create(upstream, NULL, out);
}

/* Its bins are slabs over upstream, so it is one level deeper. */
static tarn_status make_binning_with_bins(tarn_resource *upstream, tarn_resource **out)
{
    const tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 8, .max_size_exponent = 9};

    return tarn_binning_create(upstream, &options, out);
}

static tarn_status make_pool(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_pool_create(0, upstream, NULL, out);
}

static tarn_status make_slab(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_slab_create(0, upstream, NULL, out);
}

/* A resource of the program. */
static tarn_status pass_on(void *self, size_t bytes, size_t alignment, tarn_stream stream,
                           tarn_device_ptr *out)
{
    return tarn_resource_allocate(self, bytes, alignment, stream, out);
}

static tarn_status deallocate(void *self, tarn_device_ptr block, size_t bytes,
                              size_t alignment, tarn_stream stream)
{
    return tarn_resource_deallocate(self, block, bytes, alignment, stream);
}

static void destroy(void *self)
{
    tarn_resource_release(self);
}

static tarn_status make_own(tarn_resource *upstream, tarn_resource **out)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "own",
                                          .allocate = pass_on,
                                          .deallocate = deallocate,
                                          .destroy = destroy};
    tarn_status status = tarn_resource_create_with_upstream(
        &ops, upstream, tarn_resource_device(upstream), upstream, out);

    if (status == TARN_OK)
        tarn_resource_retain(upstream);
    return status;
}

typedef tarn_status make_fn(tarn_resource *upstream, tarn_resource **out);

/* Without binning, which counts as two. */
static make_fn *const makers[] = {make_limiter, tarn_counter_create, make_logger,
                                  make_own};
enum { MAKERS = sizeof makers / sizeof *makers };

/* A stack of `height` resources over cuda; each retains the one beneath it. */
static tarn_resource *stack_of(unsigned height)
{
    tarn_resource *top, *next;

    CHECK_OK(tarn_cuda_create(0, &top));
    for (unsigned i = 0; i < height; i++) {
        CHECK_OK(makers[i % MAKERS](top, &next));
        CHECK_OK(tarn_resource_release(top));
        top = next;
    }
    return top;
}

TEST(stack_of_maximum_depth_works_and_ends)
{
    tarn_resource *top = stack_of(TARN_RESOURCE_DEPTH_MAX);
    size_t free_bytes, total;
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(top, 1000, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(top, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_trim(top, 0, NULL));
    tarn_resource_memory_info(top, NULL, &free_bytes, &total);
    tarn_resource_supports_no_stream(top);
    CHECK_OK(tarn_resource_release(top));
}

TEST(one_more_level_is_rejected_for_every_kind)
{
    static make_fn *const all[] = {
        make_limiter, tarn_counter_create,    make_logger, make_binning,
        make_own,     make_binning_with_bins, make_pool,   make_slab};
    tarn_resource *top = stack_of(TARN_RESOURCE_DEPTH_MAX);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tarn_resource *out = (tarn_resource *)(uintptr_t)77;
        CHECK_STATUS(TARN_INVALID_ARGUMENT, all[i](top, &out));
        CHECK_MESSAGE("has 64 resources below it, at most 64 can be stacked");
        CHECK(out == (tarn_resource *)(uintptr_t)77);
    }
    CHECK_OK(tarn_resource_release(top));
}

TEST(pools_and_slabs_count_as_others_do)
{
    tarn_resource *top = stack_of(TARN_RESOURCE_DEPTH_MAX - 2), *pool, *slab, *out;

    CHECK_OK(make_pool(top, &pool));
    CHECK_OK(make_slab(pool, &slab));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make_limiter(slab, &out));
    CHECK_OK(make_binning_with_bins(top, &out));
    CHECK_OK(tarn_resource_release(out));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make_binning_with_bins(pool, &out));
    CHECK_OK(tarn_resource_release(slab));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_resource_release(top));
}

TEST(bin_counts_and_one_that_is_over_more_comes_before_what_is_above)
{
    tarn_resource *base = stack_of(0), *high = stack_of(TARN_RESOURCE_DEPTH_MAX - 1);
    tarn_resource *highest = stack_of(TARN_RESOURCE_DEPTH_MAX), *binning, *above, *out;

    CHECK_OK(make_binning(base, &binning));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 256, highest));
    CHECK_OK(tarn_binning_add_bin(binning, 256, high));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make_limiter(binning, &out)); /* over 64 now */
    CHECK_OK(tarn_resource_release(binning));

    CHECK_OK(make_binning(base, &binning));
    CHECK_OK(make_limiter(binning, &above));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_binning_add_bin(binning, 256, high));
    CHECK_MESSAGE("its depth is fixed at");
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_binning_add_bin(binning, 256, above));
    CHECK_OK(tarn_binning_add_bin(binning, 256, base)); /* no more than before */
    CHECK_OK(tarn_resource_release(above));
    CHECK_OK(tarn_resource_release(binning));
    CHECK_OK(tarn_resource_release(highest));
    CHECK_OK(tarn_resource_release(high));
    CHECK_OK(tarn_resource_release(base));
}

TEST(bin_of_a_slab_can_be_added_below_an_adaptor)
{
    tarn_resource *base = stack_of(0), *binning, *above;

    CHECK_OK(make_binning(base, &binning));
    CHECK_OK(make_limiter(binning, &above));
    CHECK_OK(tarn_binning_add_bin(binning, 256, NULL));
    CHECK_OK(tarn_resource_release(above));
    CHECK_OK(tarn_resource_release(binning));
    CHECK_OK(tarn_resource_release(base));
}
