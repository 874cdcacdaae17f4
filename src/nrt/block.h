/* block.h -- the header before every block: 16 bytes that name its owner and its state.
 *
 * The 48 bytes of a MemInfo are Numba's. Compiled code itself reads and changes the count
 * at 0 and reads the data at 24. So no field may move, and there is no space for anything
 * else. A header before them has the rest. Raw memory has the same header, so a free
 * needs no arguments.
 *
 *     a MemInfo   [header 16][MemInfo 48][front][data][back]
 *     raw memory  [header 16][data][back]
 *     raw memory of an external allocator   [allocator 16][header 16][data][back]
 *
 *     front   in a MemInfo with the flag RED_ZONE: 8 bytes with the offset of the data,
 *             then guard bytes
 *     back    in a block with the flag GUARD: 16 guard bytes
 *
 * Vocabulary of this module:
 *
 *     instance        a tarn_runtime. The registry is the table of the instances.
 *     to make         to allocate a block
 *     to end          to free a block, after its destructor has run: the end puts it into
 *                     quarantine or reclaims it
 *     to reclaim      to return the memory of a block to its slab or its allocator
 *     small block     a slot of a slab: memory of a chunk that is cut into slots of one
 *                     size class. A free slot is a struct tarn__free_block.
 *     class           the size class of a small block, 0 to TARN__CLASSES - 1. The values
 *                     DIRECT and EXTERNAL in its place denote a single block.
 *     single block    a block with an allocation of its own. DIRECT: it is from an
 *                     allocator of the instance. EXTERNAL: from an external allocator.
 *     shard           the part of an instance that belongs to one thread (runtime.h)
 *     word            64 bits of packed fields. There are three: in a block's header, in
 *                     an instance (allocator, generation, slow path or not), and in a
 *                     shard (the instance's, as last seen).
 *     site            an allocation site: return address and label of the call that
 *                     allocated. Mode TARN_NRT_SITES records it.
 *     raw memory      a block that is no MemInfo. Compiled code may make one out of it
 *                     (NRT_MemInfo_init()).
 *     label           the text that the thread set with tarn_nrt_set_label()
 *     generation      of an instance: the number of changes of its word. A shard whose
 *                     word has another one is brought up to date first.
 *     batch           a list of free blocks that moves between a shard and the instance
 *     uncounted       a request that changes the bytes of an allocation is uncounted: it
 *                     counts bytes, but no allocation and no free
 *     folded          the counters of an instance, for threads that ended or have no
 *                     shard
 *     shard->fast     a block's word with state, instance and allocator, ready to use
 *     allocator->with the functions of an allocator that take an argument
 */
#ifndef TARN_NRT_BLOCK_H
#define TARN_NRT_BLOCK_H

#include <tarn/nrt.h>
#include <stdatomic.h>

/* The counted block. */
struct MemInfo {
    atomic_size_t refct; /* compiled code counts here too; 0 in a freed block */
    tarn_meminfo_destructor dtor;
    void *dtor_info; /* given with dtor, and passed to it */
    void *data;
    size_t size; /* as given; the bytes of the data are in the header */
    NRT_ExternalAllocator *external_allocator; /* NULL: the instance's own */
};

/* The header of a block. The word is read by calls that may come too late, so it is
 * atomic. */
struct tarn__block {
    _Atomic uint64_t word; /* state, runtime, class, allocator, flags, site: see below */
    uint64_t bytes;        /* as requested: the number that statistics count */
};

/* A free block: this struct overlays it. The count stays 0 and the header says FREE, so
 * that a late release is detected. */
struct tarn__free_block {
    struct tarn__block block;
    atomic_size_t refct;
    struct tarn__free_block *next;       /* in its list, its batch, or quarantine */
    struct tarn__free_block *next_batch; /* of the first of a batch */
    size_t count;                        /* of the first of a batch: its length */
};

