/* slow.c -- the slow path of a block: its allocation, its resizing and its end.
 *
 * This path serves every request: in every debug mode, with every allocator and
 * alignment. The fast path (fast.h) serves small blocks that need no check. The flags of
 * a block record how it was allocated. Its end follows these flags, whatever the modes
 * are then.
 *
 * block.h has the layout of a block, its flags and the vocabulary: header, MemInfo,
 * front, back, small and single block, slot, word, site, folded. This file adds:
 *
 *    instance     an NRT instance (tarn_runtime): its modes, allocators and counters
 *    prefix       the TARN__PREFIX_BYTES bytes before the header of raw memory from an
 *                 external allocator; they contain the address of that allocator
 *    slack        further bytes of an allocation, so that the data can be aligned in it
 *    red zone     front and back: the bytes around the data that reveal a wrong write
 *    fast, word   of a shard: `fast` is ready for the header of a small block; `word`
 *                 shows whether the shard is up to date (runtime.h)
 */
#include "nrt/slow.h"
#include "base/size.h"
#include "nrt/alloc_site.h"
#include "nrt/allocator.h"
#include "nrt/count.h"
#include "nrt/modes.h"
#include "nrt/quarantine.h"
#include "nrt/reclaim.h"
#include "nrt/red_zone.h"
#include "nrt/registry.h"
#include "nrt/sanitizer.h"
#include "nrt/shard.h"
#include "nrt/slab.h"
#include <string.h>

/* The layout of a block. */
struct shape {
    unsigned flags;
    size_t head;      /* bytes of prefix, header and MemInfo: all before the front */
    size_t front;     /* bytes of the front: the offset of the data, and guard bytes */
    size_t alignment; /* of the data; 1 if the 16 of every block are enough */
    size_t total;     /* bytes to allocate, without slack */
    size_t slack;     /* bytes to allocate beyond `total` */
};

/* Return the flags of a block for these modes. RED_ZONE gives a MemInfo a front, with
 * POISON, GUARD or QUARANTINE. Only GUARD gives a block a back, also raw memory. An
 * external allocator may end before the quarantine does, so its blocks do not enter
 * quarantine. */
static unsigned flags_for(const struct tarn__block_request *request, unsigned modes)
{
    unsigned flags = request->flags;

    if (modes & TARN_NRT_POISON)
        flags |= TARN__POISON;
    if (modes & TARN_NRT_GUARD)
        flags |= TARN__GUARD;
    if (modes & TARN_NRT_QUARANTINE && !request->external)
        flags |= TARN__QUARANTINE;
    if (modes & TARN_NRT_TRACE)
        flags |= TARN__TRACE;
    if (flags & TARN__MI && flags & (TARN__POISON | TARN__GUARD | TARN__QUARANTINE))
        flags |= TARN__RED_ZONE;
    if (request->external && !(flags & TARN__MI))
        flags |= TARN__PREFIX;
    return flags;
}

/* Compute the layout. Returns false if the size exceeds the address space. A block for
 * the quarantine has space for a struct tarn__free_block, which overlays it there. */
static bool work_out(const struct tarn__block_request *request, unsigned flags,
                     struct shape *shape)
{
    bool mi = flags & TARN__MI, has_red_zone = flags & TARN__RED_ZONE;
    size_t alignment = request->alignment ? request->alignment : 1;

    shape->flags = flags;
    shape->head = mi ? TARN__HEAD : TARN__HEADER;
    shape->head += flags & TARN__PREFIX ? TARN__PREFIX_BYTES : 0;
    shape->front = mi && has_red_zone ? TARN__FRONT : 0;
    shape->alignment = 16 % alignment == 0 ? 1 : alignment;
    shape->slack = shape->alignment > 1 ? shape->alignment : 0;
    shape->total = shape->head + shape->front + (flags & TARN__GUARD ? TARN__BACK : 0);
    if (!tarn__size_add(shape->total, request->bytes, &shape->total))
        return false;
    if (flags & TARN__QUARANTINE && shape->total < sizeof(struct tarn__free_block))
        shape->total = sizeof(struct tarn__free_block);
    return shape->total <= PTRDIFF_MAX && shape->slack <= PTRDIFF_MAX - shape->total;
}

