// torch.cpp -- failures of tarn_torch_allocate() are PyTorch's exceptions.
//
// Without PyTorch's classes they are std::runtime_error. Then a library with these classes is
// loaded: c10.cpp, named libc10.so, in the folder that C10_FOLDER names.
#include <tarn/tarn.h>

#include <cstdint>
#include <stdexcept>
#include <thread>
#include <typeinfo>

#include "test.hpp"

static const char *const out_of_memory = "N3c1016OutOfMemoryErrorE";
static const char *const error_class = "N3c105ErrorE";

struct failure {
    std::string type, text;
};

// Call a function, and return what it throws.
template <class Call> failure failure_of(Call call)
{
    try {
        call();
    } catch (const std::exception &error) {
        return {typeid(error).name(), error.what()};
    }
    return {"nothing", ""};
}

static failure failure_of_bytes(std::size_t bytes, int device = 0)
{
    return failure_of([=] { tarn_torch_allocate(bytes, device, nullptr); });
}

static bool begins(const std::string &text, const std::string &part)
{
    return text.compare(0, part.size(), part) == 0;
}

// The pool of PyTorch's memory on device 0, of at most 4 MiB.
struct service {
    tarn_resource *pool = nullptr;

    service()
    {
        tarn_pool_options options = {};
        options.size = sizeof options;
        options.maximum_bytes = 4 << 20;
        CHECK(tarn_pool_create(0, nullptr, &options, &pool) == TARN_OK);
        CHECK(tarn_torch_set_resource(0, pool) == TARN_OK);
    }
    ~service()
    {
        CHECK(tarn_torch_set_resource(0, nullptr) == TARN_OK);
        CHECK(tarn_resource_release(pool) == TARN_OK);
    }
};

static void load_classes()
{
    std::string folder = std::getenv("C10_FOLDER");

    CHECK(dlopen((folder + "/libc10.so").c_str(), RTLD_NOW) != nullptr);
}

TEST(without_pytorch_out_of_memory_is_a_runtime_error_with_its_text)
{
    service here;

    CHECK(tarn_torch_check() == TARN_NOT_FOUND);
    CHECK(std::strstr(tarn_error_last()->message, "c10") != nullptr);
    failure found = failure_of_bytes(8 << 20);
    CHECK(found.type == typeid(std::runtime_error).name());
    CHECK(begins(found.text,
                 "CUDA out of memory. Tried to allocate 8.00 MiB. GPU 0. pool: "));
}

TEST(with_pytorch_out_of_memory_is_its_exception_with_the_report)
{
    service here;

    load_classes();
    CHECK(tarn_torch_check() == TARN_OK);
    failure found = failure_of_bytes(8 << 20);
    CHECK(found.type == out_of_memory);
    CHECK(begins(found.text,
                 "CUDA out of memory. Tried to allocate 8.00 MiB. GPU 0. pool: "));
    CHECK(found.text.find("\nrequested         8 MiB") != std::string::npos);
    CHECK(failure_of_bytes(std::size_t(1) << 40).type == out_of_memory);
    CHECK(failure_of_bytes(SIZE_MAX).type == out_of_memory);
    CHECK(failure_of_bytes(5000 << 10).text.find("allocate 4.88 MiB.") !=
          std::string::npos);
    void *block = tarn_torch_allocate(1 << 20, 0, nullptr);
    CHECK(block != nullptr);
    tarn_torch_deallocate(block, 1 << 20, 0, nullptr);
}

TEST(other_failures_are_pytorchs_error)
{
    service here;

    failure found = failure_of_bytes(100, 99);
    CHECK(found.type == error_class);
    CHECK(begins(found.text, "torch: device 99 does not exist"));
    CHECK(tarn_pool_suspend(here.pool, TARN_POOL_SUSPEND_DISCARD) == TARN_OK);
    found = failure_of_bytes(100);
    CHECK(found.type == error_class);
    CHECK(found.text.find("suspended") != std::string::npos);
    CHECK(tarn_pool_resume(here.pool) == TARN_OK);
    void *block = tarn_torch_allocate(1 << 20, 0, nullptr);
    found = failure_of([] { tarn_torch_set_memory_fraction(0, 0); });
    CHECK(found.type == error_class);
    CHECK(found.text.find("below the 1048576 live bytes") != std::string::npos);
    tarn_torch_deallocate(block, 1 << 20, 0, nullptr);
}

TEST(failures_are_counted)
{
    tarn_torch_statistics all = {};

    all.size = sizeof all;
    CHECK(tarn_torch_get_statistics(0, &all) == TARN_OK);
    CHECK(all.out_of_memory == 5);
    CHECK(all.active[TARN_TORCH_ALL].current == 0);
}

// Exceptions of several threads at once, each with its own text.
TEST(threads_throw_at_once)
{
    service here;
    std::vector<std::thread> threads;

    for (int i = 0; i < 4; i++)
        threads.emplace_back([i] {
            for (int turn = 0; turn < 200; turn++) {
                failure found = failure_of_bytes((std::size_t(i) + 8) << 20);
                CHECK(found.type == out_of_memory);
                CHECK(begins(found.text, "CUDA out of memory. Tried to allocate " +
                                             std::to_string(i + 8) + ".00 MiB."));
            }
        });
    for (auto &thread : threads)
        thread.join();
}

static unsigned long long faults()
{
    return test::simulator<tarn_sim_faults_fn>("tarn_sim_faults")();
}

// Allocate, record a stream, free, and wait for the stream; whatever fails, the block has to
// come back.
static void use_two_streams(tarn_stream one, tarn_stream other)
{
    void *block = nullptr;

    failure found = failure_of([&] { block = tarn_torch_allocate(1 << 20, 0, one); });
    CHECK((block != nullptr) == (found.type == "nothing"));
    CHECK(block != nullptr || found.type == error_class || found.type == out_of_memory);
    failure_of([&] { tarn_torch_record_stream(block, other); });
    tarn_torch_deallocate(block, 1 << 20, 0, one);
    (void)tarn_stream_synchronize(0, other);
    tarn_torch_empty_cache();
}

static std::uint64_t active_blocks()
{
    tarn_torch_statistics all = {};

    all.size = sizeof all;
    CHECK(tarn_torch_get_statistics(0, &all) == TARN_OK);
    return all.active[TARN_TORCH_ALL].current;
}

// Each driver call of a scenario fails once.
TEST(memory_comes_back_whichever_driver_call_fails)
{
    service here;
    test::warnings heard;
    tarn_stream one, other;

    CHECK(tarn_stream_create(0, true, &one) == TARN_OK);
    CHECK(tarn_stream_create(0, true, &other) == TARN_OK);
    for (unsigned nth = 1, failed = 1; failed > 0; nth++) {
        test::configure(("fail=nth:" + std::to_string(nth)).c_str());
        use_two_streams(one, other);
        failed = unsigned(faults());
        test::configure("");
        use_two_streams(one, other);
        CHECK(active_blocks() == 0);
        tarn_pool_statistics all = {};
        all.size = sizeof all;
        CHECK(tarn_pool_get_statistics(here.pool, &all) == TARN_OK);
        if (all.live_blocks != 0)
            FAIL("call " + std::to_string(nth) + " loses " +
                 std::to_string(all.live_blocks));
    }
    CHECK(tarn_stream_destroy(0, one) == TARN_OK);
    CHECK(tarn_stream_destroy(0, other) == TARN_OK);
}
