/* nrt_external.h -- the function table of Numba's runtime, for code that is given one.
 *
 * The names, the layout and the include guard are those of Numba's own header of this
 * name (seed 004, F16-F33), so whichever of the two is included first serves both. C code
 * that needs nothing but the table includes this alone and links nothing.
 */
#ifndef NUMBA_NRT_EXTERNAL_H_
#define NUMBA_NRT_EXTERNAL_H_

#include <stdlib.h>

/** A counted block: 48 bytes, the count at 0, the address of the data at 24. */
typedef struct MemInfo NRT_MemInfo;

/** Frees what was given to manage_memory(). */
typedef void NRT_managed_dtor(void *data);

/** The three of an allocator. malloc is as C99's, for 0 bytes too. */
typedef void *(*NRT_external_malloc_func)(size_t size, void *opaque_data);
typedef void *(*NRT_external_realloc_func)(void *ptr, size_t new_size, void *opaque_data);
typedef void (*NRT_external_free_func)(void *ptr, void *opaque_data);

/** An allocator of somebody else; it has to live as long as blocks that came from it. */
struct ExternalMemAllocator {
    NRT_external_malloc_func malloc;
    NRT_external_realloc_func realloc;
    NRT_external_free_func free;
    void *opaque_data; /* the last argument of all three */
};

typedef struct ExternalMemAllocator NRT_ExternalAllocator;

/** The table. Functions that make a MemInfo return one reference, or NULL. */
typedef struct {
    /** `nbytes` of memory with a MemInfo. */
    NRT_MemInfo *(*allocate)(size_t nbytes);
    /** The same from `allocator`. */
    NRT_MemInfo *(*allocate_external)(size_t nbytes, NRT_ExternalAllocator *allocator);
    /** A MemInfo for memory that is there already; `dtor` frees it. */
    NRT_MemInfo *(*manage_memory)(void *data, NRT_managed_dtor dtor);
    /** One reference more. */
    void (*acquire)(NRT_MemInfo *mi);
    /** One reference less; the last one frees. */
    void (*release)(NRT_MemInfo *mi);
    /** Where the data are. */
    void *(*get_data)(NRT_MemInfo *mi);
} NRT_api_functions;

#endif
