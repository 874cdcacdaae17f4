/* meminfo.h -- how MemInfos are created, for the files of this module that create them.
 */
#ifndef TARN_NRT_MEMINFO_H
#define TARN_NRT_MEMINFO_H

#include "nrt/runtime.h"

/* A request for a MemInfo. */
struct tarn__meminfo_request {
    tarn_runtime *runtime;
    bool borrowed; /* over `data` of the caller; else with `bytes` of its own */
    void *data;
    size_t bytes;
    size_t alignment;
    tarn_meminfo_destructor destructor;
    void *info;
    NRT_ExternalAllocator *external;
    bool poison;
    const void *caller;
    const char *label;
};

/* Create a MemInfo. NULL with an error message: no memory. */
struct MemInfo *tarn__meminfo_make(const struct tarn__meminfo_request *recipe);

/* Create a MemInfo over existing memory, by the fast path where that is possible. */
struct MemInfo *tarn__meminfo_new(tarn_runtime *runtime, void *data, size_t size,
                                  tarn_meminfo_destructor destructor, void *info,
                                  const void *caller);

/* The mark of a varsize MemInfo: its destructor. It frees the MemInfo's memory even after
 * a shutdown, and calls the elements' destructor (in dtor_info) only before. */
void tarn__meminfo_varsize_destructor(void *data, size_t size, void *info);

#endif
