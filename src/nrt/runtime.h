/* runtime.h -- an instance, its part of every thread, and its allocators.
 *
 * A thread has a shard of each instance that it uses: counters that it alone writes, and
 * small blocks that are immediately available. Most calls access nothing else. Shared
 * data (the lists of batches, chunks, quarantine) have one lock per instance. No
 * allocator, destructor or handler is ever called under it. CPython's raw allocator takes
 * the GIL while tracemalloc traces, and a thread with the GIL may be waiting for the
 * lock.
 *
 * Order of locks: the view (memsys.c), the registry (runtime.c), an instance's, sites,
 * hooks.
 */
#ifndef TARN_NRT_RUNTIME_H
#define TARN_NRT_RUNTIME_H

#include "nrt/block.h"
#include <pthread.h>
#include <stdalign.h>

enum {
    TARN__RUNTIMES = 64,     /* indices of instances; 0 is the default one */
    TARN__ALLOCATORS = 16,   /* allocators in the life of an instance; 0 is libc */
    TARN__CLASSES = 18,      /* sizes of small blocks */
    TARN__SMALL_BYTES = 1088 /* data of the largest small MemInfo */
};

/* An allocator, with or without an argument of its own. */
struct tarn__allocator {
    NRT_ExternalAllocator with; /* with.malloc NULL: the plain functions below */
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
    uint64_t fast; /* header of a small block of the fast path, without class and MI */
    /* The last-freed slot, by class, or NULL. It is kept out of the list: a block that is
     * allocated and freed in turn would make each call wait for the list's last update.
     */
    struct tarn__free_block *hot[TARN__CLASSES];
    struct tarn__slab_list lists[TARN__CLASSES];
    struct tarn__counters counters;
    _Atomic int64_t high;    /* the most bytes_made - bytes_gone since the last flush */
    int64_t low;             /* flush when the difference falls below this */
    int64_t over;            /* ... and when `high` rises above this */
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
    _Atomic uint64_t word; /* allocator, generation, TARN__SLOW: the fast path compares
                            * it */
    atomic_uint modes;
    unsigned index; /* in the registry */
    atomic_bool shut;
    char name[32];              /* for messages */
    struct tarn__shard *shards; /* under the registry's lock */
    struct tarn__counters
        folded;        /* of threads that ended, and of those without a shard */
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

extern tarn_runtime tarn__default_runtime;
extern _Atomic(tarn_runtime *) tarn__runtimes[TARN__RUNTIMES];
extern struct tarn__shard tarn__no_shard;

/* One pointer per thread, in the thread's static block: a load relative to the thread
 * register. A library that is opened late gets its 8 bytes from the surplus that libc
 * keeps for that (docs/nrt.md has the figures). */
#ifndef TARN_NRT_TLS_MODEL
#define TARN_NRT_TLS_MODEL "initial-exec"
#endif
extern _Thread_local struct tarn__nrt_thread *tarn__nrt_self
    __attribute__((visibility("hidden"), tls_model(TARN_NRT_TLS_MODEL)));

static inline struct tarn__shard *tarn__shard_at(unsigned index)
{
    return atomic_load_explicit(&tarn__nrt_self->shard[index % TARN__RUNTIMES],
                                memory_order_relaxed);
}

/* runtime.c: the instance that a header names. */
static inline tarn_runtime *tarn__registry_at(unsigned index)
{
    return atomic_load_explicit(&tarn__runtimes[index % TARN__RUNTIMES],
                                memory_order_acquire);
}
/* Read the environment and look for Valgrind and ASan, once. */
void tarn__modes_ready(tarn_runtime *runtime);
/* The list of instances and of their shards. */
void tarn__registry_lock(void);
void tarn__registry_unlock(void);
/* memsys.c: the view of the default instance's counters. It comes before the registry. */
void tarn__memsys_lock(void);
void tarn__memsys_unlock(void);
/* All locks of this module, for fork. */
void tarn__registry_lock_all(void);
void tarn__registry_unlock_all(void);
/* Does Valgrind or ASan watch this process? Valid after tarn__modes_ready(). */
bool tarn__modes_has_sanitizer(void);
/* snapshot.c: print what is still live when the process ends; once. */
void tarn__snapshot_report_at_exit(void);
/* Recompute `word`. Under the instance's lock. */
void tarn__modes_update_word(tarn_runtime *runtime);
tarn_status tarn__runtime_use_allocator(tarn_runtime *runtime,
                                        const struct tarn__allocator *allocator);

/* shard.c: this thread's shard of an instance, created if missing; NULL: no host memory.
 * It follows changes of allocator and modes. */
struct tarn__shard *tarn__shard_get(tarn_runtime *runtime);
/* Take all shards of an instance away from their threads. Under the registry's lock. */
void tarn__shard_free_all(tarn_runtime *runtime);

/* slab.c: small blocks. */
extern const uint16_t tarn__slab_class_bytes[TARN__CLASSES];
/* The class for data of a given number of 16-byte units behind a MemInfo, at multiples of
 * 16, 32 and 64. */
extern uint8_t tarn__slab_class_of[3][TARN__SMALL_BYTES / 16 + 1];
void tarn__slab_init_classes(void);
/* A block of `class`, its header still FREE; NULL: no host memory. */
struct tarn__free_block *tarn__slab_take(struct tarn__shard *shard, unsigned class);
/* Return a FREE block of `source`; `shard` may be NULL. */
void tarn__slab_put(tarn_runtime *runtime, struct tarn__shard *shard, unsigned allocator,
                    struct tarn__free_block *block);
/* The list of a class is full: make space for one more. */
void tarn__slab_overflow(struct tarn__shard *shard, unsigned class);
/* How many blocks a list holds at most. */
extern const uint16_t tarn__slab_batch_blocks[TARN__CLASSES];
/* Return all blocks in the lists of a shard to its instance. */
void tarn__slab_drain(struct tarn__shard *shard);
/* Free unused chunks, or all chunks of an instance that ends. Return the bytes. */
size_t tarn__slab_trim(tarn_runtime *runtime);
void tarn__slab_free_all(tarn_runtime *runtime);

/* allocator.c: memory from an allocator. */
void *tarn__allocator_malloc(const struct tarn__allocator *allocator, size_t bytes);
void *tarn__allocator_realloc(const struct tarn__allocator *allocator, void *old,
                              size_t bytes);
void tarn__allocator_free(const struct tarn__allocator *allocator, void *memory);

/* misuse.c */
void tarn__misuse_report(tarn_runtime *runtime, const char *format, ...)
    TARN_PRINTF(2, 3);
/* Report that `block` is not LIVE, or that its count is invalid. */
void tarn__misuse_block(const struct tarn__block *block, const char *what);
/* A line of TARN_NRT_TRACE. */
void tarn__debug_trace(const char *format, ...) TARN_PRINTF(1, 2);

/* alloc_site.c: 0 is unknown. */
unsigned tarn__alloc_site_enter(const tarn_runtime *runtime, const void *caller,
                                const char *where, size_t bytes);
void tarn__alloc_site_leave(unsigned site, size_t bytes);
void tarn__alloc_site_resize(unsigned site, size_t before, size_t after);
void tarn__alloc_site_lock(void);
void tarn__alloc_site_unlock(void);
#endif