/* The word, from its lowest bit up. */
enum {
    TARN__STATE_BITS = 16,
    TARN__RUNTIME_SHIFT = 16,   /* 8 bits: index of the instance in the registry */
    TARN__CLASS_SHIFT = 24,     /* 8 bits: size class, or DIRECT or EXTERNAL */
    TARN__ALLOCATOR_SHIFT = 32, /* 8 bits: number of the instance's allocator */
    TARN__FLAGS_SHIFT = 40,     /* 8 bits: TARN__MI and the flags after it */
    TARN__SITE_SHIFT = 48       /* 16 bits: allocation site; 0 is unknown */
};

enum {
    TARN__LIVE = 0x4e52,        /* allocated */
    TARN__ENDING = 0x4e45,      /* its destructor runs */
    TARN__QUARANTINED = 0x4e48, /* freed, in quarantine */
    TARN__FREE = 0x4e46         /* freed, in a slab or returned to its allocator */
};

/* Set in the allocator number of a single block. The fast path compares the header with
 * that of a small block, and this bit makes the two differ. */
enum { TARN__SINGLE = 0x80 };

enum {
    TARN__DIRECT = 255,  /* class of a single block from an allocator of the instance */
    TARN__EXTERNAL = 254 /* class of a single block from an external allocator */
};

/* The flags: how a block was allocated. A later change of the modes leaves them. */
enum {
    TARN__MI = 1,       /* a MemInfo, and counted as one; else raw memory */
    TARN__PREFIX = 2,   /* raw memory, with the pointer to its external allocator before
                         * the header */
    TARN__RED_ZONE = 4, /* a MemInfo with a front: it has one of the next three flags */
    TARN__POISON = 8,   /* its data are filled: new with 0xCB, at its end with 0xDE */
    TARN__GUARD = 16,   /* its guard bytes are checked at its end */
    TARN__QUARANTINE = 32, /* goes into quarantine at its end */
    TARN__TRACE = 64,      /* calls on it print a line */
    TARN__ANNOTATED = 128  /* a small block whose end is reported to Valgrind or ASan */
};

enum {
    TARN__HEADER = 16,       /* bytes of the header */
    TARN__HEAD = 64,         /* bytes of header and MemInfo: one cache line */
    TARN__PREFIX_BYTES = 16, /* bytes before the header, with the flag PREFIX */
    TARN__FRONT = 16,        /* fewest bytes of the front */
    TARN__BACK = 16          /* bytes of the back */
};

/* The fields of a header's word: FIELD reads one of 8 bits, STATE, FLAGS and SITE read
 * theirs. FLAG makes the word in which the given flags alone are set. */

#define TARN__FIELD(word, shift) ((unsigned)((word) >> (shift)) & 0xff)
#define TARN__STATE(word) ((unsigned)((word) & 0xffff))
#define TARN__FLAGS(word) TARN__FIELD(word, TARN__FLAGS_SHIFT)
#define TARN__FLAG(flag) ((uint64_t)(flag) << TARN__FLAGS_SHIFT)
#define TARN__SITE(word) ((unsigned)((word) >> TARN__SITE_SHIFT))

static inline uint64_t tarn__block_word(const struct tarn__block *block)
{
    return atomic_load_explicit(&block->word, memory_order_relaxed);
}

static inline void tarn__block_set_word(struct tarn__block *block, uint64_t word)
{
    atomic_store_explicit(&block->word, word, memory_order_relaxed);
}

static inline void tarn__block_set_state(struct tarn__block *block, unsigned state)
{
    uint64_t word = tarn__block_word(block);

    tarn__block_set_word(block, (word & ~(uint64_t)0xffff) | state);
}

/* Return the header before a MemInfo or before raw memory. */
static inline struct tarn__block *tarn__block_of(const void *start)
{
    return (struct tarn__block *)(uintptr_t)((const char *)start - TARN__HEADER);
}

static inline struct MemInfo *tarn__block_meminfo(struct tarn__block *block)
{
    return (struct MemInfo *)(void *)((char *)block + TARN__HEADER);
}

/* Return where raw memory with the flag PREFIX has its external allocator. */
static inline NRT_ExternalAllocator **tarn__block_prefix(struct tarn__block *block)
{
    return (NRT_ExternalAllocator **)(void *)((char *)block - TARN__PREFIX_BYTES);
}

#endif
