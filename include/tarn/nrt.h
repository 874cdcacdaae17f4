/* nrt.h -- counted memory: the MemInfo of Numba's runtime, in instances.
 *
 * A MemInfo is 48 bytes, laid out as Numba's (compiled code reads its count and its data
 * directly). A runtime is an instance with counters, an allocator and debug modes of its
 * own: pointers to device memory have one, compiled code another, so that shutting one
 * down cannot touch the other. Numba's own names (NRT_MemInfo_alloc() and the rest) are in
 * tarn/nrt_names.h and work on the default instance. Source: seed 004, F1-F38.
 */
#ifndef TARN_NRT_H
#define TARN_NRT_H

#include <tarn/nrt_external.h>
#include <tarn/nrt_names.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** Called once, when the last reference goes: the data, its size, and what was given with
 *  the destructor. */
typedef void (*tarn_meminfo_destructor)(void *data, size_t size, void *info);

/** The counted block. Opaque to users; 48 bytes, offsets as Numba's. The runtime that a
 *  block belongs to is written in a header in front of them. */
typedef struct MemInfo tarn_meminfo;

/** An instance of the runtime. */
typedef struct tarn_runtime tarn_runtime;

/* --- instances ------------------------------------------------------------------------ */

/** The one that Numba's names work on. It is there from the start and never released. */
TARN_API tarn_runtime *tarn_runtime_default(void);

/** Make an instance (at most 63 at a time); release it when all its blocks are back (else
 *  TARN_STILL_IN_USE, and the words say how many). `name` is copied, for messages. Any
 *  thread, but no other call on the instance may be under way while it is released. */
TARN_API tarn_status tarn_runtime_create(const char *name, tarn_runtime **out);
TARN_API tarn_status tarn_runtime_release(tarn_runtime *runtime);

/** Where its memory comes from: the allocator is copied; NULL is libc. `realloc` may be
 *  NULL, then blocks are moved by hand; `malloc` returns multiples of 16 (what it returns
 *  at other places is used as it is). Any time: a block goes back to where it came from.
 *  At most 15 different ones in the life of an instance. */
TARN_API tarn_status tarn_runtime_set_allocator(tarn_runtime *runtime,
                                                const NRT_ExternalAllocator *allocator);

/** The table of an instance, with functions that make MemInfos in it. It stays good, and
 *  answers NULL with words, when the instance is gone, and serves the next one made in its
 *  place. The default instance's is NRT_get_api(). */
TARN_API const NRT_api_functions *tarn_runtime_api(tarn_runtime *runtime);

/** After a shutdown (`true`) no destructor is called any more, but memory is given back. */
TARN_API void tarn_runtime_shutdown(tarn_runtime *runtime, bool shut);

/** Give memory that no block needs back to where it came from: chunks of small blocks, and
 *  what is in quarantine. Returns the bytes. Small blocks kept ready by other threads stay
 *  with them. */
TARN_API size_t tarn_runtime_trim(tarn_runtime *runtime);

/* --- MemInfos ------------------------------------------------------------------------- */

/** A new MemInfo with one reference over `data` (host or device address, NULL allowed);
 * the destructor (may be NULL) is called with `data`, `size` and `info` at the last
 * release. */
TARN_API tarn_status tarn_meminfo_create(tarn_runtime *runtime, void *data, size_t size,
                                         tarn_meminfo_destructor destructor, void *info,
                                         tarn_meminfo **out);

/** How to make a MemInfo with memory of its own. */
typedef struct tarn_meminfo_options {
    size_t size;                        /**< sizeof(tarn_meminfo_options) */
    size_t bytes;                       /**< of memory behind it; 0 is allowed */
    size_t alignment;                   /**< of the memory, any number; 0: 16 */
    tarn_meminfo_destructor destructor; /**< runs before the memory goes; NULL: none */
    void *info;                         /**< its last argument */
    /** Where the memory comes from; NULL: from the instance's allocator. It has to live
     *  as long as the block. */
    NRT_ExternalAllocator *allocator;
    bool poison;       /**< fill with 0xCB now and 0xDE at the end */
    const char *label; /**< words for leak reports, not copied; NULL: the thread's */
} tarn_meminfo_options;
TARN_API tarn_status tarn_meminfo_allocate(tarn_runtime *runtime,
                                           const tarn_meminfo_options *options,
                                           tarn_meminfo **out);

/** One reference more. Any thread; never fails. NULL is allowed. */
TARN_API void tarn_meminfo_acquire(tarn_meminfo *meminfo);
/** One reference less; at zero the destructor runs on this thread. Any thread. NULL is
 *  allowed. */
