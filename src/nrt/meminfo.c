/* meminfo.c -- one counted block: create, count, free.
 *
 * An increment needs no memory order: a thread with a reference received it in an ordered
 * way. A decrement is acquire and release at once. So all accesses to the block by any
 * thread happen before its destructor runs. Numba's device runtime has no such ordering.
 *
 * A thread that finds a count of one has the only reference, so no other thread can be
 * counting at the same time. So the last release is a load and a store.
 */
#include "nrt/meminfo.h"
#include "base/options.h"
#include "nrt/debug.h"
#include "nrt/fast.h"
#include "nrt/misuse.h"
#include "nrt/raw.h"
#include "nrt/registry.h"

/* Fill in the 48 bytes. */
static inline struct MemInfo *set_up(struct tarn__block *block, void *data, size_t size,
                                     tarn_meminfo_destructor destructor, void *info,
                                     NRT_ExternalAllocator *external)
{
    struct MemInfo *meminfo = tarn__block_meminfo(block);

    atomic_init(&meminfo->refct, 1);
    meminfo->dtor = destructor;
    meminfo->dtor_info = info;
    meminfo->data = data;
    meminfo->size = size;
    meminfo->external_allocator = external;
    return meminfo;
}

static void trace_new(struct tarn__block *block)
{
    if (TARN__FLAGS(tarn__block_word(block)) & TARN__TRACE)
        tarn__debug_trace("new %p, %zu bytes", (void *)tarn__block_meminfo(block),
                          (size_t)block->bytes);
}

struct MemInfo *tarn__meminfo_make(const struct tarn__meminfo_request *recipe)
{
    struct tarn__block_request request = {.runtime = recipe->runtime,
                                          .bytes = recipe->borrowed ? 0 : recipe->bytes,
                                          .alignment = recipe->alignment,
                                          .external = recipe->external,
                                          .flags = TARN__MI |
                                                   (recipe->poison ? TARN__POISON : 0u),
                                          .caller = recipe->caller,
                                          .label = recipe->label};
    void *data;
    struct tarn__block *block = tarn__slow_make(&request, &data);

    if (!block)
        return NULL;
    trace_new(block);
    return set_up(block, recipe->borrowed ? recipe->data : data, recipe->bytes,
                  recipe->destructor, recipe->info, recipe->external);
}

struct MemInfo *tarn__meminfo_new(tarn_runtime *runtime, void *data, size_t size,
                                  tarn_meminfo_destructor destructor, void *info,
                                  const void *caller)
{
    struct tarn__block *block = tarn__fast_make(runtime, runtime->index, 0, 0);

    if (block)
        return set_up(block, data, size, destructor, info, NULL);
    return tarn__meminfo_make(&(struct tarn__meminfo_request){.runtime = runtime,
                                                              .borrowed = true,
                                                              .data = data,
                                                              .bytes = size,
                                                              .destructor = destructor,
                                                              .info = info,
                                                              .caller = caller});
}

/* With memory of its own, from the default instance. It is a separate function, so that
 * its arguments cost the fast path no stack. */
static __attribute__((noinline)) struct MemInfo *allocate_generally(
    size_t bytes, size_t alignment, tarn_meminfo_destructor destructor,
    const void *caller)
{
    return tarn__meminfo_make(
        &(struct tarn__meminfo_request){.runtime = &tarn__default_runtime,
                                        .bytes = bytes,
                                        .alignment = alignment,
                                        .destructor = destructor,
                                        .caller = caller});
}

/* The same for one too large for a small block. */
TARN__FAST struct MemInfo *allocate_large(size_t bytes, size_t alignment,
                                          tarn_meminfo_destructor destructor,
                                          const void *caller)
{
    struct tarn__block *block =
        tarn__fast_make_direct(&tarn__default_runtime, 0, bytes, alignment);

    if (!block)
        return allocate_generally(bytes, alignment, destructor, caller);
    return set_up(block, tarn__fast_data(block, alignment), bytes, destructor, NULL,
                  NULL);
}

/* Separate functions, so that small blocks save no registers, and each kind only its own.
 */
static __attribute__((noinline)) struct MemInfo *allocate_large_plain(size_t bytes,
                                                                      const void *caller)
{
    return allocate_large(bytes, 0, NULL, caller);
}

static __attribute__((noinline)) struct MemInfo *allocate_large_aligned(
    size_t bytes, size_t alignment, const void *caller)
{
    return allocate_large(bytes, alignment, NULL, caller);
}

static __attribute__((noinline)) struct MemInfo *allocate_large_dtor(
    size_t bytes, tarn_meminfo_destructor destructor, const void *caller)
{
    return allocate_large(bytes, 0, destructor, caller);
}

