/* Test what AddressSanitizer or Valgrind knows of pinned memory: free memory and the bytes behind
 * a block are forbidden. Without such a checker nothing is. WANTED_CHECKER=1: there has to be
 * one. */
#include "test.h"
#include <stdlib.h>
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_CHECK_MEM_IS_ADDRESSABLE(address, bytes) 0
#endif

extern int __asan_address_is_poisoned(const volatile void *address) __attribute__((weak));

static bool has_checker(void)
{
    bool is_there = __asan_address_is_poisoned || RUNNING_ON_VALGRIND;
    const char *wanted = getenv("WANTED_CHECKER");

    CHECK(is_there || !wanted || *wanted == '0');
    return is_there;
}

static bool is_forbidden(tarn_device_ptr address)
{
    const void *pointer = (const void *)(uintptr_t)address;

    if (__asan_address_is_poisoned)
        return __asan_address_is_poisoned(pointer);
    return RUNNING_ON_VALGRIND && VALGRIND_CHECK_MEM_IS_ADDRESSABLE(pointer, 1) != 0;
}

static tarn_device_ptr take(tarn_resource *resource, size_t bytes)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(resource, bytes, 0, NULL, &block));
    CHECK(!is_forbidden(block));
    CHECK(!is_forbidden(block + bytes - 1));
    CHECK_EQUAL(has_checker(), is_forbidden(block + bytes));
    memset((void *)(uintptr_t)block, 1, bytes); /* a checker reports an error here */
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, bytes, 0, NULL));
}

TEST(free_memory_of_a_pool_over_pinned_memory_is_forbidden)
{
    tarn_resource *pinned, *pool;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    CHECK_OK(tarn_pool_create(0, pinned, NULL, &pool));
    CHECK_OK(tarn_resource_release(pinned));
    tarn_device_ptr one = take(pool, 1000), two = take(pool, 3000);
    put(pool, one, 1000);
    CHECK_EQUAL(has_checker(), is_forbidden(one));
    CHECK_EQUAL(has_checker(), is_forbidden(one + 999));
    CHECK(!is_forbidden(two));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(pool, two, 77, 0, NULL));
    CHECK(!is_forbidden(two));
    for (size_t bytes = 1; bytes < 100000; bytes = 3 * bytes + 1)
        put(pool, take(pool, bytes), bytes);
    put(pool, two, 3000);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(the_bytes_behind_a_pinned_block_are_forbidden)
{
    tarn_resource *pinned;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    tarn_device_ptr block = take(pinned, 1000);
    put(pinned, block, 1000);
    CHECK_OK(tarn_resource_release(pinned));
}

TEST(memory_of_a_device_is_not_forbidden)
{
    tarn_resource *pinned, *pool;
    tarn_device_ptr block;

    CHECK_OK(tarn_pinned_create(0, &pinned)); /* a checker is told from now on */
    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    CHECK_OK(tarn_resource_allocate(pool, 1000, 0, NULL, &block));
    if (__asan_address_is_poisoned)
        CHECK(!is_forbidden(block + 1000));
    put(pool, block, 1000);
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_resource_release(pinned));
}

/* Guard mode copies bytes outside of blocks. This test is the last one: it ends the annotations. */
TEST(guard_mode_allows_all_memory)
{
    tarn_resource *pinned, *guard;
    tarn_device_ptr block;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    CHECK_OK(tarn_guard_create(pinned, NULL, &guard));
    CHECK_OK(tarn_resource_allocate(guard, 1000, 0, NULL, &block));
    CHECK(!is_forbidden(block + 1000));
    put(guard, block, 1000);
    CHECK_OK(tarn_resource_release(guard));
    CHECK_OK(tarn_resource_release(pinned));
}