TARN_API void tarn_meminfo_release(tarn_meminfo *meminfo);
TARN_API void *tarn_meminfo_data(const tarn_meminfo *meminfo);
TARN_API size_t tarn_meminfo_size(const tarn_meminfo *meminfo);
TARN_API size_t tarn_meminfo_count(const tarn_meminfo *meminfo);
/** Is `info` the one that came with this destructor? `*info_out` (may be NULL) gets it.
 *  For bindings that keep an owner there. */
TARN_API bool tarn_meminfo_has_destructor(const tarn_meminfo *meminfo,
                                          tarn_meminfo_destructor destructor,
                                          void **info_out);
/** The instance that a MemInfo belongs to; NULL, in words, where it is none that lives. */
TARN_API tarn_runtime *tarn_meminfo_runtime(const tarn_meminfo *meminfo);

/* --- statistics ----------------------------------------------------------------------- */

/** Counters of an instance: MemInfos made and gone. Exact when no call is under way; else
 *  never more gone than made. */
typedef struct tarn_runtime_counts {
    uint64_t created;
    uint64_t destroyed;
} tarn_runtime_counts;
TARN_API void tarn_runtime_counts_read(tarn_runtime *runtime, tarn_runtime_counts *out);

enum { TARN_NRT_HISTOGRAM = 48 };

/** Everything an instance counts. It counts always, a thread in a place of its own; those
 *  of ended threads are added up. Bytes are those asked for, without headers. Exact when
 *  no call is under way; but `bytes_peak` is exact with one thread, and with more than one
 *  it may be off by 64 KiB a thread. */
typedef struct tarn_runtime_stats {
    size_t size;       /**< sizeof(tarn_runtime_stats), set by the caller */
    uint64_t alloc;    /**< blocks made: MemInfos with their memory, and raw ones */
    uint64_t free;     /**< of them given back */
    uint64_t mi_alloc; /**< MemInfos made */
    uint64_t mi_free;  /**< of them gone */
    uint64_t failed;   /**< allocations that were not to be had; counted nowhere else */
    uint64_t misuses;  /**< second releases and the like, see the misuse handler */
    uint64_t bytes_total;      /**< of all blocks ever made */
    uint64_t bytes_live;       /**< of those that are out */
    uint64_t bytes_peak;       /**< the most that were out at a time */
    uint64_t bytes_chunks;     /**< taken from the allocator for small blocks */
    uint64_t bytes_quarantine; /**< freed, and held back */
    /** Blocks made by size: [0] of 0 bytes, [n] of 2^(n-1) to 2^n - 1, the last of all
     *  that are larger. */
    uint64_t histogram[TARN_NRT_HISTOGRAM];
} tarn_runtime_stats;
/** Fill `out` as far as `out->size` says. */
TARN_API tarn_status tarn_runtime_stats_read(tarn_runtime *runtime,
                                             tarn_runtime_stats *out);

/* --- debug modes ---------------------------------------------------------------------- */

/** What an instance does beyond its work; a sum of these. They can be changed at any time
 *  and hold for blocks made from then on. The default instance begins with those that
 *  TARN_NRT_DEBUG names (`poison,guard,...`), others begin with none. */
typedef enum tarn_nrt_mode {
    TARN_NRT_POISON = 1,     /**< poison: fill with 0xCB at the start, 0xDE at the end */
    TARN_NRT_GUARD = 2,      /**< guard: 16 bytes before and after the data, checked when
                                   the block goes */
    TARN_NRT_QUARANTINE = 4, /**< quarantine: freed blocks are filled with 0xDE and held
                                   back; a late release is always caught, and so are bytes
                                   written meanwhile (not blocks of external allocators) */
    TARN_NRT_SITES = 8,      /**< sites: remember who allocated, for snapshots */
    TARN_NRT_TRACE = 16,     /**< trace: a line on stderr for each call that counts */
    TARN_NRT_ABORT = 32,     /**< abort: misuse ends the process */
    TARN_NRT_UNPOOLED = 64,  /**< unpooled: small blocks too come from the allocator
                                   each (tracemalloc, sanitizers) */
    TARN_NRT_EXIT_REPORT = 128, /**< report: print what is still out at exit */
    TARN_NRT_SLABS = 256        /**< slabs: small blocks are cut from chunks even where
                                     Valgrind or ASan watch; without it they come one by
                                     one there, so that the tool knows each */
} tarn_nrt_mode;
/** Unknown bits are TARN_INVALID_ARGUMENT. */
TARN_API tarn_status tarn_runtime_set_modes(tarn_runtime *runtime, unsigned modes);
TARN_API unsigned tarn_runtime_modes(const tarn_runtime *runtime);
/** The modes that a text like `poison,sites` names; words that it does not know are
 *  TARN_INVALID_ARGUMENT. */
