// plain.cpp -- a file of the program rmm.cpp that does not include RMM.
#include <tarn/tarn.hpp>

static_assert(!TARN_HPP_RMM);

std::string thrown_without_rmm(const tarn::resource &memory);
tarn::resource make_limiter_without_rmm(std::size_t limit_bytes);

// Return what an allocation throws that is over the limit.
std::string thrown_without_rmm(const tarn::resource &memory)
{
    try {
        (void)tarn::resource(memory).allocate({}, 2000);
    } catch (const tarn::out_of_memory &) {
        return "tarn::out_of_memory";
    } catch (const tarn::error &) {
        return "another exception";
    }
    return "nothing";
}

tarn::resource make_limiter_without_rmm(std::size_t limit_bytes)
{
    return tarn::make_limiter(tarn::make_cuda(), limit_bytes);
}
