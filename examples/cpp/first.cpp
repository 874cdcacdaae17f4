// first.cpp -- a limited pool, a buffer on a stream, and running out of memory.
#include <tarn/tarn.hpp>

#include <cstdio>

int main()
{
    tarn::resource memory = tarn::make_limiter(tarn::make_pool(), 1 << 20);
    tarn::stream stream;
    tarn::device_buffer buffer("text", 5, stream, memory);
    try {
        buffer.resize(2 << 20, stream);
    } catch (const tarn::out_of_memory &error) { // also a std::bad_alloc
        std::printf("%s\n", error.what());
    }
}
