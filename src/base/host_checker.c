/* host_checker.c -- a checker of host memory that runs this process.
 *
 * AddressSanitizer's runtime has functions for this, which are there if the program has it.
 * Valgrind takes requests: a sequence of instructions without an effect elsewhere, which its
 * manual documents for x86-64. RAX is the address of six words: the request and its arguments.
 * RDX gets the answer.
 */
#include "base/host_checker.h"

extern void __asan_poison_memory_region(const volatile void *address, size_t bytes)
    __attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *address, size_t bytes)
    __attribute__((weak));

enum request {
    RUNS_ON_VALGRIND = 0x1001,
    /* memcheck's: its letters M and C in the upper bytes */
    MAKE_NO_ACCESS = 0x4d430000,
    MAKE_DEFINED = 0x4d430002,
};

/* Return Valgrind's answer; 0 without Valgrind. */
static uint64_t request(enum request code, uint64_t address, uint64_t bytes)
{
#if defined(__x86_64__)
    const volatile uint64_t words[6] = {code, address, bytes};
    uint64_t answer = 0;

    __asm__ volatile(
        "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
        "xchgq %%rbx, %%rbx"
        : "=d"(answer)
        : "a"(words), "0"(answer)
        : "cc", "memory");
    return answer;
#else
    (void)code, (void)address, (void)bytes;
    return 0;
#endif
}

static bool has_asan(void)
{
    return __asan_poison_memory_region && __asan_unpoison_memory_region;
}

bool tarn__host_checker_is_present(void)
{
    return has_asan() || request(RUNS_ON_VALGRIND, 0, 0) > 0;
}

void tarn__host_checker_forbid(uint64_t address, size_t bytes)
{
    if (has_asan())
        __asan_poison_memory_region((void *)(uintptr_t)address, bytes);
    else
        request(MAKE_NO_ACCESS, address, bytes);
}

void tarn__host_checker_allow(uint64_t address, size_t bytes)
{
    if (has_asan())
        __asan_unpoison_memory_region((void *)(uintptr_t)address, bytes);
    else
        request(MAKE_DEFINED, address, bytes);
}