/* Find the size class of a slot that the block fits into; false: none.
 *
 * `steps` is 0, 1 or 2 for data at multiples of 16, 32 or 64. The classes for these begin
 * their slots at such multiples. So the data of a MemInfo without a front, which begin 64
 * bytes into the slot, need no slack. `inner` is the number of bytes of the block beyond
 * its first TARN__HEAD bytes. tarn__slab_class_of counts them in units of 16. In a
 * MemInfo the first TARN__HEAD bytes are header and MemInfo, in raw memory header and
 * data. */
static bool find_class(struct shape *shape, unsigned *class_out)
{
    unsigned steps = shape->alignment == 32 ? 1 : shape->alignment == 64 ? 2 : 0;
    size_t slack = steps && !shape->front && shape->head == TARN__HEAD ? 0 : shape->slack;
    size_t whole = shape->total + slack;
    size_t inner = whole > TARN__HEAD ? whole - TARN__HEAD : 0;

    if (inner > TARN__SMALL_BYTES || shape->flags & TARN__PREFIX)
        return false;
    *class_out = tarn__slab_class_of[steps][(inner + 15) / 16];
    return true;
}

/* Return true if small blocks come from slabs. In mode UNPOOLED each of them is a single
 * block instead. Under a sanitizer this is so, too, unless mode SLABS is on. */
static bool small_blocks_allowed(unsigned modes)
{
    return !(modes & TARN_NRT_UNPOOLED) &&
           (!tarn__modes_has_sanitizer() || modes & TARN_NRT_SLABS);
}

/* Take a slot of a slab. The word of its header has no flags and no site, and `bytes` is
 * not set: tarn__slow_make() sets these for all blocks. Under a sanitizer, the call
 * reports the bytes after the header as accessible and not initialized. The flag
 * ANNOTATED makes the end of the block report, too. */
static struct tarn__block *take_small(struct tarn__shard *shard, struct shape *shape,
                                      unsigned class)
{
    struct tarn__free_block *slot = tarn__slab_take(shard, class);

    if (!slot)
        return NULL;
    if (tarn__modes_has_sanitizer()) {
        shape->flags |= TARN__ANNOTATED;
        tarn__sanitizer_undefined((char *)slot + TARN__HEADER,
                                  tarn__slab_class_bytes[class] - (size_t)TARN__HEADER);
    }
    tarn__block_set_word(&slot->block,
                         shard->fast | (uint64_t)class << TARN__CLASS_SHIFT);
    return &slot->block;
}

/* Allocate a single block, from the external allocator of the request, or else from
 * allocator number `allocator` of the instance. */
static struct tarn__block *take_single(const struct tarn__block_request *request,
                                       const struct shape *shape, unsigned allocator)
{
    tarn_runtime *runtime = request->runtime;
    NRT_ExternalAllocator *external = request->external;
    size_t bytes = shape->total + shape->slack;
    char *memory = external
                       ? external->malloc(bytes, external->opaque_data)
                       : tarn__allocator_malloc(&runtime->allocators[allocator], bytes);

    if (!memory)
        return NULL;
    if (shape->flags & TARN__PREFIX)
        memory += TARN__PREFIX_BYTES;
    struct tarn__block *block = (struct tarn__block *)(void *)memory;
    if (shape->flags & TARN__PREFIX)
        *tarn__block_prefix(block) = external;
    atomic_init(&block->word,
                (uint64_t)TARN__LIVE | (uint64_t)runtime->index << TARN__RUNTIME_SHIFT |
                    (uint64_t)(external ? TARN__EXTERNAL : TARN__DIRECT)
                        << TARN__CLASS_SHIFT |
                    (uint64_t)(allocator | TARN__SINGLE) << TARN__ALLOCATOR_SHIFT);
    return block;
}

/* Take the memory of a block: a slot where it fits one, else a single block. */
static struct tarn__block *take(const struct tarn__block_request *request,
                                struct shape *shape, struct tarn__shard *shard,
                                unsigned modes)
{
    uint64_t word = atomic_load_explicit(&request->runtime->word, memory_order_acquire);
    unsigned class;

    if (shard && !request->external && small_blocks_allowed(modes) &&
        find_class(shape, &class))
        return take_small(shard, shape, class);
    return take_single(request, shape, (unsigned)(word & 0xff));
}

/* Return where the data begin: at the first multiple of the alignment after header,
 * MemInfo and front, as far as the block has these. */
static char *place_data(struct tarn__block *block, const struct shape *shape)
{
    size_t head = shape->flags & TARN__MI ? TARN__HEAD : TARN__HEADER;
    uintptr_t place = (uintptr_t)block + head + shape->front;
    uintptr_t over = place % shape->alignment;

    return (char *)(over ? place + (shape->alignment - over) : place);
}

