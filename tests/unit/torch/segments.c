/* Test functions for a MemPool: they allocate without a stream, and end after their last
 * segment. */
#include "field.h"
#include "scripted.h"

static tarn_torch_segments open_on(tarn_resource *resource)
{
    tarn_torch_segments segments = {.size = sizeof segments};

    CHECK_OK(tarn_torch_open_segments(resource, &segments));
    return segments;
}

TEST(segments_come_from_their_resource)
{
    use_driver(0);
    tarn_resource *one = new_pool(NULL), *other = new_pool(NULL);
    tarn_torch_segments of_one = open_on(one), of_other = open_on(other);

    void *block = of_one.allocate(2 * MIB, 0, NULL);
    CHECK(block != NULL);
    CHECK_EQUAL(1, statistics(one).live_blocks);
    CHECK_EQUAL(0, statistics(other).live_blocks);
    of_one.deallocate(block, 2 * MIB, 0, NULL);
    CHECK_EQUAL(0, statistics(one).live_blocks);
    CHECK_OK(tarn_torch_close_segments(&of_one));
    CHECK_OK(tarn_torch_close_segments(&of_other));
    end_pool(one);
    end_pool(other);
}

TEST(segment_that_cannot_be_had_is_null)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_torch_segments segments = open_on(pool);

    CHECK(segments.allocate(20 * MIB, 0, NULL) == NULL);
    CHECK(segments.allocate((size_t)1 << 40, 0, NULL) == NULL);
    CHECK(segments.allocate(2 * MIB, 1, NULL) == NULL); /* of another device */
    CHECK_OK(tarn_torch_close_segments(&segments));
    CHECK(segments.allocate(2 * MIB, 0, NULL) == NULL);
    end_pool(pool);
}

TEST(segments_keep_their_resource_until_the_last_is_freed)
{
    struct scripted script;

    use_driver(0);
    scripted_begin(&script, 0);
    script.supports_no_stream = true;
    tarn_torch_segments segments = open_on(script.resource);
    void *block = segments.allocate(2 * MIB, 0, (tarn_stream)64);
    CHECK(script.stream == TARN_STREAM_NONE);
    CHECK_OK(tarn_torch_close_segments(&segments));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_close_segments(&segments));
    CHECK_OK(tarn_resource_release(script.resource));
    CHECK_EQUAL(0, script.destroyed);
    script.stream = NULL;
    segments.deallocate(block, 2 * MIB, 0, (tarn_stream)64);
    CHECK(script.stream == TARN_STREAM_NONE);
    CHECK_EQUAL(1, script.destroyed);
}

TEST(segments_ignore_captures)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();
    tarn_torch_segments segments = open_on(pool);
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    void *block = segments.allocate(2 * MIB, 0, stream);
    CU(cuMemsetD8Async((uintptr_t)block, 1, MIB, stream));
    segments.deallocate(block, 2 * MIB, 0, stream);
    CHECK_EQUAL(0, statistics(pool).captured);
    CU(cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    CU(cuGraphDestroy(graph));
    CHECK_OK(tarn_torch_close_segments(&segments));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(resource_that_is_unsafe_without_a_stream_gets_no_segments)
{
    struct scripted script, host;
    tarn_torch_segments segments = {.size = sizeof segments};

    use_driver(0);
    scripted_begin(&script, 0);
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_torch_open_segments(script.resource, &segments));
    CHECK_MESSAGE("scripted is unsafe without one");
    scripted_begin(&host, TARN_DEVICE_NONE);
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_torch_open_segments(host.resource, &segments));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_open_segments(NULL, &segments));
    segments.size = 4;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_torch_open_segments(script.resource, &segments));
    CHECK(segments.allocate == NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_close_segments(NULL));
    scripted_end(&script);
    scripted_end(&host);
}

TEST(segments_of_64_resources_can_be_open)
{
    enum { MOST = 64 };
    tarn_torch_segments all[MOST], more = {.size = sizeof more};

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < MOST; i++) {
        all[i] = open_on(pool);
        for (int j = 0; j < i; j++)
            CHECK(all[i].allocate != all[j].allocate);
    }
    CHECK_STATUS(TARN_LIMIT_REACHED, tarn_torch_open_segments(pool, &more));
    CHECK_MESSAGE("64 resources");
    for (int i = 0; i < MOST; i++) {
        void *block = all[i].allocate(1000, 0, NULL);
        all[i].deallocate(block, 1000, 0, NULL);
        CHECK_OK(tarn_torch_close_segments(&all[i]));
    }
    all[0] = open_on(pool);
    CHECK_OK(tarn_torch_close_segments(&all[0]));
    end_pool(pool);
}
