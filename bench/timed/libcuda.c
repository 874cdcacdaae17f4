/* libcuda.c -- a driver between Tarn and the real one that measures each call.
 *
 *     TARN_DRIVER=build/release/bench/timed/libcuda.so.1 build/release/bin/bench-peers ...
 *
 * The calls of a pool are counted, timed and passed on. All others go directly to the
 * driver that TARN_TIMED names (default: libcuda.so.1). A program marks the begin and the
 * end of a pass (bench_timed_pass()). With TARN_TIMED_PASSES set, a table on standard
 * error has calls, time and bytes of each pass. The clock itself is 20 to 40 ns of each
 * call. tarn_timed_calls() returns the number of counted calls so far.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* Each takes six words at most; missing arguments are ignored. */
typedef int call_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
typedef int get_fn(const char *symbol, void **out, int version, uint64_t flags, int *how);

/* X(symbol, index of the argument with bytes, or -1, COUNTED or LEFT_OUT of the total).
 * Left out are queries of streams and contexts, which the driver answers without its lock
 * of the device. The total is what a pool reports as `driver_calls`; counts.c compares
 * them. */
enum { LEFT_OUT, COUNTED };
#define TIMED(X)                                       \
    X(cuMemAddressReserve, 1, COUNTED)                 \
    X(cuMemAddressFree, 1, COUNTED)                    \
    X(cuMemCreate, 1, COUNTED)                         \
    X(cuMemRelease, -1, COUNTED)                       \
    X(cuMemMap, 1, COUNTED)                            \
    X(cuMemUnmap, 1, COUNTED)                          \
    X(cuMemSetAccess, 1, COUNTED)                      \
    X(cuMemRetainAllocationHandle, -1, COUNTED)        \
    X(cuMemHostAlloc, 1, COUNTED)                      \
    X(cuMemFreeHost, -1, COUNTED)                      \
    X(cuMemcpyAsync, -1, COUNTED)                      \
    X(cuUserObjectCreate, -1, COUNTED)                 \
    X(cuUserObjectRelease, -1, COUNTED)                \
    X(cuGraphRetainUserObject, -1, COUNTED)            \
    X(cuStreamCreate, -1, COUNTED)                     \
    X(cuStreamDestroy, -1, COUNTED)                    \
    X(cuMemGetInfo, -1, COUNTED)                       \
    X(cuMemAlloc, 1, COUNTED)                          \
    X(cuMemFree, -1, COUNTED)                          \
    X(cuMemAllocFromPoolAsync, 1, COUNTED)             \
    X(cuMemFreeAsync, -1, COUNTED)                     \
    X(cuMemPoolTrimTo, -1, COUNTED)                    \
    X(cuMemPoolSetAttribute, -1, COUNTED)              \
    X(cuMemPoolGetAttribute, -1, COUNTED)              \
    X(cuCtxSynchronize, -1, COUNTED)                   \
    X(cuCtxRecordEvent, -1, COUNTED)                   \
    X(cuStreamSynchronize, -1, COUNTED)                \
    X(cuStreamQuery, -1, COUNTED)                      \
    X(cuStreamWaitEvent, -1, COUNTED)                  \
    X(cuStreamGetFlags, -1, COUNTED)                   \
    X(cuStreamGetCtx, -1, COUNTED)                     \
    X(cuEventCreate, -1, COUNTED)                      \
    X(cuEventRecord, -1, COUNTED)                      \
    X(cuEventQuery, -1, COUNTED)                       \
    X(cuEventSynchronize, -1, COUNTED)                 \
    X(cuEventDestroy, -1, COUNTED)                     \
    X(cuStreamIsCapturing, -1, LEFT_OUT)               \
    X(cuStreamGetCaptureInfo, -1, LEFT_OUT)            \
    X(cuStreamGetId, -1, LEFT_OUT)                     \
    X(cuThreadExchangeStreamCaptureMode, -1, LEFT_OUT) \
    X(cuCtxGetId, -1, LEFT_OUT)                        \
    X(cuCtxGetDevice, -1, LEFT_OUT)                    \
    X(cuCtxGetCurrent, -1, LEFT_OUT)                   \
    X(cuCtxPushCurrent, -1, LEFT_OUT)                  \
    X(cuCtxPopCurrent, -1, LEFT_OUT)

