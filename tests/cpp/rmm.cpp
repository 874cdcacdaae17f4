// rmm.cpp -- Tarn's resources under librmm's adaptors, registry and device_buffer.
#include <rmm/device_buffer.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/logging_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <tarn/tarn.hpp>

#include "test.hpp"

#include <sstream>

using any_resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

static_assert(std::is_convertible_v<tarn::resource, any_resource>);
static_assert(std::is_constructible_v<rmm::device_async_resource_ref, tarn::resource &>);
static_assert(std::is_constructible_v<rmm::host_device_async_resource_ref,
                                      tarn::host_device_resource &>);
static_assert(std::is_base_of_v<rmm::out_of_memory, tarn::out_of_memory> &&
              std::is_base_of_v<std::bad_alloc, tarn::out_of_memory>);

// The file plain.cpp does not include RMM.
std::string thrown_without_rmm(const tarn::resource &memory);
tarn::resource make_limiter_without_rmm(std::size_t limit_bytes);

static std::size_t live_blocks(const tarn::resource &memory)
{
    return tarn_resource_live_blocks(memory.get());
}

TEST(statistics_count_the_memory_of_a_pool)
{
    tarn::stream stream;
    tarn::resource pool = tarn::make_pool();
    rmm::mr::statistics_resource_adaptor statistics(pool);

    void *block = statistics.allocate(stream, 1000, 256);
    CHECK(statistics.get_bytes_counter().value == 1000 && live_blocks(pool) == 1);
    statistics.deallocate(stream, block, 1000, 256);
    CHECK(statistics.get_bytes_counter().value == 0 && live_blocks(pool) == 0);
}

TEST(a_limiter_of_rmm_limits_a_pool)
{
    tarn::stream stream;
    tarn::resource pool = tarn::make_pool();
    rmm::mr::limiting_resource_adaptor limiter(pool, 1 << 20);

    void *block = limiter.allocate(stream, 1 << 19, 256);
    THROWN(rmm::out_of_memory, (void)limiter.allocate(stream, 1 << 20, 256));
    CHECK(limiter.get_allocated_bytes() == 1 << 19 && live_blocks(pool) == 1);
    limiter.deallocate(stream, block, 1 << 19, 256);
    CHECK(limiter.get_allocated_bytes() == 0 && live_blocks(pool) == 0);
}

TEST(a_logger_of_rmm_logs_a_pool)
{
    tarn::stream stream;
    std::ostringstream log;
    {
        rmm::mr::logging_resource_adaptor logger(tarn::make_pool(), log, true);
        logger.deallocate(stream, logger.allocate(stream, 12345, 256), 12345, 256);
    }
    CHECK(log.str().find(",allocate,") != std::string::npos);
    CHECK(log.str().find(",free,") != std::string::npos);
    CHECK(log.str().find(",12345,") != std::string::npos);
}

TEST(out_of_memory_is_rmms_exception)
{
    tarn::stream stream;
    tarn::resource limiter = tarn::make_limiter(tarn::make_pool(), 1000);
    any_resource any = limiter;

    CHECK(THROWN(rmm::out_of_memory, (void)limiter.allocate(stream, 2000))
              .find("limiter") == 0);
    CHECK(THROWN(rmm::bad_alloc, (void)any.allocate(stream, 2000, 256)).find("limiter") ==
          0);
    CHECK(
        THROWN(tarn::out_of_memory, (void)any.allocate_sync(2000, 256)).find("limiter") ==
        0);
    CHECK(THROWN(tarn::error, (void)any.allocate_sync(2000, 256)).find("limiter") == 0);
    CHECK(THROWN(std::bad_alloc, tarn::device_buffer(2000, stream, limiter))
              .find("limiter") == 0);
    THROWN(rmm::out_of_memory, rmm::device_buffer(2000, stream, limiter));
}

TEST(another_failure_of_an_allocation_is_rmms_bad_alloc)
{
    tarn::resource pool = tarn::make_pool();

    try {
        (void)pool.allocate({}, 1000, 3);
        FAIL("nothing was thrown");
    } catch (const rmm::out_of_memory &) {
        FAIL("memory is not exhausted");
    } catch (const rmm::bad_alloc &error) {
        CHECK(dynamic_cast<const tarn::error &>(error).status() == TARN_INVALID_ARGUMENT);
    }
    CHECK(THROWN(std::runtime_error, tarn::make_cuda(99)).find("device 99") !=
          std::string::npos);
}

