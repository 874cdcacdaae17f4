// test.hpp -- what the C++ tests share: test cases, checks, the simulator, warnings.
//
// A program has one file with test cases and includes this header once. Its exit status
// is 0 if all cases pass.
#ifndef TARN_TESTS_CPP_TEST_HPP
#define TARN_TESTS_CPP_TEST_HPP

#include <tarn/driver.h>
#include <tarn/sim.h>
#include <tarn/status.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <string>
#include <vector>

namespace test
{

struct test_case {
    const char *name;
    void (*run)();
};

inline std::vector<test_case> &cases()
{
    static std::vector<test_case> all;
    return all;
}

struct registration {
    registration(const char *name, void (*run)())
    {
        cases().push_back({name, run});
    }
};

[[noreturn]] inline void fail(const char *file, int line, const std::string &what)
{
    std::printf("%s:%d: %s\n", file, line, what.c_str());
    std::fflush(stdout);
    std::_Exit(1);
}

// Return a function of the simulator, whose type is `Function`.
template <class Function> Function *simulator(const char *name)
{
    tarn_driver_info info;

    if (tarn_driver_get_info(&info) != TARN_OK)
        fail(__FILE__, __LINE__, tarn_error_last()->message);
    void *library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : nullptr;
    if (!found)
        fail(__FILE__, __LINE__, std::string(name) + " is not in the driver");
    return reinterpret_cast<Function *>(found);
}

// Configure the simulator, as TARN_SIM does.
inline void configure(const char *options)
{
    if (simulator<tarn_sim_configure_fn>("tarn_sim_configure")(options) != 0)
        fail(__FILE__, __LINE__, simulator<tarn_sim_error_fn>("tarn_sim_error")());
}

inline unsigned long long live_bytes()
{
    return simulator<tarn_sim_live_bytes_fn>("tarn_sim_live_bytes")();
}

// The warnings of one scope.
class warnings
{
  public:
    warnings()
    {
        tarn_set_warning_handler(note, this);
    }

    ~warnings()
    {
        tarn_set_warning_handler(unexpected, nullptr);
    }

    std::vector<std::string> messages;

    static void unexpected(void *, const char *message)
    {
        fail("a warning", 0, message);
    }

  private:
    static void note(void *data, const char *message)
    {
        static_cast<warnings *>(data)->messages.emplace_back(message);
    }
};

// Run `code` and return what it throws; the test fails if it throws nothing of that type.
template <class Exception, class Code>
std::string thrown_by(Code &&code, const char *file, int line)
{
    try {
        code();
    } catch (const Exception &exception) {
        return exception.what();
    }
    fail(file, line, "nothing was thrown");
}

} // namespace test

#define TEST(name)                                          \
    static void name();                                     \
    static const test::registration in_##name{#name, name}; \
    static void name()
#define CHECK(condition)                                \
    do {                                                \
        if (!(condition))                               \
            test::fail(__FILE__, __LINE__, #condition); \
    } while (0)
#define FAIL(what) test::fail(__FILE__, __LINE__, what)
#define THROWN(exception, code) \
    test::thrown_by<exception>([&] { code; }, __FILE__, __LINE__)

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    tarn_set_warning_handler(test::warnings::unexpected, nullptr);
    for (const test::test_case &one : test::cases()) {
        try {
            one.run();
        } catch (const std::exception &exception) {
            test::fail(one.name, 0, exception.what());
        }
        test::configure("");
        std::printf("ok %s\n", one.name);
    }
    return 0;
}

#endif
