/* nrt_names.h -- the calls of Numba's runtime under their own names.
 *
 * Compiled code and C code that were written for Numba's runtime find every call here,
 * with the behaviour that they know; what is better is said at the call. They work on the
 * default runtime instance (tarn_runtime_default()); calls that are given a MemInfo or a
 * block work on the instance that it came from.
 *
 * The names are macros: a library must not export them, because Numba's own extension
 * exports three of them by accident and the first one loaded would serve both. Define
 * TARN_NRT_NO_NAMES to have the functions (tarn_nrt_...) without the names.
 *
 * A call that returns NULL leaves its words in tarn_error_last(). A size that cannot be
 * is NULL, never a small block. Misuse that can be seen (a second release, a count below
 * zero) changes nothing and goes to the handler of tarn_nrt_set_misuse_handler().
 */
#ifndef TARN_NRT_NAMES_H
#define TARN_NRT_NAMES_H

#include <stdio.h>
#include <tarn/nrt_external.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** Called at the last release with the data, their size, and what came with it. */
typedef void (*NRT_dtor_function)(void *ptr, size_t size, void *info);
typedef void (*NRT_dealloc_func)(void *ptr, void *dealloc_info);
typedef void *(*NRT_malloc_func)(size_t size);
typedef void *(*NRT_realloc_func)(void *ptr, size_t new_size);
typedef void (*NRT_free_func)(void *ptr);

/* --- the default instance ------------------------------------------------------------ */

/** Begin anew: libc's allocator, destructors run, statistics hidden and at 0. Needed only
 * after a shutdown: an instance works from the start. Blocks that are out stay good. */
TARN_API void tarn_nrt_MemSys_init(void);
/** From now on no destructor is called; memory is still given back, all of it. */
TARN_API void tarn_nrt_MemSys_shutdown(void);
/** Where memory comes from. Any time: a block goes back to where it came from. A NULL is
 * refused in words (tarn_error_last()) and changes nothing. */
TARN_API void tarn_nrt_MemSys_set_allocator(NRT_malloc_func malloc_function,
                                            NRT_realloc_func realloc_function,
                                            NRT_free_func free_function);
/** What the four calls below show: nothing at first; between enable and disable they
 * count, and after a disable they stand still until the next enable. The real counters
 * (tarn_runtime_stats_read()) always run. */
TARN_API void tarn_nrt_MemSys_enable_stats(void);
TARN_API void tarn_nrt_MemSys_disable_stats(void);
TARN_API size_t tarn_nrt_MemSys_stats_enabled(void);
/** Blocks and MemInfos, made and gone; 0x41414141 while not enabled. */
TARN_API size_t tarn_nrt_MemSys_get_stats_alloc(void);
TARN_API size_t tarn_nrt_MemSys_get_stats_free(void);
TARN_API size_t tarn_nrt_MemSys_get_stats_mi_alloc(void);
TARN_API size_t tarn_nrt_MemSys_get_stats_mi_free(void);

/* --- MemInfos: one reference, or NULL ------------------------------------------------- */

/** For memory that is there already. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new(void *data, size_t size,
                                           NRT_dtor_function dtor, void *dtor_info);
/** Make `mi`, which came from NRT_Allocate(48) or NRT_Allocate_External(48, allocator),
 *  a MemInfo; it goes back there with the last reference. */
TARN_API void tarn_nrt_MemInfo_init(NRT_MemInfo *mi, void *data, size_t size,
                                    NRT_dtor_function dtor, void *dtor_info,
                                    NRT_ExternalAllocator *allocator);
/** With memory of `size` bytes behind it, at a multiple of 16. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc(size_t size);
/** From `allocator`; NULL is the instance's own. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_external(size_t size,
                                                      NRT_ExternalAllocator *allocator);
/** `dtor` is called with the data, the size and NULL before they go. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor(size_t size, NRT_dtor_function dtor);
/** The safe ones fill with 0xCB at the beginning and with 0xDE at the end. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe(size_t size);
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor_safe(size_t size,
                                                       NRT_dtor_function dtor);
/** At a multiple of `align`, whatever it is; 0 is none in particular. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_aligned(size_t size, unsigned align);
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned(size_t size, unsigned align);
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned_external(
    size_t size, unsigned align, NRT_ExternalAllocator *allocator);

/** One more, one less. NULL is allowed. Any thread. The last release calls the destructor
 *  and gives the memory back. */
