/* nrt.h -- counted memory: the MemInfo of Numba's runtime, in independent instances.
 *
 * A MemInfo is a reference-counted block. It is 48 bytes and laid out as Numba's, because
 * compiled code reads its count and its data address directly.
 *
 * A runtime (tarn_runtime) is an instance. Each instance has its own:
 *
 *   counters         tarn_runtime_stats_read()
 *   allocator        tarn_runtime_set_allocator()
 *   debug modes      tarn_runtime_set_modes()
 *   shutdown state   tarn_runtime_shutdown()
 *   function table   tarn_runtime_api()
 *
 * Tarn's device pointers use one instance and compiled code uses another. So a shutdown
 * of one cannot affect the memory of the other.
 *
 *   tarn/nrt_external.h   the function table alone, as Numba's header of that name
 *   tarn/nrt_names.h      Numba's names, such as NRT_MemInfo_alloc(); default instance
 *   tarn/nrt_resource.h   a memory resource as an allocator of an instance
 *
 * A call that fails leaves its outputs untouched and its message in tarn_error_last().
 * Misuse that a call detects, such as a second release, goes to the handler of
 * tarn_nrt_set_misuse_handler(). For "thread cache" see docs/glossary.md.
 */
#ifndef TARN_NRT_H
#define TARN_NRT_H

