// owners.cpp -- tarn.hpp alone: owners, factories, exceptions, warnings.
#include <tarn/tarn.hpp>
#include <tarn/tarn.hpp>

#include "test.hpp"

#include <cstdint>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

// What a stream class of another library looks like: cuda::stream_ref, cuda::stream.
struct foreign_stream {
    foreign_stream(CUstream_st *stream) : value(stream)
    {
    }

    CUstream_st *get() const
    {
        return value;
    }

    CUstream_st *value;
};

static_assert(sizeof(tarn::resource) == sizeof(void *), "a resource is one pointer");
static_assert(std::is_copy_constructible_v<tarn::resource> &&
              std::is_nothrow_move_constructible_v<tarn::resource> &&
              std::is_nothrow_copy_assignable_v<tarn::resource>);
static_assert(!std::is_default_constructible_v<tarn::resource>);
static_assert(std::is_convertible_v<tarn::host_device_resource, tarn::resource>);
static_assert(!std::is_convertible_v<tarn::resource, tarn::host_device_resource>);
static_assert(!std::is_constructible_v<tarn::resource, tarn::host_resource>);
static_assert(!std::is_copy_constructible_v<tarn::stream> &&
              std::is_nothrow_move_constructible_v<tarn::stream>);
static_assert(!std::is_copy_constructible_v<tarn::device_buffer> &&
              std::is_nothrow_move_constructible_v<tarn::device_buffer>);
static_assert(std::is_convertible_v<tarn::stream, foreign_stream> &&
              std::is_convertible_v<foreign_stream, tarn::stream_view>);
static_assert(!std::is_constructible_v<tarn::stream_view, int> &&
              !std::is_constructible_v<tarn::stream_view, std::nullptr_t>);
static_assert(std::is_base_of_v<std::bad_alloc, tarn::out_of_memory> &&
              std::is_base_of_v<tarn::error, tarn::out_of_memory>);
static_assert(std::is_nothrow_copy_constructible_v<tarn::out_of_memory>);
static_assert(noexcept(std::declval<tarn::resource &>().deallocate({}, nullptr, 0)) &&
              noexcept(std::declval<tarn::resource &>().deallocate_sync(nullptr, 0)));
static_assert(std::is_same_v<tarn::host_device_resource,
                             decltype(tarn::make_limiter(tarn::make_pinned(), 1))>);
static_assert(std::is_same_v<tarn::host_device_resource,
                             decltype(tarn::make_pool(tarn::make_pinned()))>);
static_assert(
    std::is_same_v<tarn::host_resource, decltype(tarn::make_counter(tarn::make_host()))>);

static tarn_counts counts_of(const tarn::resource &counter)
{
    tarn_counts counts;

    tarn::check(tarn_counter_read(counter.get(), &counts));
    return counts;
}

TEST(stream_views_have_the_values_of_the_c_interface)
{
    CHECK(tarn::stream_view().get() == TARN_STREAM_DEFAULT);
    CHECK(tarn::stream_view::none().get() == TARN_STREAM_NONE);
    CHECK(tarn::stream_view(TARN_STREAM_PER_THREAD).get() == TARN_STREAM_PER_THREAD);
    tarn::stream stream;
    CHECK(tarn::stream_view(stream.handle()).get() == stream.get());
    CHECK(tarn::stream_view(foreign_stream(stream)).get() == stream.get());
}

TEST(each_factory_makes_its_resource)
{
    CHECK(std::string("cuda") == tarn_resource_name(tarn::make_cuda().get()));
    CHECK(std::string("async") == tarn_resource_name(tarn::make_async().get()));
    CHECK(std::string("managed") == tarn_resource_name(tarn::make_managed().get()));
    CHECK(std::string("pinned") == tarn_resource_name(tarn::make_pinned().get()));
    CHECK(std::string("host") == tarn_resource_name(tarn::make_host().get()));
    CHECK(std::string("pool") == tarn_resource_name(tarn::make_pool(1).get()));
    CHECK(tarn::make_pool(1).device() == 1);
    CHECK(tarn::make_pool(tarn::make_cuda(1)).device() == 1);
    CHECK(tarn::make_cuda() == tarn::make_cuda());
    CHECK(tarn::make_cuda(0) != tarn::make_cuda(1));
}

