/* meminfo.h -- how MemInfos are made, for those of this room that make them. */
#ifndef TARN_NRT_MEMINFO_H
#define TARN_NRT_MEMINFO_H

#include "nrt/make.h"

/* A MemInfo that is wanted. */
struct tarn__recipe {
    tarn_runtime *runtime;
    bool borrowed; /* over `data`, which is not ours; else with `bytes` of its own */
    void *data;
    size_t bytes;
    size_t alignment;
    tarn_meminfo_destructor destructor;
    void *info;
    NRT_ExternalAllocator *external;
    bool poison;
    const void *caller;
    const char *where;
};

/* NULL, with words: no memory. */
struct MemInfo *tarn__meminfo_make(const struct tarn__recipe *recipe);

/* Over memory that is there; the fast way where it is open. */
struct MemInfo *tarn__meminfo_new(tarn_runtime *runtime, void *data, size_t size,
                                  tarn_meminfo_destructor destructor, void *info,
                                  const void *caller);

/* Raw memory; NULL, with words. */
void *tarn__raw_make(tarn_runtime *runtime, size_t bytes, NRT_ExternalAllocator *external,
                     const void *caller);
void *tarn__raw_resize(void *start, size_t bytes, const void *caller);
void tarn__raw_free(void *start);

/* The mark of a varsize MemInfo: its destructor, which frees its memory even after a
 * shutdown and calls the elements' destructor, which is in dtor_info, only before. */
void tarn__varsize_destructor(void *data, size_t size, void *info);
void tarn__varsize_end(struct MemInfo *meminfo, bool shut);

void tarn__meminfo_destruct(struct MemInfo *meminfo);

#endif