TARN_API tarn_status tarn_nrt_modes_parse(const char *text, unsigned *out);
/** How much quarantine holds back at most; 16 MiB at first. */
TARN_API void tarn_runtime_set_quarantine(tarn_runtime *runtime, size_t bytes);

/** Gets one line about misuse that was seen: a release of a block that is gone, bytes
 *  written past the end. Nothing has been changed by the call that was wrong. Without a
 *  handler (NULL) the line goes to stderr. Process-wide; called on the thread that was
 *  wrong, with no lock held, on several at once, too. It has to return: to leave it by
 *  longjmp() or an exception is forbidden. */
typedef void (*tarn_nrt_misuse_handler)(void *data, const char *words);
/** Set the handler. Waits until no other thread runs the one before, so that its data may be
 *  freed afterwards; in the handler itself the thread's own call goes on. Any thread. */
TARN_API void tarn_nrt_set_misuse_handler(tarn_nrt_misuse_handler handler, void *data);

/* --- who allocated -------------------------------------------------------------------- */

/** Words for what this thread allocates from now on (TARN_NRT_SITES); not copied, so they
 *  have to stay. NULL: none. Returns the words before. */
TARN_API const char *tarn_nrt_set_label(const char *words);

/** One place that allocated. */
typedef struct tarn_nrt_site {
    const void *address; /**< in the caller: where the call returns to; NULL: unknown */
    const char *label;   /**< the words of the time, or NULL */
    int64_t blocks;      /**< still out; of a difference: more than before */
    int64_t bytes;       /**< in them */
} tarn_nrt_site;

/** What is out, by place, at one time. Blocks made while TARN_NRT_SITES was off are one
 *  site without address and words. */
typedef struct tarn_nrt_snapshot tarn_nrt_snapshot;
TARN_API tarn_status tarn_nrt_snapshot_take(tarn_runtime *runtime,
                                            tarn_nrt_snapshot **out);
/** What came between two of the same instance: sites whose numbers differ. */
TARN_API tarn_status tarn_nrt_snapshot_difference(const tarn_nrt_snapshot *before,
                                                  const tarn_nrt_snapshot *after,
                                                  tarn_nrt_snapshot **out);
TARN_API void tarn_nrt_snapshot_release(tarn_nrt_snapshot *snapshot);
/** Its sites, the most bytes first. */
TARN_API size_t tarn_nrt_snapshot_sites(const tarn_nrt_snapshot *snapshot);
TARN_API tarn_status tarn_nrt_snapshot_site(const tarn_nrt_snapshot *snapshot,
                                            size_t index, tarn_nrt_site *out);
/** A line for each site, and one for all. */
TARN_API void tarn_nrt_snapshot_print(const tarn_nrt_snapshot *snapshot, FILE *out);

/** `function+0x12 (library)` for an address, or the bare address; what a symbolizer says
 *  comes first. At most `bytes` with the final 0. Returns `out`. */
TARN_API const char *tarn_nrt_describe(const void *address, char *out, size_t bytes);
/** Names addresses that the dynamic linker does not know (code compiled at run time):
 *  writes words and returns true, or returns false. Process-wide; called with no lock held,
 *  on several threads at once, too. It has to return. */
typedef bool (*tarn_nrt_symbolizer)(void *data, const void *address, char *out,
                                    size_t bytes);
/** Set the symbolizer; NULL: none. Waits until no other thread runs the one before, so that its
 *  data may be freed afterwards. Any thread. */
TARN_API void tarn_nrt_set_symbolizer(tarn_nrt_symbolizer symbolizer, void *data);

/* --- recursion support (F15) ---------------------------------------------------------- */

/** Called by nrt_unresolved_abort() on the thread that called a function which was never
 *  compiled; `caller` is where that call returns to. What it returns is returned there;
 *  it may also leave by longjmp() or an exception. Without a hook (NULL) the words go to
 *  stderr and the process aborts. A thread that has called such a function may still call the
 *  hook before, whose data has to stay. */
typedef int (*tarn_nrt_unresolved_hook)(void *data, const void *caller);
TARN_API void tarn_nrt_set_unresolved_hook(tarn_nrt_unresolved_hook hook, void *data);

TARN_END_DECLS
#endif
