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
 * `front` exists in blocks with red zones (debug modes), `back` in guarded ones.
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

/* The header. The word is read by calls that may come too late, so it is atomic. */
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
    TARN__RUNTIME_SHIFT = 16,   /* 8 bits: index of the instance */
    TARN__CLASS_SHIFT = 24,     /* 8 bits: size class, or one of the two below */
    TARN__ALLOCATOR_SHIFT = 32, /* 8 bits: number of the instance's allocator */
    TARN__FLAGS_SHIFT = 40,     /* 8 bits */
    TARN__SITE_SHIFT = 48       /* 16 bits: allocation site; 0 is unknown */
};

enum {
    TARN__LIVE = 0x4e52,
    TARN__ENDING = 0x4e45,      /* its destructor runs */
    TARN__QUARANTINED = 0x4e48, /* freed, in quarantine */
    TARN__FREE = 0x4e46
};

/* In the allocator number of a block that is not small, so that it resembles no small
 * block of any allocator. */
enum { TARN__SINGLE = 0x80 };

enum {
    TARN__DIRECT = 255,  /* class of a block that came singly from its allocator */
    TARN__EXTERNAL = 254 /* ... or from an external allocator */
};

enum {
    TARN__MI = 1,       /* counted as a MemInfo */
    TARN__PREFIX = 2,   /* raw, with its external allocator in front */
    TARN__RED_ZONE = 4, /* has a front: 8 bytes with the place of the data, 8 of guard */
    TARN__POISON = 8,
    TARN__GUARD = 16,
    TARN__QUARANTINE = 32, /* goes into quarantine */
    TARN__TRACE = 64,
    TARN__ANNOTATED = 128 /* Valgrind or ASan knows of it, and has to be notified */
};

enum {
    TARN__HEADER = 16,
    TARN__HEAD = 64, /* header and MemInfo: one cache line */
    TARN__PREFIX_BYTES = 16,
    TARN__FRONT = 16,
    TARN__BACK = 16
};

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

/* The header in front of a MemInfo or of raw memory. */
static inline struct tarn__block *tarn__block_of(const void *start)
{
    return (struct tarn__block *)(uintptr_t)((const char *)start - TARN__HEADER);
}

static inline struct MemInfo *tarn__block_meminfo(struct tarn__block *block)
{
    return (struct MemInfo *)(void *)((char *)block + TARN__HEADER);
}

#endif