/* Count an allocation: in the shard, or in the counters `folded` of the instance for a
 * thread without a shard. An uncounted request counts its bytes, but no block. */
static void count(struct tarn__shard *shard, const struct tarn__block_request *request)
{
    bool mi = request->flags & TARN__MI;

    if (!shard && request->uncounted)
        tarn__count_bytes_shared(request->runtime, request->bytes, 0);
    else if (!shard)
        tarn__count_made_shared(request->runtime, request->bytes, mi);
    else if (request->uncounted)
        tarn__count_bytes_made(shard, request->bytes);
    else
        tarn__count_made(shard, request->bytes, mi);
}

/* Count a failed allocation, in the same place. */
static void count_failure(struct tarn__shard *shard, tarn_runtime *runtime)
{
    if (shard)
        tarn__count_bump(&shard->counters.failed, 1);
    else
        atomic_fetch_add(&runtime->folded.failed, 1);
}

static struct tarn__block *fail_request(const struct tarn__block_request *request,
                                        struct tarn__shard *shard, const char *why)
{
    count_failure(shard, request->runtime);
    tarn_error_set(TARN_OUT_OF_MEMORY,
                   "nrt: runtime %s cannot allocate %zu bytes aligned to %zu%s",
                   request->runtime->name, request->bytes,
                   request->alignment ? request->alignment : 16, why);
    return NULL;
}

struct tarn__block *tarn__slow_make(const struct tarn__block_request *request,
                                    void **data_out)
{
    tarn_runtime *runtime = request->runtime;
    struct tarn__shard *shard = tarn__shard_get(runtime);
    unsigned modes = atomic_load_explicit(&runtime->modes, memory_order_relaxed);
    struct shape shape;

    if (!work_out(request, flags_for(request, modes), &shape))
        return fail_request(request, shard, ": the size exceeds the address space");
    struct tarn__block *block = take(request, &shape, shard, modes);
    if (!block)
        return fail_request(request, shard, "");
    uint64_t site = modes & TARN_NRT_SITES
                        ? tarn__alloc_site_enter(runtime, request->caller, request->label,
                                                 request->bytes)
                        : 0;
    tarn__block_set_word(block, tarn__block_word(block) | TARN__FLAG(shape.flags) |
                                    site << TARN__SITE_SHIFT);
    block->bytes = request->bytes;
    char *data = place_data(block, &shape);
    tarn__red_zone_write(block, data);
    count(shard, request);
    *data_out = data;
    return block;
}

/* Count a free: in the shard, or in the counters `folded` of the instance for a thread
 * without a shard. An uncounted request counts its bytes, but no block. */
static void count_end(tarn_runtime *runtime, size_t bytes, bool mi, bool uncounted)
{
    struct tarn__shard *shard = tarn__shard_get(runtime);

    if (!shard && uncounted)
        tarn__count_bytes_shared(runtime, 0, bytes);
    else if (!shard)
        tarn__count_gone_shared(runtime, bytes, mi);
    else if (uncounted)
        tarn__count_bytes_gone(shard, bytes);
    else
        tarn__count_gone(shard, bytes, mi);
}

/* Do all steps of a block's end except counting, as its flags require. Returns its
 * instance. The steps:
 *
 *    1. Check its guard bytes.
 *    2. Fill its data.
 *    3. Set the reference count of a MemInfo to 0. Compiled code may have made the
 *       MemInfo of raw memory. Then step 2 has overwritten the count.
 *    4. Subtract it from its allocation site.
 *    5. Put it into quarantine, or reclaim it. */
static tarn_runtime *take_apart(struct tarn__block *block)
{
    uint64_t word = tarn__block_word(block);
    unsigned flags = TARN__FLAGS(word);
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));

    tarn__red_zone_check(runtime, block);
    if (flags & (TARN__POISON | TARN__QUARANTINE))
        tarn__red_zone_poison(block);
    if (flags & TARN__MI)
        atomic_store_explicit(&tarn__block_meminfo(block)->refct, 0,
                              memory_order_relaxed);
    if (TARN__SITE(word))
        tarn__alloc_site_leave(TARN__SITE(word), block->bytes);
    if (flags & TARN__QUARANTINE)
        tarn__quarantine_add(runtime, block);
    else
        tarn__reclaim_block(block);
    return runtime;
}