#include <tarn/nrt_external.h>
#include <tarn/nrt_names.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_runtime
 * @{ */

/** Finalizes the data of a MemInfo, once, when the last reference ends.
 *
 * `data` and `size` are those of the MemInfo. `info` is the pointer that the caller
 * passed together with the destructor.
 *
 * The runtime calls it on the thread that released the last reference, with no lock held.
 * It may call Tarn. After tarn_runtime_shutdown() the runtime no longer calls it. */
typedef void (*tarn_meminfo_destructor)(void *data, size_t size, void *info);

/** A reference-counted block of memory.
 *
 * The type is opaque to users. Its 48 bytes have the offsets of Numba's MemInfo. A header
 * in front of them names the runtime that the block belongs to. */
typedef struct MemInfo tarn_meminfo;

/** An instance of the runtime. */
typedef struct tarn_runtime tarn_runtime;

/* --- instances ---------------------------------------------------------------------- */

/** Returns the default instance, which Numba's names work on.
 *
 * The instance exists from the start and is never released.
 * Thread-safety: any thread.
 *
 * @return The default instance; never NULL.
 * @since 0.1 */
TARN_API tarn_runtime *tarn_runtime_default(void);

/** Creates an instance.
 *
 * At most 63 created instances exist at a time. tarn_runtime_release() ends one.
 * Thread-safety: any thread.
 *
 * @param name The name that messages use; copied, at most 31 bytes of it. Not NULL.
 * @param[out] out The new instance; the caller owns it.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: `name` or `out` is NULL.
 *   - TARN_OUT_OF_MEMORY: host memory is exhausted, or 63 instances exist already.
 * @since 0.1 */
TARN_API tarn_status tarn_runtime_create(const char *name, tarn_runtime **out);

/** Ends an instance that has no live blocks.
 *
 * Thread-safety: any thread, but no other thread may be in a call on the instance.
 *
 * @param runtime The instance; ownership is transferred on success. NULL does nothing.
 * @return The outcome:
 *   - TARN_OK: the instance and its memory are released, or `runtime` was NULL.
 *   - TARN_INVALID_ARGUMENT: `runtime` is the default instance.
 *   - TARN_STILL_IN_USE: MemInfos or blocks are live. The message has their number.
 * @since 0.1 */
TARN_API tarn_status tarn_runtime_release(tarn_runtime *runtime);

/** Sets the allocator that an instance takes memory from.
 *
 * The allocator may change at any time: each block returns to the allocator it came from.
 * An instance accepts at most 15 different allocators besides libc in its life. It keeps
 * chunks for small blocks until tarn_runtime_trim() or tarn_runtime_release(). The
 * functions of the allocator and its `opaque_data` have to stay valid until then.
 *
 * `realloc` may be NULL: the runtime then allocates, copies and frees. `malloc` is to
 * return addresses at multiples of 16. The runtime uses other addresses without
 * correcting them. The runtime calls the allocator with no lock held.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param allocator The allocator; copied. NULL selects libc.
 * @return The outcome:
 *   - TARN_OK: later allocations use the allocator.
 *   - TARN_INVALID_ARGUMENT: `runtime` is NULL, or `malloc` or `free` is NULL.
 *   - TARN_OUT_OF_MEMORY: the instance has used 15 other allocators.
 * @since 0.1 */
TARN_API tarn_status tarn_runtime_set_allocator(tarn_runtime *runtime,
                                                const NRT_ExternalAllocator *allocator);

/** Returns the function table of an instance, with functions that create MemInfos in it.
 *
 * The table stays valid after the instance is released. The functions that create
 * MemInfos then return NULL and leave a message. A later instance in the same place uses
 * the table again. The table of the default instance is that of NRT_get_api().
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @return The table; static storage, never NULL.
 * @since 0.1 */
TARN_API const NRT_api_functions *tarn_runtime_api(tarn_runtime *runtime);

/** Stops or resumes the calling of destructors.
 *
 * After a shutdown the runtime calls no destructor, but still releases memory.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param is_shut_down True shuts the instance down, false ends the shutdown.
 * @since 0.1 */
TARN_API void tarn_runtime_shutdown(tarn_runtime *runtime, bool is_shut_down);

/** Returns unused memory to the allocators that it came from.
 *
 * This covers chunks of small blocks and all blocks in quarantine. Small blocks in the
 * thread caches of other threads stay there.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @return The bytes that left quarantine plus the bytes of freed chunks.
 * @since 0.1 */
TARN_API size_t tarn_runtime_trim(tarn_runtime *runtime);

/* --- MemInfos ----------------------------------------------------------------------- */

/** Creates a MemInfo with one reference over existing memory.
 *
 * At the last release the runtime calls `destructor` with `data`, `size` and `info`.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param data The host or device address of the memory; borrowed. NULL is allowed.
 * @param size The size of the memory in bytes; recorded only.
 * @param destructor The finalizer of the data; NULL: none.
 * @param info The last argument of the destructor; borrowed. NULL is allowed.
 * @param[out] out The new MemInfo; the caller owns its reference.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: `runtime` or `out` is NULL.
 *   - TARN_OUT_OF_MEMORY: the allocator has no memory.
 * @since 0.1 */
TARN_API tarn_status tarn_meminfo_create(tarn_runtime *runtime, void *data, size_t size,
                                         tarn_meminfo_destructor destructor, void *info,
                                         tarn_meminfo **out);

/** Options of tarn_meminfo_allocate(). */
typedef struct tarn_meminfo_options {
    /** sizeof(tarn_meminfo_options), set by the caller. */
    size_t size;
    /** Bytes of memory behind the MemInfo; 0 is allowed. */
    size_t bytes;
    /** Alignment of the memory in bytes, any number; 0: 16. */
    size_t alignment;
    /** Finalizer, called before the memory is freed; NULL: none. */
    tarn_meminfo_destructor destructor;
    /** Last argument of the destructor; borrowed. */
    void *info;
    /** Allocator of this block; borrowed, has to live as long as the block. NULL: the
     *  instance's allocator. */
    NRT_ExternalAllocator *allocator;
    /** Fill the memory with 0xCB at creation and with 0xDE at its end. */
    bool poison;
    /** Label in leak reports; borrowed, not copied. NULL: the label of the thread. */
    const char *label;
} tarn_meminfo_options;

/** Creates a MemInfo with one reference and memory of its own.
 *
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param options The options, `size` set; read during the call. Not NULL.
 * @param[out] out The new MemInfo; the caller owns its reference.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL, `options->size` is too small, or an
 *     option is set that this version does not know.
 *   - TARN_OUT_OF_MEMORY: the allocator has no memory, or the size cannot be addressed.
 * @since 0.1 */
TARN_API tarn_status tarn_meminfo_allocate(tarn_runtime *runtime,
                                           const tarn_meminfo_options *options,
                                           tarn_meminfo **out);

/** Adds a reference; never fails.
 *
 * Thread-safety: any thread.
 *
 * @param meminfo The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_meminfo_acquire(tarn_meminfo *meminfo);

/** Ends a reference; the last one calls the destructor and frees the memory.
 *
 * The destructor runs on the calling thread.
 * Thread-safety: any thread.
 *
 * @param meminfo The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_meminfo_release(tarn_meminfo *meminfo);

/** Returns the data address of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param meminfo The MemInfo; not NULL.
 * @return The host or device address of the data; borrowed.
 * @since 0.1 */
TARN_API void *tarn_meminfo_data(const tarn_meminfo *meminfo);

/** Returns the size of a MemInfo, as specified at its creation.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param meminfo The MemInfo; not NULL.
 * @return The size in bytes.
 * @since 0.1 */
TARN_API size_t tarn_meminfo_size(const tarn_meminfo *meminfo);

/** Returns the current number of references of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference. Other threads may change the number.
 *
 * @param meminfo The MemInfo; not NULL.
 * @return The number of references.
 * @since 0.1 */
TARN_API size_t tarn_meminfo_count(const tarn_meminfo *meminfo);

/** Returns true if a MemInfo has the given destructor, and reports its `info`.
 *
 * Language bindings that keep an owner in `info` recognise their MemInfos with it.
 * Thread-safety: any thread that owns a reference.
 *
 * @param meminfo The MemInfo; NULL has no destructor.
 * @param destructor The destructor to compare with.
 * @param[out] info_out The `info` of the MemInfo if the result is true. NULL is allowed.
 * @return True if the destructor of `meminfo` is `destructor`.
 * @since 0.1 */
TARN_API bool tarn_meminfo_has_destructor(const tarn_meminfo *meminfo,
                                          tarn_meminfo_destructor destructor,
                                          void **info_out);

/** Returns the instance that a MemInfo belongs to.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param meminfo The MemInfo; NULL is allowed.
 * @return The instance; borrowed. NULL, with a message, if `meminfo` is not a live
 *   MemInfo.
 * @since 0.1 */
TARN_API tarn_runtime *tarn_meminfo_runtime(const tarn_meminfo *meminfo);

/* --- statistics --------------------------------------------------------------------- */

/** Numbers of MemInfos of an instance.
 *
 * They are exact when no call on the instance is under way. Otherwise `destroyed` is
 * never larger than `created`. */
typedef struct tarn_runtime_counts {
    /** MemInfos created so far. */
    uint64_t created;
    /** MemInfos destroyed so far. */
    uint64_t destroyed;
} tarn_runtime_counts;

/** Reads the numbers of MemInfos of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param[out] out The numbers; not NULL.
 * @since 0.1 */
TARN_API void tarn_runtime_counts_read(tarn_runtime *runtime, tarn_runtime_counts *out);

/** Constants of the statistics. */
enum {
    TARN_NRT_HISTOGRAM = 48 /**< Buckets of tarn_runtime_stats.histogram. */
};

/** Statistics of an instance.
 *
 * The instance always counts, each thread on its own, and adds the counts of ended
 * threads. Sizes are requested bytes without headers, except `bytes_chunks` and
 * `bytes_quarantine`.
 *
 * The numbers are exact when no call on the instance is under way. `bytes_peak` is exact
 * with one thread. With several threads it may be off by 64 KiB per thread. For a thread
 * that allocates and frees a larger block over and over it may be off by that block, if
 * the block has 16 MiB at most. */
typedef struct tarn_runtime_stats {
    /** sizeof(tarn_runtime_stats), set by the caller. */
    size_t size;
    /** Blocks allocated: MemInfos with their memory, and memory without a MemInfo. */
    uint64_t alloc;
    /** Blocks freed. */
    uint64_t free;
    /** MemInfos created. */
    uint64_t mi_alloc;
    /** MemInfos destroyed. */
    uint64_t mi_free;
    /** Failed allocations; no other counter includes them. */
    uint64_t failed;
    /** Detected misuses, such as second releases; see tarn_nrt_misuse_handler. */
    uint64_t misuses;
    /** Bytes of all blocks ever allocated. */
    uint64_t bytes_total;
    /** Bytes of live blocks. */
    uint64_t bytes_live;
    /** Largest number of live bytes so far. */
    uint64_t bytes_peak;
    /** Bytes of chunks that the instance took from its allocators for small blocks. */
    uint64_t bytes_chunks;
    /** Bytes of freed blocks in quarantine, plus 64 for each. */
    uint64_t bytes_quarantine;
    /** Blocks allocated, by size. [0] counts 0 bytes, [n] counts 2^(n-1) to 2^n - 1
     *  bytes. The last one also counts all larger blocks. */
    uint64_t histogram[TARN_NRT_HISTOGRAM];
} tarn_runtime_stats;

/** Reads the statistics of an instance.
 *
 * The call fills `out` up to `out->size` bytes.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param[out] out The statistics; the caller sets `size` before the call.
 * @return The outcome:
 *   - TARN_OK: `out` is filled.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL, or `out->size` is smaller than a size_t.
 * @since 0.1 */
TARN_API tarn_status tarn_runtime_stats_read(tarn_runtime *runtime,
                                             tarn_runtime_stats *out);

/* --- debug modes -------------------------------------------------------------------- */

/** Debug modes of an instance; a set of modes is the sum of its members.
 *
 * The modes may change at any time. Those that concern a block apply to blocks allocated
 * afterwards. TARN_NRT_ABORT applies to the next misuse, TARN_NRT_EXIT_REPORT at exit.
 *
 * The default instance starts with the modes in the environment variable TARN_NRT_DEBUG,
 * for example `poison,guard`. Other instances start with none. */
typedef enum tarn_nrt_mode {
    /** `poison`: fill data with 0xCB at allocation and with 0xDE at the end. */
    TARN_NRT_POISON = 1,
    /** `guard`: put a red zone around the data and check it when the block is freed. The
     *  zone has 16 bytes on each side. Memory without a MemInfo has none in front. */
    TARN_NRT_GUARD = 2,
    /** `quarantine`: fill freed blocks with 0xDE and keep them for a while.
     *
     *  The runtime always detects a late release of such a block. When the block leaves
     *  quarantine, the runtime detects bytes that were written meanwhile. The first 32
     *  bytes of memory without a MemInfo are not checked. Blocks of external allocators
     *  do not enter quarantine. */
    TARN_NRT_QUARANTINE = 4,
    /** `sites`: record the place that allocated each block, for snapshots. */
    TARN_NRT_SITES = 8,
    /** `trace`: print a line on stderr for each call that allocates, acquires,
     *  releases or frees a block. */
    TARN_NRT_TRACE = 16,
    /** `abort`: abort the process at a misuse, after the handler has returned. */
    TARN_NRT_ABORT = 32,
    /** `unpooled`: take each small block from the allocator too, for tools such as
     *  tracemalloc and sanitizers.
     *
     *  @since 0.2 */
    TARN_NRT_UNPOOLED = 64,
    /** `report`: print the live blocks at process exit. */
    TARN_NRT_EXIT_REPORT = 128,
    /** `slabs`: cut small blocks from chunks even under Valgrind or AddressSanitizer.
     *
     *  Without this mode small blocks come from the allocator there, one by one, so that
     *  the tool knows each block. */
    TARN_NRT_SLABS = 256
} tarn_nrt_mode;

/** Sets the debug modes of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param modes A sum of tarn_nrt_mode values; 0: none.
 * @return The outcome:
 *   - TARN_OK: the modes are set.
 *   - TARN_INVALID_ARGUMENT: `runtime` is NULL, or `modes` has unknown bits.
 * @since 0.1 */
TARN_API tarn_status tarn_runtime_set_modes(tarn_runtime *runtime, unsigned modes);

/** Returns the debug modes of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @return A sum of tarn_nrt_mode values.
 * @since 0.1 */
TARN_API unsigned tarn_runtime_modes(const tarn_runtime *runtime);

/** Parses the names of debug modes, as in `poison,sites`.
 *
 * Commas or spaces separate the names.
 * Thread-safety: any thread.
 *
 * @param text The names, 0-terminated; not NULL.
 * @param[out] out The sum of the named modes.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL, or the text has an unknown name.
 * @since 0.1 */
TARN_API tarn_status tarn_nrt_modes_parse(const char *text, unsigned *out);

/** Sets how many bytes an instance keeps in quarantine at most; 16 MiB at first.
 *
 * Blocks beyond the new maximum leave quarantine at once, the oldest first.
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param bytes The maximum in bytes; each block counts its size plus 64.
 * @since 0.1 */
TARN_API void tarn_runtime_set_quarantine(tarn_runtime *runtime, size_t bytes);

/** Receives one line about a misuse that the runtime has detected.
 *
 * `data` is the pointer set with the handler. `message` is the message, 0-terminated, valid
 * during the call.
 *
 * Misuses are, for example, a release of a freed block or bytes written past the end. A
 * wrong call, such as a second release, changes nothing.
 *
 * The handler is process-wide. The runtime calls it with no lock held, on the thread that
 * detected the misuse, possibly on several threads at once. It has to return: leaving it
 * by longjmp() or an exception is not allowed. */
typedef void (*tarn_nrt_misuse_handler)(void *data, const char *message);

/** Sets the process-wide misuse handler; without one the line goes to stderr.
 *
 * The call waits until no other thread runs the previous handler. Its data may then be
 * freed. A handler that sets another handler does not wait for itself.
 * Thread-safety: any thread.
 *
 * @param handler The handler; NULL: print the line to stderr.
 * @param data The first argument of the handler; borrowed until another handler is set.
 * @since 0.1 */
TARN_API void tarn_nrt_set_misuse_handler(tarn_nrt_misuse_handler handler, void *data);

/* --- allocation sites --------------------------------------------------------------- */

/** Sets the label of the blocks that this thread allocates from now on.
 *
 * The label appears in snapshots of instances with TARN_NRT_SITES.
 * Thread-safety: any thread; each thread has its own label.
 *
 * @param label The label; borrowed, not copied, so it has to stay valid. NULL: none.
 * @return The previous label, or NULL.
 * @since 0.2 */
TARN_API const char *tarn_nrt_set_label(const char *label);

/** A place in the program that allocated blocks. */
typedef struct tarn_nrt_site {
    /** Return address of the allocating call, in its caller; NULL: unknown. */
    const void *address;
    /** Label at the time of the allocation, or NULL; borrowed. */
    const char *label;
    /** Live blocks; in a difference, the growth. */
    int64_t blocks;
    /** Bytes of the live blocks; in a difference, the growth. */
    int64_t bytes;
} tarn_nrt_site;

/** The live blocks of an instance at one time, by allocation site.
 *
 * Blocks allocated without TARN_NRT_SITES are one site without address and label. A
 * snapshot does not change after its creation. */
typedef struct tarn_nrt_snapshot tarn_nrt_snapshot;

/** Takes a snapshot of the live blocks of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param runtime The instance; not NULL.
 * @param[out] out The snapshot; the caller releases it.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: `runtime` or `out` is NULL.
 *   - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1 */
TARN_API tarn_status tarn_nrt_snapshot_take(tarn_runtime *runtime,
                                            tarn_nrt_snapshot **out);

/** Computes the difference of two snapshots of the same instance.
 *
 * The result has the sites whose numbers differ. It is a snapshot that does not refer to
 * the two.
 * Thread-safety: any thread.
 *
 * @param before The earlier snapshot; borrowed during the call.
 * @param after The later snapshot; borrowed during the call.
 * @param[out] out The difference; the caller releases it.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL.
 *   - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1 */
TARN_API tarn_status tarn_nrt_snapshot_difference(const tarn_nrt_snapshot *before,
                                                  const tarn_nrt_snapshot *after,
                                                  tarn_nrt_snapshot **out);

/** Releases a snapshot.
 *
 * Thread-safety: any thread, while no other thread uses the snapshot.
 *
 * @param snapshot The snapshot; ownership is transferred. NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_snapshot_release(tarn_nrt_snapshot *snapshot);

/** Returns the number of sites of a snapshot.
 *
 * The sites are in order of their bytes, the most first.
 * Thread-safety: any thread.
 *
 * @param snapshot The snapshot; NULL has no sites.
 * @return The number of sites.
 * @since 0.1 */
TARN_API size_t tarn_nrt_snapshot_sites(const tarn_nrt_snapshot *snapshot);

/** Reads one site of a snapshot.
 *
 * Thread-safety: any thread.
 *
 * @param snapshot The snapshot; not NULL.
 * @param index The index of the site, less than tarn_nrt_snapshot_sites().
 * @param[out] out The site.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL, or `index` is too large.
 * @since 0.1 */
TARN_API tarn_status tarn_nrt_snapshot_site(const tarn_nrt_snapshot *snapshot,
                                            size_t index, tarn_nrt_site *out);

/** Prints a line with the totals of a snapshot, and one for each site.
 *
 * Thread-safety: any thread.
 *
 * @param snapshot The snapshot; not NULL.
 * @param out The stream to print to; not NULL.
 * @since 0.1 */
TARN_API void tarn_nrt_snapshot_print(const tarn_nrt_snapshot *snapshot, FILE *out);

/** Describes a code address, as `function+0x12 (library)`.
 *
 * The symbolizer comes first, then the dynamic linker. An address that neither knows
 * becomes a hexadecimal number.
 * Thread-safety: any thread.
 *
 * @param address The code address; NULL is allowed.
 * @param[out] out The description, 0-terminated.
 * @param bytes The capacity of `out` in bytes, with the final 0; 0 writes nothing.
 * @return `out`.
 * @since 0.1 */
TARN_API const char *tarn_nrt_describe(const void *address, char *out, size_t bytes);

/** Describes a code address that the dynamic linker does not know.
 *
 * Such addresses are in code compiled at run time. `data` is the pointer set with the
 * symbolizer. It writes at most `bytes` bytes to `out`, with the final 0, and returns
 * true. If it does not know `address`, it returns false.
 *
 * The symbolizer is process-wide. Tarn calls it with no lock held, possibly on several
 * threads at once. It has to return. */
typedef bool (*tarn_nrt_symbolizer)(void *data, const void *address, char *out,
                                    size_t bytes);

/** Sets the process-wide symbolizer of tarn_nrt_describe().
 *
 * The call waits until no other thread runs the previous symbolizer. Its data may then be
 * freed.
 * Thread-safety: any thread.
 *
 * @param symbolizer The symbolizer; NULL: none.
 * @param data The first argument of the symbolizer; borrowed until another one is set.
 * @since 0.1 */
TARN_API void tarn_nrt_set_symbolizer(tarn_nrt_symbolizer symbolizer, void *data);

/* --- functions that were never compiled --------------------------------------------- */

/** Handles a call of a function that was never compiled; see nrt_unresolved_abort().
 *
 * `data` is the pointer set with the hook. `caller` is the return address of that call.
 * The result of the hook becomes the result of that call.
 *
 * The hook is process-wide. It runs on the thread of that call, with no lock held. It may
 * also leave by longjmp() or an exception. */
typedef int (*tarn_nrt_unresolved_hook)(void *data, const void *caller);

/** Sets the process-wide hook for calls of functions that were never compiled.
 *
 * Without a hook the message goes to stderr and the process aborts. This call does not
 * wait for running hooks. A thread that is in such a function may still call the previous
 * hook, so the data of that hook has to stay valid.
 * Thread-safety: any thread.
 *
 * @param hook The hook; NULL: print the message and abort.
 * @param data The first argument of the hook; borrowed.
 * @since 0.1 */
TARN_API void tarn_nrt_set_unresolved_hook(tarn_nrt_unresolved_hook hook, void *data);

/** @} */

TARN_END_DECLS
#endif