TARN_API void tarn_nrt_MemInfo_acquire(NRT_MemInfo *mi);
TARN_API void tarn_nrt_MemInfo_release(NRT_MemInfo *mi);
/** What the last release does; for compiled code, which counts by itself. */
TARN_API void tarn_nrt_MemInfo_call_dtor(NRT_MemInfo *mi);
/** The same without the destructor. */
TARN_API void tarn_nrt_MemInfo_destroy(NRT_MemInfo *mi);
/** The memory alone: not counted as a MemInfo that is gone. */
TARN_API void tarn_nrt_dealloc(NRT_MemInfo *mi);

/** The count; (size_t)-1 for NULL and for one that has no data. */
TARN_API size_t tarn_nrt_MemInfo_refcount(NRT_MemInfo *mi);
TARN_API void *tarn_nrt_MemInfo_data(NRT_MemInfo *mi);
TARN_API size_t tarn_nrt_MemInfo_size(NRT_MemInfo *mi);
TARN_API void *tarn_nrt_MemInfo_external_allocator(NRT_MemInfo *mi);
/** What was given beside the destructor, whatever it is. */
TARN_API void *tarn_nrt_MemInfo_parent(NRT_MemInfo *mi);
/** One line: address and count. */
TARN_API void tarn_nrt_MemInfo_dump(NRT_MemInfo *mi, FILE *out);

/* --- MemInfos whose memory can change its size ---------------------------------------- */

TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new_varsize(size_t size);
/** `dtor` is called with the data, the size and NULL before the memory goes; one that takes
 *  the data alone will do. */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new_varsize_dtor(size_t size,
                                                        NRT_dtor_function dtor);
/** New memory for `mi`; the caller frees the old. Failure: NULL, and `mi` has the old
 *  memory still. A MemInfo of another kind: NULL, in words. */
TARN_API void *tarn_nrt_MemInfo_varsize_alloc(NRT_MemInfo *mi, size_t size);
/** Another size for the memory of `mi`, as realloc(). Failure as above. */
TARN_API void *tarn_nrt_MemInfo_varsize_realloc(NRT_MemInfo *mi, size_t size);
/** Free `ptr`; `mi` forgets it if it was its memory. */
TARN_API void tarn_nrt_MemInfo_varsize_free(NRT_MemInfo *mi, void *ptr);

/* --- memory without a MemInfo --------------------------------------------------------- */

/** At a multiple of 16. 0 bytes is a block too. */
TARN_API void *tarn_nrt_Allocate(size_t size);
TARN_API void *tarn_nrt_Allocate_External(size_t size, NRT_ExternalAllocator *allocator);
/** As realloc(): NULL is an allocation; on failure the old block stays. 0 bytes is a
 *  block, not a free. */
TARN_API void *tarn_nrt_Reallocate(void *ptr, size_t size);
/** Back to where it came from. NULL is allowed, and is no free. */
TARN_API void tarn_nrt_Free(void *ptr);

/* --- the rest ------------------------------------------------------------------------- */

/** The table of the default instance. Always the same address; it can be used at once. */
TARN_API const NRT_api_functions *tarn_nrt_get_api(void);
/** Print to stderr, as printf(). */
TARN_API void tarn_nrt_debug_print(const char *format, ...) TARN_PRINTF(1, 2);
/** An allocator to try things with: libc's, with a line on stderr for each call where the
 *  default instance has TARN_NRT_TRACE. */
TARN_API NRT_ExternalAllocator *tarn_nrt_sample_external_allocator(void);
/** What a compiler puts in place of a function that it has not compiled yet. May be
 *  called with any arguments; see tarn_nrt_set_unresolved_hook(). */
