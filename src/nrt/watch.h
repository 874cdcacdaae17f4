/* watch.h -- what Valgrind and AddressSanitizer are told, where they are there.
 *
 * Their headers are used if the build has them; without them nothing is told. ASan's two
 * calls are weak, so that a libtarn that was built without it serves a program that was
 * built with it.
 */
#ifndef TARN_NRT_WATCH_H
#define TARN_NRT_WATCH_H

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

/* Is anybody watching this process? */
static inline bool tarn__watched(void)
{
#ifdef TARN__VALGRIND
    if (RUNNING_ON_VALGRIND)
        return true;
#endif
    return __asan_poison_memory_region != NULL;
}

/* Nobody may touch these bytes from now on. */
static inline void tarn__watch_forbid(void *memory, size_t bytes)
{
#ifdef TARN__VALGRIND
    VALGRIND_MAKE_MEM_NOACCESS(memory, bytes);
#endif
    if (__asan_poison_memory_region)
        __asan_poison_memory_region(memory, bytes);
}

/* They are somebody's, and have no value yet. */
static inline void tarn__watch_allow(void *memory, size_t bytes)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(memory, bytes);
#ifdef TARN__VALGRIND
    VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes);
#endif
    (void)memory;
    (void)bytes;
}

/* They can be read again, as they are. */
static inline void tarn__watch_show(void *memory, size_t bytes)
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