TEST(a_failure_callback_of_rmm_retries)
{
    tarn::stream stream;
    static tarn::resource limiter = tarn::make_limiter(tarn::make_pool(), 2048);
    static void *held = limiter.allocate(stream, 2000);
    rmm::mr::failure_callback_resource_adaptor<> retries(
        limiter,
        [](std::size_t bytes, void *) {
            limiter.deallocate({}, held, 2000);
            return bytes == 1500;
        },
        nullptr);

    void *block = retries.allocate(stream, 1500, 256);
    retries.deallocate(stream, block, 1500, 256);
    CHECK(live_blocks(limiter) == 0);
}

TEST(a_pool_serves_device_buffers_as_the_resource_of_a_device)
{
    tarn::stream stream;
    tarn::resource pool = tarn::make_pool();
    const rmm::cuda_device_id device{0};
    {
        any_resource before = rmm::mr::set_per_device_resource(device, pool);
        {
            rmm::device_buffer buffer(100, stream,
                                      rmm::mr::get_per_device_resource_ref(device));
            CHECK(live_blocks(pool) == 1 && buffer.data() != nullptr);
        }
        CHECK(rmm::mr::set_per_device_resource(device, before) == any_resource(pool));
    }
    rmm::device_buffer aligned(100, 4096, stream, pool);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % 4096 == 0);
    CHECK(live_blocks(pool) == 1);
}

TEST(a_pool_serves_what_needs_the_cuda_runtime)
{
    int device;

    if (cudaGetDevice(&device) != cudaSuccess) // as on the simulator
        return;
    tarn::stream stream;
    tarn::resource pool = tarn::make_pool(device);
    rmm::mr::statistics_resource_adaptor statistics(pool);
    any_resource before = rmm::mr::set_current_device_resource(statistics);
    {
        rmm::device_buffer buffer("text", 5, stream);
        buffer.resize(1000, stream);
        rmm::device_buffer copy(buffer, stream);
        CHECK(live_blocks(pool) == 2);
        char back[5] = "";
        CHECK(cudaMemcpyAsync(back, copy.data(), 5, cudaMemcpyDeviceToHost,
                              stream.handle()) == cudaSuccess);
        stream.synchronize();
        CHECK(std::strcmp(back, "text") == 0);
    }
    void *block = statistics.allocate_sync(500, 256);
    statistics.deallocate_sync(block, 500, 256);
    CHECK(live_blocks(pool) == 0);
    rmm::mr::set_current_device_resource(before);
}

TEST(a_resource_of_rmm_is_above_and_tarns_beneath)
{
    tarn::stream stream;
    tarn::resource counter = tarn::make_counter(tarn::make_pool());
    {
        any_resource stack = rmm::mr::limiting_resource_adaptor(
            rmm::mr::statistics_resource_adaptor(counter), 1 << 20);
        rmm::device_buffer buffer(4096, stream, stack);
        tarn_counts counts;
        tarn::check(tarn_counter_read(counter.get(), &counts));
        CHECK(counts.current_bytes == 4096);
    }
    CHECK(live_blocks(counter) == 0);
}

TEST(a_file_without_rmm_throws_and_catches_its_own_exceptions)
{
    tarn::resource limiter = make_limiter_without_rmm(1000);

    CHECK(thrown_without_rmm(limiter) == "tarn::out_of_memory");
    THROWN(rmm::out_of_memory, (void)limiter.allocate({}, 2000));
}

TEST(a_pool_in_rmms_registry_outlives_main)
{
    static rmm::device_buffer last = [] {
        const rmm::cuda_device_id device{0};
        rmm::mr::set_per_device_resource(device, tarn::make_pool());
        return rmm::device_buffer(100, cuda::stream_ref{cudaStream_t{nullptr}},
                                  rmm::mr::get_per_device_resource_ref(device));
    }();

    CHECK(last.size() == 100);
}