#define X(symbol, bytes, counted) AT_##symbol,
enum { TIMED(X) CALLS };
#undef X

static struct {
    const char *name;
    call_fn *real;
    unsigned long long calls, bytes, ns, longest_ns;
} timed[CALLS];

static unsigned long long now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000ULL +
           (unsigned long long)time.tv_nsec;
}

/* Calls of the COUNTED functions since the driver was loaded. */
static unsigned long long total;

static void note(int at, unsigned long long bytes, unsigned long long ns, int counted)
{
    if (counted)
        __atomic_add_fetch(&total, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&timed[at].calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&timed[at].bytes, bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&timed[at].ns, ns, __ATOMIC_RELAXED);
    if (ns > timed[at].longest_ns)
        timed[at].longest_ns = ns;
}

#define X(symbol, which, counted)                                                   \
    static int timed_##symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,   \
                              uintptr_t e, uintptr_t f)                             \
    {                                                                               \
        unsigned long long start = now_ns();                                        \
        int result = timed[AT_##symbol].real(a, b, c, d, e, f);                     \
                                                                                    \
        note(AT_##symbol, which == 1 ? (unsigned long long)b : 0, now_ns() - start, \
             counted);                                                              \
        return result;                                                              \
    }
TIMED(X)
#undef X

static get_fn *driver(void)
{
    static get_fn *found;

    if (!found) {
        const char *name = getenv("TARN_TIMED");
        void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library)
            *(void **)&found = dlsym(library, "cuGetProcAddress_v2");
    }
    return found;
}

/* Replace `*out` by the timed one. */
static void wrap(const char *symbol, void **out)
{
#define X(name_, which, counted)                  \
    if (strcmp(symbol, #name_) == 0) {            \
        timed[AT_##name_].name = #name_;          \
        *(void **)&timed[AT_##name_].real = *out; \
        *out = (void *)timed_##name_;             \
    }
    TIMED(X)
#undef X
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **out, int version,
                               uint64_t flags, int *how);
int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags,
                        int *how)
{
    get_fn *get = driver();
    int result = get ? get(symbol, out, version, flags, how) : 500; /* not found */

    if (result == 0 && *out)
        wrap(symbol, out);
    return result;
}

/* The symbol that identifies a driver. */
EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    void *real = NULL;
    int how = 0;

    return driver() && driver()("cuInit", &real, 2000, 0, &how) == 0
               ? ((int (*)(unsigned))real)(flags)
               : 3;
}

EXPORT uint64_t tarn_timed_calls(void);
uint64_t tarn_timed_calls(void)
{
    return __atomic_load_n(&total, __ATOMIC_RELAXED);
}

EXPORT void tarn_timed_pass(const char *pass);

/* Print the calls since the last mark, under its name; from now on the pass is `pass`. */
void tarn_timed_pass(const char *pass)
{
    static char now[128];
    bool print = now[0] && getenv("TARN_TIMED_PASSES");

    for (int i = 0; i < CALLS; i++) {
        if (timed[i].calls && print)
            fprintf(
                stderr,
                "%s: %-20s %7llu calls %8.3f ms %9.3f us each %9.1f longest %7llu MiB\n",
                now, timed[i].name, timed[i].calls, (double)timed[i].ns / 1e6,
                (double)timed[i].ns / 1e3 / (double)timed[i].calls,
                (double)timed[i].longest_ns / 1e3, timed[i].bytes >> 20);
        timed[i].calls = timed[i].bytes = timed[i].ns = timed[i].longest_ns = 0;
    }
    snprintf(now, sizeof now, "%s", pass ? pass : "");
}