TARN__FAST struct MemInfo *allocate(size_t bytes, unsigned steps,
                                    tarn_meminfo_destructor destructor,
                                    const void *caller)
{
    struct tarn__block *block = tarn__fast_make(&tarn__default_runtime, 0, bytes, steps);

    if (!block)
        return allocate_generally(bytes, (size_t)16 << steps, destructor, caller);
    return set_up(block, (char *)block + TARN__HEAD, bytes, destructor, NULL, NULL);
}

/* --- the end ------------------------------------------------------------------------ */

/* Never called as such: destruct() recognizes its address. */
void tarn__meminfo_varsize_destructor(void *data, size_t size, void *info)
{
    (void)size;
    (void)info;
    tarn__raw_free(data);
}

static void end_varsize(struct MemInfo *meminfo, bool shut)
{
    /* The elements' destructor may look at the MemInfo, so its memory goes after. */
    union {
        void *address;
        void (*function)(void *data, size_t size, void *info);
    } elements = {.address = meminfo->dtor_info};

    if (elements.address && !shut)
        elements.function(meminfo->data, meminfo->size, NULL);
    tarn__raw_free(meminfo->data);
}

/* Call the destructor, unless the instance is shut down. The memory of a varsize MemInfo
 * is freed in any case. */
static void destruct(struct MemInfo *meminfo)
{
    struct tarn__block *block = tarn__block_of(meminfo);
    uint64_t word = tarn__block_word(block);
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));

    tarn__block_set_state(block, TARN__ENDING);
    if (meminfo->dtor == tarn__meminfo_varsize_destructor)
        end_varsize(meminfo, atomic_load(&runtime->shut));
    else if (!atomic_load_explicit(&runtime->shut, memory_order_relaxed))
        meminfo->dtor(meminfo->data, meminfo->size, meminfo->dtor_info);
    tarn__block_set_state(block, TARN__LIVE);
}

static bool is_live(const struct MemInfo *meminfo)
{
    return TARN__STATE(tarn__block_word(tarn__block_of(meminfo))) == TARN__LIVE;
}

static bool is_traced(const struct MemInfo *meminfo)
{
    return TARN__FLAGS(tarn__block_word(tarn__block_of(meminfo))) & TARN__TRACE;
}

/* End a MemInfo without references. */
static void finish(struct MemInfo *meminfo)
{
    if (is_traced(meminfo))
        tarn__debug_trace("end %p", (void *)meminfo);
    if (meminfo->dtor)
        destruct(meminfo);
    tarn__fast_finish(tarn__block_of(meminfo));
}

/* End a MemInfo that has no destructor, was not traced, and so on. False: the full path
 * is needed. */
TARN__FAST bool finish_fast(struct MemInfo *meminfo)
{
    struct tarn__block *block = tarn__block_of(meminfo);

    return !meminfo->dtor && tarn__fast_end(block, tarn__block_word(block));
}

TARN__SELDOM static void acquire_dead(struct MemInfo *meminfo)
{
    atomic_fetch_sub_explicit(&meminfo->refct, 1, memory_order_relaxed);
    tarn__misuse_block(tarn__block_of(meminfo), "acquire of MemInfo");
}

TARN__FAST void acquire(struct MemInfo *meminfo)
{
    if (!meminfo)
        return;
    size_t before = atomic_fetch_add_explicit(&meminfo->refct, 1, memory_order_relaxed);
    if (before == 0)
        acquire_dead(meminfo);
    else if (is_traced(meminfo))
        tarn__debug_trace("acquire %p, count before: %zu", (void *)meminfo, before);
}

/* Drop one reference; true: it was the last. */
static bool drop_reference(struct MemInfo *meminfo)
{
    size_t count = atomic_load_explicit(&meminfo->refct, memory_order_acquire);

    if (count == 0 || !is_live(meminfo)) {
        tarn__misuse_block(tarn__block_of(meminfo), "release of MemInfo");
        return false;
    }
    if (is_traced(meminfo))
        tarn__debug_trace("release %p, count before: %zu", (void *)meminfo, count);
    if (count == 1) {
        atomic_store_explicit(&meminfo->refct, 0, memory_order_relaxed);
        return true;
    }
    return atomic_fetch_sub_explicit(&meminfo->refct, 1, memory_order_acq_rel) == 1;
}

static __attribute__((noinline)) void release_in_full(struct MemInfo *meminfo)
{
    if (drop_reference(meminfo))
        finish(meminfo);
}

TARN__FAST void release(struct MemInfo *meminfo)
{
    if (!meminfo)
        return;
    if (atomic_load_explicit(&meminfo->refct, memory_order_acquire) != 1 ||
        !finish_fast(meminfo))
        release_in_full(meminfo);
}

