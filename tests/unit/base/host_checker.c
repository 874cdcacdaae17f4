/* Test what AddressSanitizer or Valgrind is told of host memory. WANTED_CHECKER=1: there has to be
 * one. */
#include "base/host_checker.h"
#include "test.h"
#include <stdlib.h>
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_CHECK_MEM_IS_ADDRESSABLE(address, bytes) 0
#define VALGRIND_CHECK_MEM_IS_DEFINED(address, bytes) 0
#endif

extern int __asan_address_is_poisoned(const volatile void *address) __attribute__((weak));

static bool is_forbidden(const unsigned char *byte)
{
    if (__asan_address_is_poisoned)
        return __asan_address_is_poisoned(byte);
    return RUNNING_ON_VALGRIND && VALGRIND_CHECK_MEM_IS_ADDRESSABLE(byte, 1) != 0;
}

TEST(a_checker_of_host_memory_is_told_what_is_forbidden)
{
    enum { BYTES = 4096 };
    bool is_there = __asan_address_is_poisoned || RUNNING_ON_VALGRIND;
    const char *wanted = getenv("WANTED_CHECKER");
    unsigned char *memory = aligned_alloc(256, BYTES);

    CHECK(is_there || !wanted || *wanted == '0');
    CHECK_EQUAL(is_there, tarn__host_checker_is_present());
    tarn__host_checker_forbid((uintptr_t)memory, BYTES);
    CHECK_EQUAL(is_there, is_forbidden(memory));
    CHECK_EQUAL(is_there, is_forbidden(memory + BYTES - 1));
    tarn__host_checker_allow((uintptr_t)memory + 256, 1000);
    CHECK_EQUAL(is_there, is_forbidden(memory + 255));
    CHECK(!is_forbidden(memory + 256));
    CHECK(!is_forbidden(memory + 1255));
    CHECK_EQUAL(0, VALGRIND_CHECK_MEM_IS_DEFINED(memory + 256, 1000));
    CHECK_EQUAL(is_there, is_forbidden(memory + 1256));
    tarn__host_checker_allow((uintptr_t)memory, BYTES);
    CHECK(!is_forbidden(memory) && !is_forbidden(memory + BYTES - 1));
    free(memory);
}
