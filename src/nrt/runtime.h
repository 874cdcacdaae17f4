/* runtime.h -- the parts of an instance: its counters, its allocators, its shard in each
 * thread. block.h has the vocabulary.
 *
 * A thread has a shard of each instance that it uses: counters that it alone writes, and
 * small blocks that are immediately available. Most calls access nothing else. Shared
 * data (the lists of batches, chunks, quarantine) have one lock per instance. No
 * allocator, destructor or handler is ever called under it. CPython's raw allocator takes
 * the GIL while tracemalloc traces, and a thread with the GIL may be waiting for the
 * lock.
 *
 * Order of locks: the view (memsys.c), the registry (registry.c), an instance's,
 * allocation sites, hooks.
 */
#ifndef TARN_NRT_RUNTIME_H
#define TARN_NRT_RUNTIME_H

#include "nrt/block.h"
#include <pthread.h>
#include <stdalign.h>

enum {
    TARN__RUNTIMES = 64,      /* indices of instances; 0 is the default one */
    TARN__ALLOCATORS = 16,    /* allocators in the life of an instance; 0 is libc */
    TARN__CLASSES = 18,       /* size classes of small blocks: slab.c */
    TARN__SMALL_BYTES = 1088, /* data of the largest small MemInfo */
    TARN__QUARANTINE_LIMIT = 16 << 20 /* bytes in quarantine, until the user sets it */
};

/* An allocator, with or without an argument of its own. */
struct tarn__allocator {
    /* the functions with an argument. with.malloc is NULL: the allocator has none, and
     * its functions are those below */
    NRT_ExternalAllocator with;
    NRT_malloc_func malloc;
    NRT_realloc_func realloc;
    NRT_free_func free;
};

/* Memory for small blocks of one class. */
struct tarn__slab_chunk {
    struct tarn__slab_chunk *next;       /* of the pool */
    struct tarn__slab_chunk *next_fresh; /* of those with uncut blocks */
    char *first;                         /* its first block */
    size_t bytes;                        /* as requested from the allocator */
    uint32_t blocks;
    uint32_t cut;   /* blocks before this one have been used. Under the lock */
    uint32_t ready; /* of them: available; counted by trim alone */
    uint32_t class;
};

/* Small blocks of one allocator that no thread has. Under the instance's lock. */
struct tarn__slab_pool {
    struct tarn__free_block *batches[TARN__CLASSES]; /* by the first block of each */
    struct tarn__slab_chunk *fresh[TARN__CLASSES];   /* with blocks that are not cut */
    struct tarn__slab_chunk *chunks;
    size_t bytes[TARN__CLASSES]; /* of chunks: the next chunk grows with it */
};

/* Counters. They have one writer, or use atomic additions where there are more. */
struct tarn__counters {
    _Atomic uint64_t raw_alloc, raw_free; /* blocks that are no MemInfos: allocated,
                                           * freed */
    _Atomic uint64_t mi_free;             /* MemInfos freed, and their blocks */
    _Atomic uint64_t failed;
    _Atomic uint64_t bytes_made, bytes_gone;
    _Atomic uint64_t histogram[TARN_NRT_HISTOGRAM]; /* their sum is the number of
                                                     * blocks allocated */
};

struct tarn__slab_list {
    struct tarn__free_block *first;
    size_t count;
};

struct tarn__nrt_thread;

/* A thread's part of an instance. Only its thread writes, except for `next`. */
struct tarn__shard {
    alignas(128)
        uint64_t word; /* the instance's as last seen; a value it never has: slow path */
    /* word of the header of a small LIVE block with no flags, but without the class: the
     * fast path adds the class and MI, or compares with it */
    uint64_t fast;
    /* word of the header of a LIVE single MemInfo from `memory`, with the flag MI alone.
     * The bit SINGLE in the allocator number distinguishes it from a small block's */
    uint64_t direct;
    const struct tarn__allocator *memory; /* the instance's; NULL: not known yet */
    /* The last-freed slot, by class, or NULL. It is kept out of the list: a block that is
     * allocated and freed in turn would make each call wait for the list's last update.
     */
    struct tarn__free_block *hot[TARN__CLASSES];
    struct tarn__slab_list lists[TARN__CLASSES];
    struct tarn__counters counters;
    _Atomic int64_t high;    /* the most bytes_made - bytes_gone since the last flush */
    int64_t low;             /* flush when the difference falls below this */
    int64_t over;            /* ... and when `high` rises above this */
    int64_t moved;           /* by the last flush: it added so many bytes to `live` */
    unsigned swings;         /* flushes in a row that each undid the one before */
    _Atomic int64_t flushed; /* how much of it is in the instance's `live` */
    struct tarn__slab_list full_batch[TARN__CLASSES]; /* full, or empty: see slab.c */
    unsigned allocator;                               /* of the blocks in the lists */
    struct tarn__nrt_thread *thread;                  /* the owning thread */
    tarn_runtime *runtime;
    struct tarn__shard *next; /* of the instance; under the registry's lock */
};

/* The runtime's data of one thread. */
struct tarn__nrt_thread {
    _Atomic(struct tarn__shard *) shard[TARN__RUNTIMES]; /* none: &tarn__no_shard */
};

/* An instance. */
struct tarn_runtime {
    /* number of the allocator, generation, TARN__SLOW, TARN__UNREADY. The fast path
     * compares it with the shard's. */
    _Atomic uint64_t word;
    atomic_uint modes;
    unsigned index; /* in the registry */
    atomic_bool shut;
    char name[32];              /* for messages */
    struct tarn__shard *shards; /* under the registry's lock */
    struct tarn__counters
        folded; /* sum of threads that ended, and counts of threads without a shard */
    atomic_llong live; /* live bytes, as far as shards have flushed */
    atomic_llong peak; /* the highest value seen there */
    _Atomic uint64_t misuses;
    _Atomic uint64_t bytes_chunks;
    pthread_mutex_t lock;
    struct tarn__allocator
        allocators[TARN__ALLOCATORS]; /* written once each, then published */
    unsigned allocator_count;         /* under the lock */
    uint64_t generation;              /* under the lock */
    struct tarn__slab_pool pools[TARN__ALLOCATORS]; /* under the lock */
    struct tarn__free_block *quarantine_first,
        *quarantine_last;                      /* quarantine, oldest first; the lock */
    size_t quarantine_bytes, quarantine_limit; /* under the lock */
};

/* Bits of tarn_runtime.word above the allocator (8 bits) and the generation. */
#define TARN__SLOW (UINT64_C(1) << 63)
/* Modes that no allocation has to check. */
#define TARN__UNCHECKED_MODES (TARN_NRT_ABORT | TARN_NRT_EXIT_REPORT | TARN_NRT_SLABS)
#define TARN__UNREADY (UINT64_C(1) << 62) /* not initialized yet */

/* Have new blocks of the instance come from `allocator`. */
tarn_status tarn__runtime_use_allocator(tarn_runtime *runtime,
                                        const struct tarn__allocator *allocator);

#endif
