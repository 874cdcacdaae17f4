/* sanitizer.h -- sanitizer annotations: notify Valgrind and AddressSanitizer where they
 * run.
 *
 * Their headers are used if the build has them; without them nothing is annotated. ASan's
 * two calls are weak, so that a libtarn that was built without ASan works in a program
 * built with it.
 */
#ifndef TARN_NRT_SANITIZER_H
#define TARN_NRT_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TARN__VALGRIND 1
#endif
#endif

void __asan_poison_memory_region(void const volatile *memory, size_t bytes)
    __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *memory, size_t bytes)
    __attribute__((weak));

/* Does a sanitizer watch this process? */
static inline bool tarn__sanitizer_is_present(void)
{
#ifdef TARN__VALGRIND
    if (RUNNING_ON_VALGRIND)
        return true;
#endif
    return __asan_poison_memory_region != NULL;
}

/* These bytes may not be accessed from now on. */
static inline void tarn__sanitizer_no_access(void *memory, size_t bytes)
{
#ifdef TARN__VALGRIND
    VALGRIND_MAKE_MEM_NOACCESS(memory, bytes);
#endif
    if (__asan_poison_memory_region)
        __asan_poison_memory_region(memory, bytes);
}

/* These bytes are allocated, and have no value yet. */
static inline void tarn__sanitizer_undefined(void *memory, size_t bytes)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(memory, bytes);
#ifdef TARN__VALGRIND
    VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes);
#endif
    (void)memory;
    (void)bytes;
}

/* These bytes can be read again, with their values. */
static inline void tarn__sanitizer_defined(void *memory, size_t bytes)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(memory, bytes);
#ifdef TARN__VALGRIND
    VALGRIND_MAKE_MEM_DEFINED(memory, bytes);
#endif
    (void)memory;
    (void)bytes;
}

#endif