/* --- Tarn's own calls --------------------------------------------------------------- */

tarn_status tarn_meminfo_create(tarn_runtime *runtime, void *data, size_t size,
                                tarn_meminfo_destructor destructor, void *info,
                                tarn_meminfo **out)
{
    if (!runtime || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: create: %s is NULL",
                              runtime ? "out" : "runtime");
    struct MemInfo *meminfo = tarn__meminfo_new(runtime, data, size, destructor, info,
                                                __builtin_return_address(0));
    if (!meminfo)
        return TARN_OUT_OF_MEMORY;
    *out = meminfo;
    return TARN_OK;
}

tarn_status tarn_meminfo_allocate(tarn_runtime *runtime,
                                  const tarn_meminfo_options *options, tarn_meminfo **out)
{
    if (!runtime || !options || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "nrt: allocate: runtime, options or out is NULL");
    tarn_status status =
        tarn__options_check("nrt", options, sizeof *options, sizeof *options);
    if (status != TARN_OK)
        return status;
    struct MemInfo *meminfo = tarn__meminfo_make(
        &(struct tarn__meminfo_request){.runtime = runtime,
                                        .bytes = options->bytes,
                                        .alignment = options->alignment,
                                        .destructor = options->destructor,
                                        .info = options->info,
                                        .external = options->allocator,
                                        .poison = options->poison,
                                        .caller = __builtin_return_address(0),
                                        .label = options->label});
    if (!meminfo)
        return TARN_OUT_OF_MEMORY;
    *out = meminfo;
    return TARN_OK;
}

void tarn_meminfo_acquire(tarn_meminfo *meminfo)
{
    acquire(meminfo);
}

void tarn_meminfo_release(tarn_meminfo *meminfo)
{
    release(meminfo);
}

void *tarn_meminfo_data(const tarn_meminfo *meminfo)
{
    return meminfo->data;
}

size_t tarn_meminfo_size(const tarn_meminfo *meminfo)
{
    return meminfo->size;
}

size_t tarn_meminfo_count(const tarn_meminfo *meminfo)
{
    return atomic_load_explicit(&meminfo->refct, memory_order_relaxed);
}

bool tarn_meminfo_has_destructor(const tarn_meminfo *meminfo,
                                 tarn_meminfo_destructor destructor, void **info_out)
{
    if (!meminfo || meminfo->dtor != destructor)
        return false;
    if (info_out)
        *info_out = meminfo->dtor_info;
    return true;
}

tarn_runtime *tarn_meminfo_runtime(const tarn_meminfo *meminfo)
{
    if (meminfo && is_live(meminfo))
        return tarn__registry_at(
            TARN__FIELD(tarn__block_word(tarn__block_of(meminfo)), TARN__RUNTIME_SHIFT));
    tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: %p is not a live MemInfo",
                   (const void *)meminfo);
    return NULL;
}

/* --- Numba's names ------------------------------------------------------------------ */

NRT_MemInfo *tarn_nrt_MemInfo_new(void *data, size_t size, NRT_dtor_function dtor,
                                  void *dtor_info)
{
    return tarn__meminfo_new(&tarn__default_runtime, data, size, dtor, dtor_info,
                             __builtin_return_address(0));
}

/* `mi` is raw memory, and becomes a MemInfo but no additional block. So there is one raw
 * block less. This may make a shard's own number negative, but not the sum. */
