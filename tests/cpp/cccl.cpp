// cccl.cpp -- tarn.hpp with CCCL, without RMM: concepts, any_resource, resource_ref.
//
// The header comes once before CCCL's and once after, which is the harder order.
#include <tarn/tarn.hpp>

#include <cuda/memory_resource>

#include <tarn/tarn.hpp>

#include "test.hpp"

namespace mr = cuda::mr;
using device_only = mr::any_resource<mr::device_accessible>;
using both = mr::any_resource<mr::device_accessible, mr::host_accessible>;

static_assert(mr::resource<tarn::resource> && mr::synchronous_resource<tarn::resource>);
static_assert(mr::resource_with<tarn::resource, mr::device_accessible>);
static_assert(!mr::synchronous_resource_with<tarn::resource, mr::host_accessible>);
static_assert(mr::resource_with<tarn::host_device_resource, mr::device_accessible,
                                mr::host_accessible>);
static_assert(mr::synchronous_resource_with<tarn::host_resource, mr::host_accessible>);
static_assert(!mr::synchronous_resource_with<tarn::host_resource, mr::device_accessible>);
static_assert(!mr::resource<tarn::host_resource>);
static_assert(std::is_convertible_v<tarn::resource, device_only>);
static_assert(std::is_convertible_v<tarn::host_device_resource, device_only>);
static_assert(std::is_convertible_v<tarn::host_device_resource, both>);
static_assert(!std::is_convertible_v<tarn::resource, both>);
static_assert(std::is_convertible_v<tarn::stream, cuda::stream_ref>);
static_assert(std::is_convertible_v<cuda::stream_ref, tarn::stream_view>);
static_assert(!std::is_base_of_v<tarn::error, std::bad_alloc>);

TEST(any_resource_owns_a_reference)
{
    tarn::stream stream;
    tarn_pool_options options{};
    options.initial_bytes = 4 << 20;
    const unsigned long long before = test::live_bytes();
    {
        device_only any = tarn::make_pool(0, options);
        device_only copy = any;
        CHECK(any == copy && copy != device_only(tarn::make_cuda()));
        void *block = any.allocate(stream, 1000, 4096);
        CHECK(reinterpret_cast<std::uintptr_t>(block) % 4096 == 0);
        copy.deallocate(stream, block, 1000, 4096);
        block = copy.allocate_sync(1000, 256);
        any.deallocate_sync(block, 1000, 256);
        CHECK(test::live_bytes() >= before + (4 << 20));
    }
    CHECK(test::live_bytes() == before);
}

TEST(resource_ref_borrows_a_resource)
{
    tarn::stream stream;
    tarn::resource limiter = tarn::make_limiter(tarn::make_pool(), 1024);
    mr::resource_ref<mr::device_accessible> ref(limiter);

    void *block = ref.allocate(stream, 1000, 256);
    CHECK(THROWN(std::bad_alloc, (void)ref.allocate(stream, 1000, 256)).find("limiter") ==
          0);
    CHECK(THROWN(tarn::error, (void)ref.allocate_sync(1000, 256)).find("limiter") == 0);
    ref.deallocate(stream, block, 1000, 256);
    CHECK(tarn_resource_live_blocks(limiter.get()) == 0);
}

TEST(pinned_and_managed_memory_is_for_the_host_too)
{
    for (tarn::host_device_resource memory :
         {tarn::make_pinned(), tarn::make_managed()}) {
        both any = memory;
        void *block = any.allocate_sync(1000, 256);
        std::memset(block, 1, 1000);
        any.deallocate_sync(block, 1000, 256);
        mr::synchronous_resource_ref<mr::host_accessible> ref(memory);
        ref.deallocate_sync(ref.allocate_sync(10, 256), 10, 256);
    }
    mr::any_synchronous_resource<mr::host_accessible> host = tarn::make_host();
    host.deallocate_sync(host.allocate_sync(10, 256), 10, 256);
}

TEST(a_free_that_fails_does_not_throw)
{
    device_only any = tarn::make_cuda();
    cuda::stream_ref stream{cudaStream_t{nullptr}};
    void *block = any.allocate(stream, 1000, 256);
    {
        test::warnings warnings;
        test::configure("fail=call:cuMemFree");
        any.deallocate(stream, block, 1000, 256);
        CHECK(warnings.messages.size() == 1);
    }
    test::configure("");
    any.deallocate(stream, block, 1000, 256);
}
