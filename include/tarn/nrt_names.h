/* nrt_names.h -- the calls of Numba's runtime under Numba's names.
 *
 * Compiled code and C code written for Numba's runtime find every call here, with the
 * behaviour that such code expects. The comment of a call names what differs.
 *
 *   Calls                           Instance that they work on
 *   with a MemInfo or a block       the instance that it came from
 *   all others                      the default one, tarn_runtime_default()
 *
 * The names are macros for functions tarn_nrt_...(). A library must not export the names
 * themselves. Numba's own extension exports three of them by accident, and the library
 * loaded first would serve both. Define TARN_NRT_NO_NAMES to omit the macros.
 *
 *   Case                            Result
 *   failure of a call               NULL, and a message in tarn_error_last()
 *   a size that is too large        NULL, never a small block
 *   misuse that a call detects      nothing changes; tarn_nrt_set_misuse_handler()
 *
 * Such misuse is, for example, a second release or a count below zero.
 */
#ifndef TARN_NRT_NAMES_H
#define TARN_NRT_NAMES_H

#include <stdio.h>
#include <tarn/nrt_external.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_nrt_names
 * @{ */

/** Finalizes the data of a MemInfo when the last reference ends.
 *
 * `ptr` is the data address and `size` the size of the MemInfo. `info` is the pointer
 * that the caller passed together with the destructor. The runtime calls it on the thread
 * that released the last reference, with no lock held. It may call Tarn. */
typedef void (*NRT_dtor_function)(void *ptr, size_t size, void *info);

/** Frees `ptr`; `dealloc_info` is the pointer that belongs to the function.
 *
 * Numba declares this type. No function of Tarn uses it. */
typedef void (*NRT_dealloc_func)(void *ptr, void *dealloc_info);

/** Allocates `size` bytes, as malloc().
 *
 * The runtime calls it on any thread, with no lock held. */
typedef void *(*NRT_malloc_func)(size_t size);

/** Resizes the block `ptr` to `new_size` bytes, as realloc().
 *
 * The runtime calls it on any thread, with no lock held. */
typedef void *(*NRT_realloc_func)(void *ptr, size_t new_size);

/** Frees the block `ptr`, as free().
 *
 * The runtime calls it on any thread, with no lock held. */
typedef void (*NRT_free_func)(void *ptr);

/* --- the default instance ----------------------------------------------------------- */

/** Resets the default instance: libc's allocator, destructors run, statistics hidden.
 *
 * The call also sets the visible statistics to 0. Only a program that has shut the
 * runtime down needs it, because an instance works from the start. Live blocks stay
 * valid.
 * Thread-safety: any thread.
 *
 * @since 0.1 */
TARN_API void tarn_nrt_MemSys_init(void);

/** Shuts the default instance down: destructors are no longer called.
 *
 * The runtime still frees all memory.
 * Thread-safety: any thread.
 *
 * @since 0.1 */
TARN_API void tarn_nrt_MemSys_shutdown(void);

/** Sets the allocator of the default instance.
 *
 * The allocator may change at any time: each block returns to the allocator it came from.
 * If a function is NULL, the call fails, leaves a message and changes nothing. The same
 * holds if the instance has used 15 other allocators.
 * Thread-safety: any thread.
 *
 * @param malloc_function Allocates memory; not NULL.
 * @param realloc_function Resizes memory; not NULL.
 * @param free_function Frees memory; not NULL.
 * @since 0.1 */
TARN_API void tarn_nrt_MemSys_set_allocator(NRT_malloc_func malloc_function,
                                            NRT_realloc_func realloc_function,
                                            NRT_free_func free_function);

/** Enables the statistics that NRT_MemSys_get_stats_alloc() and its like report.
 *
 * Statistics are disabled at first. The numbers count while statistics are enabled and
 * stand still while they are disabled. The counters of tarn_runtime_stats_read() always
 * run.
 * Thread-safety: any thread.
 *
 * @since 0.1 */
TARN_API void tarn_nrt_MemSys_enable_stats(void);

/** Disables the statistics: the numbers stand still until statistics are enabled.
 *
 * Thread-safety: any thread.
 *
 * @since 0.1 */
TARN_API void tarn_nrt_MemSys_disable_stats(void);

/** Returns 1 if statistics are enabled.
 *
 * Thread-safety: any thread.
 *
 * @return 1 if statistics are enabled, else 0.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemSys_stats_enabled(void);

/** Returns the number of blocks allocated while statistics were enabled.
 *
 * Thread-safety: any thread.
 *
 * @return The number; 0x41414141 while statistics are disabled.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemSys_get_stats_alloc(void);

/** Returns the number of blocks freed while statistics were enabled.
 *
 * Thread-safety: any thread.
 *
 * @return The number; 0x41414141 while statistics are disabled.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemSys_get_stats_free(void);

/** Returns the number of MemInfos created while statistics were enabled.
 *
 * Thread-safety: any thread.
 *
 * @return The number; 0x41414141 while statistics are disabled.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemSys_get_stats_mi_alloc(void);

/** Returns the number of MemInfos destroyed while statistics were enabled.
 *
 * Thread-safety: any thread.
 *
 * @return The number; 0x41414141 while statistics are disabled.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemSys_get_stats_mi_free(void);

/* --- MemInfos ----------------------------------------------------------------------- */

/** Creates a MemInfo with one reference over existing memory.
 *
 * Thread-safety: any thread.
 *
 * @param data The host or device address of the memory; borrowed. NULL is allowed.
 * @param size The size of the memory in bytes; recorded only.
 * @param dtor The finalizer of the data; NULL: none.
 * @param dtor_info The last argument of the destructor; borrowed. NULL is allowed.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new(void *data, size_t size,
                                           NRT_dtor_function dtor, void *dtor_info);

/** Turns memory of NRT_Allocate() into a MemInfo with one reference.
 *
 * The memory is that of NRT_Allocate(48), or of NRT_Allocate_External(48, allocator). It
 * returns to its allocator with the last reference. Another block, or one of fewer bytes,
 * is misuse.
 * Thread-safety: one thread at a time for a block.
 *
 * @param mi The memory; ownership is transferred to the MemInfo. Not NULL.
 * @param data The host or device address of the data; borrowed. NULL is allowed.
 * @param size The size of the data in bytes; recorded only.
 * @param dtor The finalizer of the data; NULL: none.
 * @param dtor_info The last argument of the destructor; borrowed. NULL is allowed.
 * @param allocator The allocator that the MemInfo records; borrowed. NULL is allowed.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_init(NRT_MemInfo *mi, void *data, size_t size,
                                    NRT_dtor_function dtor, void *dtor_info,
                                    NRT_ExternalAllocator *allocator);

/** Creates a MemInfo with `size` bytes of memory behind it.
 *
 * The data address is a multiple of 16.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc(size_t size);

/** Creates a MemInfo with memory from an external allocator.
 *
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param allocator The allocator; borrowed, has to live as long as the block. NULL: the
 *   instance's own.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_external(size_t size,
                                                      NRT_ExternalAllocator *allocator);

/** Creates a MemInfo with memory and a destructor.
 *
 * The destructor receives the data address, the size and NULL before the memory is freed.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param dtor The finalizer; NULL: none.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor(size_t size, NRT_dtor_function dtor);

/** Creates a MemInfo with memory that is filled with patterns.
 *
 * The runtime fills the memory with 0xCB at creation and with 0xDE at its end.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe(size_t size);

/** Creates a MemInfo with a destructor and memory that is filled with patterns.
 *
 * The runtime fills the memory with 0xCB at creation and with 0xDE at its end.
 * The destructor receives the data address, the size and NULL before the memory is freed.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param dtor The finalizer; NULL: none.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor_safe(size_t size,
                                                       NRT_dtor_function dtor);

/** Creates a MemInfo with aligned memory.
 *
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param align The alignment in bytes, any number; 0: none in particular.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_aligned(size_t size, unsigned align);

/** Creates a MemInfo with aligned memory that is filled with patterns.
 *
 * The runtime fills the memory with 0xCB at creation and with 0xDE at its end.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param align The alignment in bytes, any number; 0: none in particular.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned(size_t size, unsigned align);

/** Creates a MemInfo with aligned, pattern-filled memory from an external allocator.
 *
 * The runtime fills the memory with 0xCB at creation and with 0xDE at its end.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param align The alignment in bytes, any number; 0: none in particular.
 * @param allocator The allocator; borrowed, has to live as long as the block. NULL: the
 *   instance's own.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned_external(
    size_t size, unsigned align, NRT_ExternalAllocator *allocator);

/** Adds a reference.
 *
 * Thread-safety: any thread.
 *
 * @param mi The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_acquire(NRT_MemInfo *mi);

/** Ends a reference; the last one calls the destructor and frees the memory.
 *
 * Thread-safety: any thread. The destructor runs on the calling thread.
 *
 * @param mi The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_release(NRT_MemInfo *mi);

/** Does the work of the last release: calls the destructor and frees the memory.
 *
 * It is for compiled code, which counts references on its own.
 * Thread-safety: any thread, once, when no other thread uses the MemInfo.
 *
 * @param mi The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_call_dtor(NRT_MemInfo *mi);

/** Frees a MemInfo and its memory without calling the destructor.
 *
 * Thread-safety: any thread, once, when no other thread uses the MemInfo.
 *
 * @param mi The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_destroy(NRT_MemInfo *mi);

/** Frees the memory of a MemInfo without counting the MemInfo as destroyed.
 *
 * The destructor is not called.
 * Thread-safety: any thread, once, when no other thread uses the MemInfo.
 *
 * @param mi The MemInfo; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_dealloc(NRT_MemInfo *mi);

/** Returns the number of references of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; NULL is allowed.
 * @return The number; (size_t)-1 if `mi` is NULL or has no data.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemInfo_refcount(NRT_MemInfo *mi);

/** Returns the data address of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; not NULL.
 * @return The host or device address of the data; borrowed.
 * @since 0.1 */
TARN_API void *tarn_nrt_MemInfo_data(NRT_MemInfo *mi);

/** Returns the size of a MemInfo, as specified at its creation.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; not NULL.
 * @return The size in bytes.
 * @since 0.1 */
TARN_API size_t tarn_nrt_MemInfo_size(NRT_MemInfo *mi);

/** Returns the external allocator of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; not NULL.
 * @return The NRT_ExternalAllocator; borrowed. NULL: the instance's own allocator.
 * @since 0.1 */
TARN_API void *tarn_nrt_MemInfo_external_allocator(NRT_MemInfo *mi);

/** Returns the pointer that the caller passed together with the destructor.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; not NULL.
 * @return The pointer, of any meaning; borrowed.
 * @since 0.1 */
TARN_API void *tarn_nrt_MemInfo_parent(NRT_MemInfo *mi);

/** Prints one line with the address and the count of a MemInfo.
 *
 * Thread-safety: any thread that owns a reference.
 *
 * @param mi The MemInfo; NULL is allowed.
 * @param out The stream to print to; not NULL.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_dump(NRT_MemInfo *mi, FILE *out);

/* --- MemInfos with resizable memory ------------------------------------------------- */

/** Creates a MemInfo whose memory can change its size.
 *
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new_varsize(size_t size);

/** Creates a MemInfo with a destructor, whose memory can change its size.
 *
 * The destructor receives the data address, the size and NULL before the memory is freed.
 * A destructor that takes the data address alone works too.
 * Thread-safety: any thread.
 *
 * @param size The bytes of memory; 0 is allowed.
 * @param dtor The finalizer; NULL: none.
 * @return The MemInfo with one reference, owned by the caller. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API NRT_MemInfo *tarn_nrt_MemInfo_new_varsize_dtor(size_t size,
                                                        NRT_dtor_function dtor);

/** Allocates new memory for a resizable MemInfo; the caller frees the old memory.
 *
 * Thread-safety: one thread at a time for a MemInfo.
 *
 * @param mi A MemInfo of NRT_MemInfo_new_varsize() or its `_dtor` form. Any other is
 *   misuse.
 * @param size The bytes of memory; 0 is allowed.
 * @return The new data address. NULL, with a message: no memory, or misuse; `mi` keeps
 *   its memory.
 * @since 0.1 */
TARN_API void *tarn_nrt_MemInfo_varsize_alloc(NRT_MemInfo *mi, size_t size);

/** Resizes the memory of a resizable MemInfo, as realloc().
 *
 * Thread-safety: one thread at a time for a MemInfo.
 *
 * @param mi A MemInfo of NRT_MemInfo_new_varsize() or its `_dtor` form. Any other is
 *   misuse.
 * @param size The bytes of memory; 0 is allowed.
 * @return The new data address. NULL, with a message: no memory, or misuse; `mi` keeps
 *   its memory.
 * @since 0.1 */
TARN_API void *tarn_nrt_MemInfo_varsize_realloc(NRT_MemInfo *mi, size_t size);

/** Frees memory of a resizable MemInfo.
 *
 * If `ptr` is the current memory of `mi`, the data address of `mi` becomes NULL.
 * Thread-safety: one thread at a time for a MemInfo.
 *
 * @param mi The MemInfo; not NULL.
 * @param ptr The memory; NULL does nothing.
 * @since 0.1 */
TARN_API void tarn_nrt_MemInfo_varsize_free(NRT_MemInfo *mi, void *ptr);

/* --- memory without a MemInfo ------------------------------------------------------- */

/** Allocates memory without a MemInfo.
 *
 * Thread-safety: any thread.
 *
 * @param size The size in bytes; 0 bytes are a block too.
 * @return The memory, owned by the caller, at a multiple of 16. NULL, with a message: no
 *   memory.
 * @since 0.1 */
TARN_API void *tarn_nrt_Allocate(size_t size);

/** Allocates memory without a MemInfo from an external allocator.
 *
 * Thread-safety: any thread.
 *
 * @param size The size in bytes; 0 bytes are a block too.
 * @param allocator The allocator; borrowed, has to live as long as the block. NULL: the
 *   instance's own.
 * @return The memory, owned by the caller. NULL, with a message: no memory.
 * @since 0.1 */
TARN_API void *tarn_nrt_Allocate_External(size_t size, NRT_ExternalAllocator *allocator);

/** Resizes memory without a MemInfo, as realloc().
 *
 * Thread-safety: one thread at a time for a block.
 *
 * @param ptr The memory; NULL allocates. Ownership is transferred on success.
 * @param size The new size in bytes; 0 bytes are a block, not a free.
 * @return The memory, owned by the caller. NULL, with a message: no memory, or misuse;
 *   the old block stays.
 * @since 0.1 */
TARN_API void *tarn_nrt_Reallocate(void *ptr, size_t size);

/** Frees memory without a MemInfo; it returns to its allocator.
 *
 * Thread-safety: any thread.
 *
 * @param ptr The memory; ownership is transferred. NULL does nothing and is not counted.
 * @since 0.1 */
TARN_API void tarn_nrt_Free(void *ptr);

/* --- tables, printing, support for compilers ---------------------------------------- */

/** Returns the function table of the default instance.
 *
 * The caller can use the table at once, without an initialization.
 * Thread-safety: any thread.
 *
 * @return The table; static storage, always the same address.
 * @since 0.1 */
TARN_API const NRT_api_functions *tarn_nrt_get_api(void);

/** Prints to stderr, as printf().
 *
 * Thread-safety: any thread.
 *
 * @param format The format string of printf(), with its arguments behind it; not NULL.
 * @since 0.1 */
TARN_API void tarn_nrt_debug_print(const char *format, ...) TARN_PRINTF(1, 2);

/** Returns a sample allocator for tests and experiments.
 *
 * The allocator uses libc. It prints a line on stderr for each call if the default
 * instance has TARN_NRT_TRACE.
 * Thread-safety: any thread.
 *
 * @return The allocator; static storage.
 * @since 0.1 */
TARN_API NRT_ExternalAllocator *tarn_nrt_sample_external_allocator(void);

/** Reports the call of a function that was never compiled.
 *
 * A compiler puts the address of this function in place of a function that it has not
 * compiled yet. Callers may pass any arguments. See tarn_nrt_set_unresolved_hook().
 * Thread-safety: any thread.
 *
 * @return The result of the hook. Without a hook the process aborts.
 * @since 0.1 */
TARN_API int tarn_nrt_unresolved_abort(void);

/** @} */

TARN_END_DECLS

#ifndef TARN_NRT_NO_NAMES
/** @addtogroup tarn_nrt_names
 * @{ */

/** Numba's name of tarn_nrt_MemSys_init(). */
#define NRT_MemSys_init tarn_nrt_MemSys_init
/** Numba's name of tarn_nrt_MemSys_shutdown(). */
#define NRT_MemSys_shutdown tarn_nrt_MemSys_shutdown
/** Numba's name of tarn_nrt_MemSys_set_allocator(). */
#define NRT_MemSys_set_allocator tarn_nrt_MemSys_set_allocator
/** Numba's name of tarn_nrt_MemSys_enable_stats(). */
#define NRT_MemSys_enable_stats tarn_nrt_MemSys_enable_stats
/** Numba's name of tarn_nrt_MemSys_disable_stats(). */
#define NRT_MemSys_disable_stats tarn_nrt_MemSys_disable_stats
/** Numba's name of tarn_nrt_MemSys_stats_enabled(). */
#define NRT_MemSys_stats_enabled tarn_nrt_MemSys_stats_enabled
/** Numba's name of tarn_nrt_MemSys_get_stats_alloc(). */
#define NRT_MemSys_get_stats_alloc tarn_nrt_MemSys_get_stats_alloc
/** Numba's name of tarn_nrt_MemSys_get_stats_free(). */
#define NRT_MemSys_get_stats_free tarn_nrt_MemSys_get_stats_free
/** Numba's name of tarn_nrt_MemSys_get_stats_mi_alloc(). */
#define NRT_MemSys_get_stats_mi_alloc tarn_nrt_MemSys_get_stats_mi_alloc
/** Numba's name of tarn_nrt_MemSys_get_stats_mi_free(). */
#define NRT_MemSys_get_stats_mi_free tarn_nrt_MemSys_get_stats_mi_free
/** Numba's name of tarn_nrt_MemInfo_new(). */
#define NRT_MemInfo_new tarn_nrt_MemInfo_new
/** Numba's name of tarn_nrt_MemInfo_init(). */
#define NRT_MemInfo_init tarn_nrt_MemInfo_init
/** Numba's name of tarn_nrt_MemInfo_alloc(). */
#define NRT_MemInfo_alloc tarn_nrt_MemInfo_alloc
/** Numba's name of tarn_nrt_MemInfo_alloc_external(). */
#define NRT_MemInfo_alloc_external tarn_nrt_MemInfo_alloc_external
/** Numba's name of tarn_nrt_MemInfo_alloc_dtor(). */
#define NRT_MemInfo_alloc_dtor tarn_nrt_MemInfo_alloc_dtor
/** Numba's name of tarn_nrt_MemInfo_alloc_safe(). */
#define NRT_MemInfo_alloc_safe tarn_nrt_MemInfo_alloc_safe
/** Numba's name of tarn_nrt_MemInfo_alloc_dtor_safe(). */
#define NRT_MemInfo_alloc_dtor_safe tarn_nrt_MemInfo_alloc_dtor_safe
/** Numba's name of tarn_nrt_MemInfo_alloc_aligned(). */
#define NRT_MemInfo_alloc_aligned tarn_nrt_MemInfo_alloc_aligned
/** Numba's name of tarn_nrt_MemInfo_alloc_safe_aligned(). */
#define NRT_MemInfo_alloc_safe_aligned tarn_nrt_MemInfo_alloc_safe_aligned
/** Numba's name of tarn_nrt_MemInfo_alloc_safe_aligned_external(). */
#define NRT_MemInfo_alloc_safe_aligned_external \
    tarn_nrt_MemInfo_alloc_safe_aligned_external
/** Numba's name of tarn_nrt_MemInfo_acquire(). */
#define NRT_MemInfo_acquire tarn_nrt_MemInfo_acquire
/** Numba's name of tarn_nrt_MemInfo_release(). */
#define NRT_MemInfo_release tarn_nrt_MemInfo_release
/** Numba's name of tarn_nrt_MemInfo_call_dtor(). */
#define NRT_MemInfo_call_dtor tarn_nrt_MemInfo_call_dtor
/** Numba's name of tarn_nrt_MemInfo_destroy(). */
#define NRT_MemInfo_destroy tarn_nrt_MemInfo_destroy
/** Numba's name of tarn_nrt_dealloc(). */
#define NRT_dealloc tarn_nrt_dealloc
/** Numba's name of tarn_nrt_MemInfo_refcount(). */
#define NRT_MemInfo_refcount tarn_nrt_MemInfo_refcount
/** Numba's name of tarn_nrt_MemInfo_data(). */
#define NRT_MemInfo_data tarn_nrt_MemInfo_data
/** Numba's name of tarn_nrt_MemInfo_size(). */
#define NRT_MemInfo_size tarn_nrt_MemInfo_size
/** Numba's name of tarn_nrt_MemInfo_external_allocator(). */
#define NRT_MemInfo_external_allocator tarn_nrt_MemInfo_external_allocator
/** Numba's name of tarn_nrt_MemInfo_parent(). */
#define NRT_MemInfo_parent tarn_nrt_MemInfo_parent
/** Numba's name of tarn_nrt_MemInfo_dump(). */
#define NRT_MemInfo_dump tarn_nrt_MemInfo_dump
/** Numba's name of tarn_nrt_MemInfo_new_varsize(). */
#define NRT_MemInfo_new_varsize tarn_nrt_MemInfo_new_varsize
/** Numba's name of tarn_nrt_MemInfo_new_varsize_dtor(). */
#define NRT_MemInfo_new_varsize_dtor tarn_nrt_MemInfo_new_varsize_dtor
/** Numba's name of tarn_nrt_MemInfo_varsize_alloc(). */
#define NRT_MemInfo_varsize_alloc tarn_nrt_MemInfo_varsize_alloc
/** Numba's name of tarn_nrt_MemInfo_varsize_realloc(). */
#define NRT_MemInfo_varsize_realloc tarn_nrt_MemInfo_varsize_realloc
/** Numba's name of tarn_nrt_MemInfo_varsize_free(). */
#define NRT_MemInfo_varsize_free tarn_nrt_MemInfo_varsize_free
/** Numba's name of tarn_nrt_Allocate(). */
#define NRT_Allocate tarn_nrt_Allocate
/** Numba's name of tarn_nrt_Allocate_External(). */
#define NRT_Allocate_External tarn_nrt_Allocate_External
/** Numba's name of tarn_nrt_Reallocate(). */
#define NRT_Reallocate tarn_nrt_Reallocate
/** Numba's name of tarn_nrt_Free(). */
#define NRT_Free tarn_nrt_Free
/** Numba's name of tarn_nrt_get_api(). */
#define NRT_get_api tarn_nrt_get_api
/** Numba's name of tarn_nrt_debug_print(). */
#define nrt_debug_print tarn_nrt_debug_print
/** Numba's name of tarn_nrt_sample_external_allocator(). */
#define _nrt_get_sample_external_allocator tarn_nrt_sample_external_allocator
/** Numba's name of tarn_nrt_unresolved_abort(). */
#define nrt_unresolved_abort tarn_nrt_unresolved_abort

/** @} */
#endif

#endif