TEST(each_resource_allocates_with_and_without_a_stream)
{
    tarn::stream stream;
    const tarn::resource all[] = {
        tarn::make_cuda(),   tarn::make_async(), tarn::make_managed(),
        tarn::make_pinned(), tarn::make_pool(),  tarn::make_pool(tarn::make_pinned())};

    for (tarn::resource memory : all) {
        void *ordered = memory.allocate(stream, 1000, 4096);
        void *sync = memory.allocate_sync(1000);
        CHECK(reinterpret_cast<std::uintptr_t>(ordered) % 4096 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(sync) % 256 == 0 && sync != ordered);
        memory.deallocate(stream, ordered, 1000, 4096);
        memory.deallocate_sync(sync, 1000);
        CHECK(memory.allocate(stream, 0) == nullptr);
        memory.deallocate(stream, nullptr, 0);
    }
    tarn::host_resource host = tarn::make_host();
    void *block = host.allocate_sync(100, 512);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 512 == 0);
    std::memset(block, 1, 100);
    host.deallocate_sync(block, 100, 512);
}

TEST(copies_of_a_resource_share_it_and_the_last_one_destroys_it)
{
    tarn_pool_options options{};
    options.initial_bytes = 4 << 20;
    const unsigned long long before = test::live_bytes();
    {
        tarn::resource first = tarn::make_pool(0, options);
        tarn::resource second = first;
        CHECK(first == second && first.get() == second.get());
        tarn::resource third = std::move(first);
        CHECK(first.get() == nullptr && third == second);
        first = second;
        second = tarn::make_cuda();
        CHECK(test::live_bytes() >= before + (4 << 20));
    }
    CHECK(test::live_bytes() == before);
    tarn::resource shared = tarn::resource::share(tarn::make_cuda().get());
    CHECK(shared == tarn::make_cuda());
}

TEST(a_failure_callback_frees_memory_and_ends_with_its_resource)
{
    auto state = std::make_shared<std::vector<std::size_t>>();
    tarn::resource limiter = tarn::make_limiter(tarn::make_cuda(), 1024);
    void *kept = limiter.allocate({}, 1000);
    {
        tarn::resource spilling =
            tarn::make_failure_callback(limiter, [=](std::size_t bytes) mutable {
                state->push_back(bytes);
                if (kept == nullptr)
                    return false;
                limiter.deallocate({}, std::exchange(kept, nullptr), 1000);
                return true;
            });
        CHECK(state.use_count() == 2);
        void *block = spilling.allocate({}, 600);
        CHECK(*state == std::vector<std::size_t>{600});
        CHECK(THROWN(tarn::out_of_memory, (void)spilling.allocate({}, 700))
                  .find("limiter: 700 bytes") == 0);
        CHECK(state->size() == 2);
        spilling.deallocate({}, block, 600);
    }
    CHECK(state.use_count() == 1);
}

TEST(an_exception_in_a_failure_callback_fails_the_allocation)
{
    tarn::resource limiter = tarn::make_limiter(tarn::make_cuda(), 1024);
    auto failing = [&](auto thrown) {
        return tarn::make_failure_callback(limiter,
                                           [=](std::size_t) -> bool { throw thrown; });
    };
    auto status_of = [](tarn::resource memory) {
        try {
            (void)memory.allocate({}, 2000);
        } catch (const tarn::error &error) {
            return error.status();
        }
        return TARN_OK;
    };

    CHECK(status_of(failing(std::runtime_error("mine"))) == TARN_PLUGIN_FAILURE);
    CHECK(THROWN(tarn::error,
                 (void)failing(std::runtime_error("mine")).allocate({}, 2000)) ==
          "failure_callback: mine");
    CHECK(status_of(failing(std::bad_alloc())) == TARN_OUT_OF_MEMORY);
    CHECK(status_of(failing(7)) == TARN_PLUGIN_FAILURE);
    auto inner = tarn::make_failure_callback(limiter, [](std::size_t) -> bool {
        tarn::check(tarn_error_set(TARN_NOT_FOUND, "mine: no"));
        return true;
    });
    CHECK(status_of(inner) == TARN_NOT_FOUND);
}

TEST(a_prefetcher_is_of_the_class_of_its_upstream)
{
    auto prefetcher = tarn::make_prefetcher(tarn::make_managed());
    static_assert(std::is_same_v<decltype(prefetcher), tarn::host_device_resource>);

    void *block = prefetcher.allocate({}, 1000);
    prefetcher.deallocate({}, block, 1000);
    test::configure("fail=call:cuMemPrefetchAsync");
    CHECK(THROWN(tarn::error, (void)prefetcher.allocate({}, 1000)).size() > 0);
}