void tarn__slow_end(struct tarn__block *block, bool uncounted)
{
    bool mi = TARN__FLAGS(tarn__block_word(block)) & TARN__MI;
    size_t bytes = block->bytes;

    count_end(take_apart(block), bytes, mi, uncounted);
}

void tarn__slow_end_as(struct tarn__block *block, bool mi)
{
    size_t bytes = block->bytes;

    count_end(take_apart(block), bytes, mi, false);
}

/* --- resizing raw memory ------------------------------------------------------------ */

/* Record the new size of a block that stays where it is, or that realloc() has moved. */
static struct tarn__block *settle(struct tarn__block *block, size_t before, size_t bytes)
{
    uint64_t word = tarn__block_word(block);
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    struct tarn__shard *shard = tarn__shard_get(runtime);

    if (TARN__SITE(word))
        tarn__alloc_site_resize(TARN__SITE(word), before, bytes);
    block->bytes = bytes;
    if (!shard) {
        tarn__count_bytes_shared(runtime, bytes, before);
        return block;
    }
    tarn__count_bytes_gone(shard, before);
    tarn__count_bytes_made(shard, bytes);
    return block;
}

/* Allocate another block of raw memory, copy the bytes that both have, and end the old
 * block. Both requests are uncounted: the bytes change, the number of blocks does not.
 * NULL: no memory, and the old block is unchanged. */
static struct tarn__block *move(tarn_runtime *runtime, struct tarn__block *block,
                                size_t bytes, const void *caller)
{
    NRT_ExternalAllocator *external = NULL;
    void *data;

    if (TARN__FLAGS(tarn__block_word(block)) & TARN__PREFIX)
        external = *tarn__block_prefix(block);
    struct tarn__block_request request = {.runtime = runtime,
                                          .bytes = bytes,
                                          .external = external,
                                          .uncounted = true,
                                          .caller = caller};
    struct tarn__block *other = tarn__slow_make(&request, &data);
    if (!other)
        return NULL;
    memcpy(data, (char *)block + TARN__HEADER,
           bytes < block->bytes ? bytes : block->bytes);
    tarn__slow_end(block, true);
    return other;
}

/* Resize a single block by its allocator's realloc. The block has none of the flags that
 * move() is for. */
static struct tarn__block *resize_single(tarn_runtime *runtime, struct tarn__block *block,
                                         size_t bytes)
{
    uint64_t word = tarn__block_word(block);
    const struct tarn__allocator *allocator =
        &runtime->allocators[TARN__FIELD(word, TARN__ALLOCATOR_SHIFT) % TARN__SINGLE];
    struct tarn__block_request request = {.runtime = runtime, .bytes = bytes};
    size_t before = block->bytes, total;

    if (!tarn__size_add(bytes, TARN__HEADER, &total) || total > PTRDIFF_MAX)
        return fail_request(&request, tarn__shard_get(runtime),
                            ": the size exceeds the address space");
    struct tarn__block *other = tarn__allocator_realloc(allocator, block, total);
    if (!other)
        return fail_request(&request, tarn__shard_get(runtime), "");
    return settle(other, before, bytes);
}

/* The cases, in this order:
 *
 *    guard bytes, fill, quarantine or a prefix          move
 *    a small block whose slot is large enough           keep the slot
 *    a single block whose allocator has a realloc       resize by that function
 *    any other block                                    move
 *
 * An allocator without an argument (`with.malloc` is NULL) always has a realloc. */
struct tarn__block *tarn__slow_resize(struct tarn__block *block, size_t bytes,
                                      const void *caller)
{
    uint64_t word = tarn__block_word(block);
    unsigned class = TARN__FIELD(word, TARN__CLASS_SHIFT);
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    const struct tarn__allocator *allocator =
        &runtime->allocators[TARN__FIELD(word, TARN__ALLOCATOR_SHIFT) % TARN__SINGLE];

    if (TARN__FLAGS(word) &
        (TARN__POISON | TARN__GUARD | TARN__QUARANTINE | TARN__PREFIX))
        return move(runtime, block, bytes, caller);
    if (class < TARN__CLASSES &&
        bytes <= tarn__slab_class_bytes[class] - (size_t)TARN__HEADER)
        return settle(block, block->bytes, bytes);
    if (class == TARN__DIRECT && (!allocator->with.malloc || allocator->with.realloc))
        return resize_single(runtime, block, bytes);
    return move(runtime, block, bytes, caller);
}
