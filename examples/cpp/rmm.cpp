// rmm.cpp -- a pool of Tarn as the memory of RMM's clients, cuDF among them.
#include <rmm/device_buffer.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <tarn/tarn.hpp> // after RMM's headers: its exceptions are RMM's

#include <cstdio>

int main()
{
    tarn::stream stream;
    rmm::mr::statistics_resource_adaptor counted(tarn::make_pool());
    rmm::mr::set_per_device_resource(rmm::cuda_device_id{0}, counted);
    rmm::device_buffer buffer(1000, stream, counted);
    std::printf("%lld bytes\n", (long long)counted.get_bytes_counter().value);

    try {
        tarn::make_limiter(tarn::make_cuda(), 100).allocate(stream, 1000);
    } catch (const rmm::out_of_memory &error) {
        std::printf("%s\n", error.what());
    }
}
