/* meminfo.h -- how a counted block lies in memory.
 *
 * The 48 bytes are Numba's: compiled code reads and changes the count at 0 and reads the
 * data at 24 by itself, so no field may move. They have no room for the runtime that a
 * block belongs to. It stands in a header in front of them; header and MemInfo are one
 * cache line, so finding the runtime costs no second miss. Whoever makes blocks in
 * another way later (slabs, data behind the MemInfo, external allocators) keeps that
 * header.
 */
#ifndef TARN_NRT_MEMINFO_H
#define TARN_NRT_MEMINFO_H

#include <tarn/nrt.h>
#include <stdalign.h>
#include <stdatomic.h>

/* An instance. It may be static storage: all zeros but for the name is a fresh one. */
struct tarn_runtime {
    char name[32];           /* for messages */
    atomic_size_t created;   /* MemInfos made, ever */
    atomic_size_t destroyed; /* of them gone; counted as the last touch of the instance */
};

struct MemInfo {
    atomic_size_t refct; /* compiled code counts here too */
    tarn_meminfo_destructor dtor;
    void *dtor_info;
    void *data;
    size_t size;
    void *external_allocator; /* NULL: the block came from libc */
};

/* What is allocated: 64 bytes. */
struct tarn__meminfo_block {
    alignas(64) tarn_runtime *runtime; /* the block's own; not retained, see release */
    uint64_t spare;                    /* keeps the MemInfo at a multiple of 16 */
    struct MemInfo meminfo;
};

/* The block around a MemInfo. */
static inline struct tarn__meminfo_block *tarn__meminfo_block(tarn_meminfo *meminfo)
{
    return (struct tarn__meminfo_block *)((char *)meminfo -
                                          offsetof(struct tarn__meminfo_block, meminfo));
}

/* What release does at zero: the destructor, then the block. Compiled code that counts by
 * itself calls this alone. */
void tarn__meminfo_destroy(tarn_meminfo *meminfo);

#endif