TARN_API int tarn_nrt_unresolved_abort(void);

TARN_END_DECLS

#ifndef TARN_NRT_NO_NAMES
#define NRT_MemSys_init tarn_nrt_MemSys_init
#define NRT_MemSys_shutdown tarn_nrt_MemSys_shutdown
#define NRT_MemSys_set_allocator tarn_nrt_MemSys_set_allocator
#define NRT_MemSys_enable_stats tarn_nrt_MemSys_enable_stats
#define NRT_MemSys_disable_stats tarn_nrt_MemSys_disable_stats
#define NRT_MemSys_stats_enabled tarn_nrt_MemSys_stats_enabled
#define NRT_MemSys_get_stats_alloc tarn_nrt_MemSys_get_stats_alloc
#define NRT_MemSys_get_stats_free tarn_nrt_MemSys_get_stats_free
#define NRT_MemSys_get_stats_mi_alloc tarn_nrt_MemSys_get_stats_mi_alloc
#define NRT_MemSys_get_stats_mi_free tarn_nrt_MemSys_get_stats_mi_free
#define NRT_MemInfo_new tarn_nrt_MemInfo_new
#define NRT_MemInfo_init tarn_nrt_MemInfo_init
#define NRT_MemInfo_alloc tarn_nrt_MemInfo_alloc
#define NRT_MemInfo_alloc_external tarn_nrt_MemInfo_alloc_external
#define NRT_MemInfo_alloc_dtor tarn_nrt_MemInfo_alloc_dtor
#define NRT_MemInfo_alloc_safe tarn_nrt_MemInfo_alloc_safe
#define NRT_MemInfo_alloc_dtor_safe tarn_nrt_MemInfo_alloc_dtor_safe
#define NRT_MemInfo_alloc_aligned tarn_nrt_MemInfo_alloc_aligned
#define NRT_MemInfo_alloc_safe_aligned tarn_nrt_MemInfo_alloc_safe_aligned
#define NRT_MemInfo_alloc_safe_aligned_external \
    tarn_nrt_MemInfo_alloc_safe_aligned_external
#define NRT_MemInfo_acquire tarn_nrt_MemInfo_acquire
#define NRT_MemInfo_release tarn_nrt_MemInfo_release
#define NRT_MemInfo_call_dtor tarn_nrt_MemInfo_call_dtor
#define NRT_MemInfo_destroy tarn_nrt_MemInfo_destroy
#define NRT_dealloc tarn_nrt_dealloc
#define NRT_MemInfo_refcount tarn_nrt_MemInfo_refcount
#define NRT_MemInfo_data tarn_nrt_MemInfo_data
#define NRT_MemInfo_size tarn_nrt_MemInfo_size
#define NRT_MemInfo_external_allocator tarn_nrt_MemInfo_external_allocator
#define NRT_MemInfo_parent tarn_nrt_MemInfo_parent
#define NRT_MemInfo_dump tarn_nrt_MemInfo_dump
#define NRT_MemInfo_new_varsize tarn_nrt_MemInfo_new_varsize
#define NRT_MemInfo_new_varsize_dtor tarn_nrt_MemInfo_new_varsize_dtor
#define NRT_MemInfo_varsize_alloc tarn_nrt_MemInfo_varsize_alloc
#define NRT_MemInfo_varsize_realloc tarn_nrt_MemInfo_varsize_realloc
#define NRT_MemInfo_varsize_free tarn_nrt_MemInfo_varsize_free
#define NRT_Allocate tarn_nrt_Allocate
#define NRT_Allocate_External tarn_nrt_Allocate_External
#define NRT_Reallocate tarn_nrt_Reallocate
#define NRT_Free tarn_nrt_Free
#define NRT_get_api tarn_nrt_get_api
#define nrt_debug_print tarn_nrt_debug_print
#define _nrt_get_sample_external_allocator tarn_nrt_sample_external_allocator
#define nrt_unresolved_abort tarn_nrt_unresolved_abort
#endif

#endif
