/* nrt.h -- counted memory: the MemInfo of Numba's runtime, in instances.
 *
 * A MemInfo is 48 bytes, laid out as Numba's (compiled code reads its count and its data
 * directly). A runtime is an instance with counters of its own: pointers to device memory
 * have one, compiled code another, so that shutting one down cannot touch the other.
 * This is the beginning: create, acquire, release, destructor. Source: seed 004, F2, F6.
 */
#ifndef TARN_NRT_H
#define TARN_NRT_H

#include <tarn/status.h>

TARN_BEGIN_DECLS

/** Called once, when the last reference goes: the data, its size, and what was given with
 *  the destructor. */
typedef void (*tarn_meminfo_destructor)(void *data, size_t size, void *info);

/** The counted block. Opaque to users; 48 bytes, offsets as Numba's. The runtime that a
 *  block belongs to is written in a header in front of them. */
typedef struct tarn_meminfo tarn_meminfo;

/** An instance of the runtime. */
typedef struct tarn_runtime tarn_runtime;

/** Make an instance; release it when all its blocks are back (else TARN_STILL_IN_USE, and
 *  the words say how many). `name` is copied, for messages. Any thread, but no other call
 *  on the instance may be under way while it is released. */
TARN_API tarn_status tarn_runtime_create(const char *name, tarn_runtime **out);
TARN_API tarn_status tarn_runtime_release(tarn_runtime *runtime);

/** Counters of an instance: MemInfos made and gone. Exact when no call is under way; else
 *  never more gone than made. */
typedef struct tarn_runtime_counts {
    uint64_t created;
    uint64_t destroyed;
} tarn_runtime_counts;
TARN_API void tarn_runtime_counts_read(tarn_runtime *runtime, tarn_runtime_counts *out);

/** A new MemInfo with one reference over `data` (host or device address, NULL allowed);
 * the destructor (may be NULL) is called with `data`, `size` and `info` at the last
 * release. */
TARN_API tarn_status tarn_meminfo_create(tarn_runtime *runtime, void *data, size_t size,
                                         tarn_meminfo_destructor destructor, void *info,
                                         tarn_meminfo **out);
/** One reference more. Any thread; never fails. */
TARN_API void tarn_meminfo_acquire(tarn_meminfo *meminfo);
/** One reference less; at zero the destructor runs on this thread. Any thread. */
TARN_API void tarn_meminfo_release(tarn_meminfo *meminfo);
TARN_API void *tarn_meminfo_data(const tarn_meminfo *meminfo);
TARN_API size_t tarn_meminfo_size(const tarn_meminfo *meminfo);
TARN_API size_t tarn_meminfo_count(const tarn_meminfo *meminfo);

TARN_END_DECLS
#endif