void tarn_nrt_MemInfo_init(NRT_MemInfo *mi, void *data, size_t size,
                           NRT_dtor_function dtor, void *dtor_info,
                           NRT_ExternalAllocator *allocator)
{
    struct tarn__block *block = tarn__block_of(mi);
    uint64_t word = tarn__block_word(block);

    if (TARN__STATE(word) != TARN__LIVE || TARN__FLAGS(word) & TARN__MI ||
        block->bytes < sizeof *mi) {
        tarn__misuse_block(block,
                           "MemInfo_init requires 48 bytes of NRT_Allocate(), not");
        return;
    }
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    struct tarn__shard *shard = tarn__shard_get(runtime);
    if (shard)
        tarn__count_bump(&shard->counters.raw_alloc, UINT64_MAX);
    else
        atomic_fetch_sub(&runtime->folded.raw_alloc, 1);
    tarn__block_set_word(block, word | TARN__FLAG(TARN__MI));
    set_up(block, data, size, dtor, dtor_info, allocator);
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc(size_t size)
{
    return size > TARN__SMALL_BYTES
               ? allocate_large_plain(size, __builtin_return_address(0))
               : allocate(size, 0, NULL, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor(size_t size, NRT_dtor_function dtor)
{
    return size > TARN__SMALL_BYTES
               ? allocate_large_dtor(size, dtor, __builtin_return_address(0))
               : allocate(size, 0, dtor, __builtin_return_address(0));
}

/* 0, 1 or 2 for the alignments that slots have anyway; 3: use the slow path. */
static inline unsigned steps_of(unsigned align)
{
    switch (align) {
    case 0:
    case 1:
    case 2:
    case 4:
    case 8:
    case 16:
        return 0;
    case 32:
        return 1;
    case 64:
        return 2;
    }
    return 3;
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_aligned(size_t size, unsigned align)
{
    const void *caller = __builtin_return_address(0);
    unsigned steps = steps_of(align);

    if (size > TARN__SMALL_BYTES)
        return steps == 0 ? allocate_large_plain(size, caller)
                          : allocate_large_aligned(size, align, caller);
    return steps < 3 ? allocate(size, steps, NULL, caller)
                     : allocate_generally(size, align, NULL, caller);
}

static struct MemInfo *allocate_safe(size_t bytes, unsigned alignment,
                                     tarn_meminfo_destructor destructor,
                                     NRT_ExternalAllocator *external, const void *caller)
{
    return tarn__meminfo_make(
        &(struct tarn__meminfo_request){.runtime = &tarn__default_runtime,
                                        .bytes = bytes,
                                        .alignment = alignment,
                                        .destructor = destructor,
                                        .external = external,
                                        .poison = true,
                                        .caller = caller});
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe(size_t size)
{
    return allocate_safe(size, 0, NULL, NULL, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_dtor_safe(size_t size, NRT_dtor_function dtor)
{
    return allocate_safe(size, 0, dtor, NULL, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned(size_t size, unsigned align)
{
    return allocate_safe(size, align, NULL, NULL, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_safe_aligned_external(
    size_t size, unsigned align, NRT_ExternalAllocator *allocator)
{
    return allocate_safe(size, align, NULL, allocator, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_alloc_external(size_t size,
                                             NRT_ExternalAllocator *allocator)
{
    return tarn__meminfo_make(
        &(struct tarn__meminfo_request){.runtime = &tarn__default_runtime,
                                        .bytes = size,
                                        .external = allocator,
                                        .caller = __builtin_return_address(0)});
}

void tarn_nrt_MemInfo_acquire(NRT_MemInfo *mi)
{
    acquire(mi);
}

void tarn_nrt_MemInfo_release(NRT_MemInfo *mi)
{
    release(mi);
}

static __attribute__((noinline)) void call_destructor(NRT_MemInfo *mi)
{
    if (!is_live(mi)) {
        tarn__misuse_block(tarn__block_of(mi), "MemInfo_call_dtor of MemInfo");
        return;
    }
    atomic_store_explicit(&mi->refct, 0, memory_order_relaxed);
    finish(mi);
}

/* Compiled code itself has brought the count to zero. */
void tarn_nrt_MemInfo_call_dtor(NRT_MemInfo *mi)
{
    if (mi && !finish_fast(mi))
        call_destructor(mi);
}

void tarn_nrt_MemInfo_destroy(NRT_MemInfo *mi)
{
    if (!mi)
        return;
    if (!is_live(mi)) {
        tarn__misuse_block(tarn__block_of(mi), "destroy of MemInfo");
        return;
    }
    atomic_store_explicit(&mi->refct, 0, memory_order_relaxed);
    tarn__fast_finish(tarn__block_of(mi));
}

/* The block becomes raw memory, which is freed. */
void tarn_nrt_dealloc(NRT_MemInfo *mi)
{
    if (!mi)
        return;
    struct tarn__block *block = tarn__block_of(mi);
    if (!is_live(mi)) {
        tarn__misuse_block(block, "dealloc of MemInfo");
        return;
    }
    atomic_store_explicit(&mi->refct, 0, memory_order_relaxed);
    tarn__slow_end_as(block, false);
}

size_t tarn_nrt_MemInfo_refcount(NRT_MemInfo *mi)
{
    return mi && mi->data ? tarn_meminfo_count(mi) : (size_t)-1;
}

void *tarn_nrt_MemInfo_data(NRT_MemInfo *mi)
{
    return mi->data;
}

size_t tarn_nrt_MemInfo_size(NRT_MemInfo *mi)
{
    return mi->size;
}

void *tarn_nrt_MemInfo_external_allocator(NRT_MemInfo *mi)
{
    return mi->external_allocator;
}

void *tarn_nrt_MemInfo_parent(NRT_MemInfo *mi)
{
    return mi->dtor_info;
}

void tarn_nrt_MemInfo_dump(NRT_MemInfo *mi, FILE *out)
{
    fprintf(out, "MemInfo %p refcount %zu\n", (void *)mi,
            mi ? tarn_meminfo_count(mi) : (size_t)0);
}