TEST(exceptions_have_the_status_and_the_message_of_the_failure)
{
    tarn::resource limiter = tarn::make_limiter(tarn::make_cuda(), 1000);

    try {
        (void)limiter.allocate({}, 2000);
        FAIL("nothing was thrown");
    } catch (const tarn::error &error) {
        CHECK(error.status() == TARN_OUT_OF_MEMORY && error.native() == 0);
        CHECK(std::strncmp(error.message(), "limiter: 2000 bytes", 19) == 0);
        CHECK(std::string(error.what()) == error.message());
    }
    CHECK(THROWN(std::bad_alloc, (void)limiter.allocate({}, 2000)).find("limiter") == 0);
    CHECK(
        THROWN(tarn::out_of_memory, (void)limiter.allocate_sync(2000)).find("limiter") ==
        0);
    CHECK(THROWN(std::runtime_error, tarn::make_cuda(99)).find("cuda: device 99") == 0);
    CHECK(THROWN(std::runtime_error, (void)limiter.allocate({}, 80, 3)).size() > 0);
    CHECK(THROWN(tarn::error, tarn::check(tarn_error_set(TARN_NOT_FOUND, "mine: no"))) ==
          "mine: no");
    CHECK(THROWN(tarn::error, tarn::check(TARN_NOT_SUPPORTED)) ==
          tarn_status_string(TARN_NOT_SUPPORTED));
    test::configure("fail=call:cuMemAlloc");
    try {
        (void)tarn::make_cuda().allocate({}, 2000);
        FAIL("nothing was thrown");
    } catch (const tarn::error &error) {
        CHECK(error.native() != 0);
    }
}

TEST(a_free_that_fails_is_a_warning)
{
    tarn::resource cuda = tarn::make_cuda();
    void *block = cuda.allocate({}, 1000);
    {
        test::warnings warnings;
        test::configure("fail=call:cuMemFree");
        cuda.deallocate({}, block, 1000);
        cuda.deallocate_sync(block, 1000);
        CHECK(warnings.messages.size() == 2);
        CHECK(warnings.messages[0].find("resource: 1000 bytes at 0x") == 0);
        CHECK(warnings.messages[0].find("cuMemFree") != std::string::npos);
    }
    test::configure("");
    cuda.deallocate({}, block, 1000);
}

TEST(the_last_release_with_live_blocks_is_a_warning)
{
    test::warnings warnings;
    void *block;
    tarn_resource *left;
    {
        tarn::resource pool = tarn::make_pool();
        block = pool.allocate({}, 1000);
        left = pool.get();
    }
    CHECK(warnings.messages.size() == 1);
    CHECK(warnings.messages[0].find("resource: the last owner is gone: ") == 0);
    tarn::resource again = tarn::resource::adopt(left);
    again.deallocate({}, block, 1000);
}

// A resource of which Tarn does not know how it orders memory.
static tarn::resource make_unknown()
{
    static const tarn::resource cuda = tarn::make_cuda(); // also destroyed at exit
    tarn_resource_ops ops{};
    tarn_resource *handle = nullptr;

    ops.size = sizeof ops;
    ops.name = "unknown";
    ops.allocate = [](void *, size_t bytes, size_t alignment, tarn_stream stream,
                      tarn_device_ptr *out) {
        return tarn_resource_allocate(cuda.get(), bytes, alignment, stream, out);
    };
    ops.deallocate = [](void *, tarn_device_ptr block, size_t bytes, size_t alignment,
                        tarn_stream stream) {
        return tarn_resource_deallocate(cuda.get(), block, bytes, alignment, stream);
    };
    ops.destroy = [](void *) {};
    tarn::check(tarn_resource_create(&ops, nullptr, 0, &handle));
    return tarn::resource::adopt(handle);
}

TEST(a_block_without_a_stream_is_freed_if_its_wait_fails)
{
    tarn::resource memory = make_unknown();

    memory.deallocate_sync(memory.allocate_sync(1000), 1000);
    test::configure("fail=call:cuCtxSynchronize");
    CHECK(
        THROWN(tarn::error, (void)memory.allocate_sync(1000)).find("cuCtxSynchronize") !=
        std::string::npos);
    CHECK(tarn_resource_live_blocks(memory.get()) == 0);
}

TEST(streams_are_destroyed_with_their_owner)
{
    tarn::stream first(0, true), second;
    const tarn_stream raw = first.get();

    second = std::move(first);
    CHECK(second.get() == raw);
    tarn::stream third = std::move(second);
    CHECK(second.get() == TARN_STREAM_DEFAULT && third.get() == raw);
    third.synchronize();
    CHECK(THROWN(tarn::error, tarn::stream(99)).find("99") != std::string::npos);
    test::warnings warnings;
    {
        tarn::stream fails;
        test::configure("fail=call:cuStreamDestroy");
    }
    test::configure("");
    CHECK(warnings.messages.size() == 1 && warnings.messages[0].find("stream: ") == 0);
}

