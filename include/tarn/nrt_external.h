/* nrt_external.h -- the function table of Numba's runtime, for code that receives one.
 *
 * The names, the layout and the include guard are those of Numba's own header of this
 * name. So a program may include either header first, and the first one serves both. C
 * code that needs only the table includes this header alone and links nothing.
 */
#ifndef NUMBA_NRT_EXTERNAL_H_
#define NUMBA_NRT_EXTERNAL_H_

#include <stdlib.h>

/** @addtogroup tarn_nrt_names
 * @{ */

/** A reference-counted block of 48 bytes: the count at 0, the data address at 24. */
typedef struct MemInfo NRT_MemInfo;

/** Frees `data`, the memory passed to NRT_api_functions.manage_memory.
 *
 * The runtime calls it on the thread that released the last reference. */
typedef void NRT_managed_dtor(void *data);

/** Allocates `size` bytes, as C99's malloc(), for 0 bytes too.
 *
 * `opaque_data` is that of the allocator. The runtime calls it on any thread. */
typedef void *(*NRT_external_malloc_func)(size_t size, void *opaque_data);

/** Resizes the block `ptr` to `new_size` bytes, as realloc().
 *
 * `opaque_data` is that of the allocator. The runtime calls it on any thread. */
typedef void *(*NRT_external_realloc_func)(void *ptr, size_t new_size, void *opaque_data);

/** Frees the block `ptr`, as free().
 *
 * `opaque_data` is that of the allocator. The runtime calls it on any thread. */
typedef void (*NRT_external_free_func)(void *ptr, void *opaque_data);

/** An allocator outside the runtime; it has to live as long as its blocks. */
struct ExternalMemAllocator {
    /** Allocates a block. */
    NRT_external_malloc_func malloc;
    /** Resizes a block. */
    NRT_external_realloc_func realloc;
    /** Frees a block. */
    NRT_external_free_func free;
    /** The last argument of all three functions. */
    void *opaque_data;
};

/** An allocator outside the runtime. */
typedef struct ExternalMemAllocator NRT_ExternalAllocator;

/** The function table.
 *
 * A function that creates a MemInfo returns one reference, which the caller owns, or
 * NULL. Any thread may call the functions. */
typedef struct {
    /** Creates a MemInfo with `nbytes` bytes of memory. */
    NRT_MemInfo *(*allocate)(size_t nbytes);
    /** Creates a MemInfo with `nbytes` bytes of memory from `allocator`. */
    NRT_MemInfo *(*allocate_external)(size_t nbytes, NRT_ExternalAllocator *allocator);
    /** Creates a MemInfo over the existing memory `data`; `dtor` frees the memory. */
    NRT_MemInfo *(*manage_memory)(void *data, NRT_managed_dtor dtor);
    /** Adds a reference to `mi`. */
    void (*acquire)(NRT_MemInfo *mi);
    /** Ends a reference to `mi`; the last one frees the memory. */
    void (*release)(NRT_MemInfo *mi);
    /** Returns the data address of `mi`. */
    void *(*get_data)(NRT_MemInfo *mi);
} NRT_api_functions;

/** @} */

#endif