TEST(buffers_copy_grow_and_shrink)
{
    tarn::stream stream;
    tarn::resource counter = tarn::make_counter(tarn::make_pool());
    const std::string text = "eighty bytes or less";
    std::string back(text.size(), ' ');
    {
        tarn::device_buffer first(text.data(), text.size(), stream, counter);
        tarn::device_buffer second(first, stream, counter);
        second.resize(1000, stream);
        CHECK(second.size() == 1000 && second.capacity() == 1000);
        second.resize(text.size(), stream);
        CHECK(second.size() == text.size() && second.capacity() == 1000);
        second.shrink_to_fit(stream);
        CHECK(second.capacity() == text.size());
        tarn::device_buffer third = std::move(second);
        CHECK(second.size() == 0 && second.data() == nullptr);
        second = std::move(third);
        stream.synchronize();
        second.reserve(4000, tarn::stream_view(TARN_STREAM_PER_THREAD));
        CHECK(second.stream().get() == TARN_STREAM_PER_THREAD);
        CHECK(second.memory_resource() == counter);
        tarn::check(tarn_memcpy_async(0, reinterpret_cast<std::uintptr_t>(&back[0]),
                                      reinterpret_cast<std::uintptr_t>(second.data()),
                                      text.size(), TARN_STREAM_PER_THREAD));
        tarn::check(tarn_stream_synchronize(0, TARN_STREAM_PER_THREAD));
        CHECK(back == text);
        CHECK(counts_of(counter).current_count == 2);
        second.resize(0, stream);
        second.shrink_to_fit(stream);
        CHECK(second.data() == nullptr && second.capacity() == 0);
        second.resize(10, stream);
        CHECK(second.size() == 10);
    }
    CHECK(counts_of(counter).current_count == 0 && counts_of(counter).current_bytes == 0);
    tarn::device_buffer empty(0);
    CHECK(empty.data() == nullptr && empty.size() == 0);
    empty.set_stream(stream);
}

TEST(a_buffer_that_cannot_grow_is_unchanged)
{
    tarn::stream stream;
    tarn::resource limiter = tarn::make_limiter(tarn::make_cuda(), 1024);
    tarn::device_buffer buffer(500, stream, limiter);
    const void *data = buffer.data();

    THROWN(tarn::out_of_memory, buffer.resize(2000, stream));
    CHECK(buffer.size() == 500 && buffer.data() == data && buffer.capacity() == 500);
    test::configure("fail=call:cuMemcpyAsync");
    CHECK(THROWN(tarn::error, buffer.resize(510, stream)).size() > 0);
    CHECK(buffer.size() == 500 && buffer.data() == data);
}

TEST(buffers_use_the_current_resource)
{
    tarn::resource counter = tarn::make_counter(tarn::make_cuda());
    tarn::resource before = tarn::set_current_device_resource(counter);
    {
        tarn::device_buffer buffer(100);
        CHECK(counts_of(counter).current_bytes == 100);
        CHECK(buffer.memory_resource() == tarn::current_device_resource());
    }
    CHECK(tarn::set_current_device_resource(before) == counter);
    CHECK(counts_of(counter).current_bytes == 0);
}

TEST(loggers_write_the_rows_of_their_calls)
{
    char path[] = "/tmp/tarn-cpp-XXXXXX";
    close(mkstemp(path));
    {
        tarn::resource logger =
            tarn::make_logger(tarn::make_cuda(), path, TARN_TRACE_RMM);
        logger.deallocate({}, logger.allocate({}, 12345), 12345);
    }
    FILE *file = std::fopen(path, "r");
    char text[1000];
    text[std::fread(text, 1, sizeof text - 1, file)] = 0;
    std::fclose(file);
    unlink(path);
    CHECK(std::strstr(text, ",allocate,") && std::strstr(text, ",free,"));
    CHECK(std::strstr(text, ",12345,"));
    CHECK(
        THROWN(tarn::error, tarn::make_logger(tarn::make_cuda(), "/nowhere/log")).size() >
        0);
}

TEST(threads_share_a_resource_by_copies)
{
    tarn::resource pool = tarn::make_pool();
    std::vector<std::thread> threads;

    for (int i = 0; i < 4; i++)
        threads.emplace_back([pool] {
            tarn::stream stream;
            for (int round = 0; round < 200; round++) {
                tarn::resource copy = pool;
                tarn::device_buffer buffer(1000, stream, std::move(copy));
            }
            stream.synchronize();
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(tarn_resource_live_blocks(pool.get()) == 0);
}
