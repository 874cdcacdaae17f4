/* raw.c -- memory without a MemInfo, with a header for its size and its allocator. */
#include "nrt/raw.h"
#include "nrt/debug.h"
#include "nrt/fast.h"
#include "nrt/misuse.h"
#include "nrt/registry.h"

void *tarn__raw_make(tarn_runtime *runtime, size_t bytes, NRT_ExternalAllocator *external,
                     const void *caller)
{
    void *start;
    struct tarn__block *block =
        external ? NULL : tarn__fast_make_raw(runtime, runtime->index, bytes);

    if (block)
        return (char *)block + TARN__HEADER;
    struct tarn__block_request request = {
        .runtime = runtime, .bytes = bytes, .external = external, .caller = caller};
    block = tarn__slow_make(&request, &start);
    if (!block)
        return NULL;
    if (TARN__FLAGS(tarn__block_word(block)) & TARN__TRACE)
        tarn__debug_trace("raw %p, %zu bytes", start, bytes);
    return start;
}

static bool is_live(const void *start)
{
    return TARN__STATE(tarn__block_word(tarn__block_of(start))) == TARN__LIVE;
}

void tarn__raw_free(void *start)
{
    if (!start)
        return;
    struct tarn__block *block = tarn__block_of(start);
    if (!is_live(start)) {
        tarn__misuse_block(block, "free of memory");
        return;
    }
    if (TARN__FLAGS(tarn__block_word(block)) & TARN__TRACE)
        tarn__debug_trace("free %p", start);
    tarn__fast_finish(block);
}

void *tarn__raw_resize(void *start, size_t bytes, const void *caller)
{
    struct tarn__block *block = tarn__block_of(start);

    if (!is_live(start) || TARN__FLAGS(tarn__block_word(block)) & TARN__MI) {
        tarn__misuse_block(block, "realloc of memory");
        return NULL;
    }
    block = tarn__slow_resize(block, bytes, caller);
    return block ? (char *)block + TARN__HEADER : NULL;
}

void *tarn_nrt_Allocate(size_t size)
{
    return tarn__raw_make(&tarn__default_runtime, size, NULL,
                          __builtin_return_address(0));
}

void *tarn_nrt_Allocate_External(size_t size, NRT_ExternalAllocator *allocator)
{
    return tarn__raw_make(&tarn__default_runtime, size, allocator,
                          __builtin_return_address(0));
}

void *tarn_nrt_Reallocate(void *ptr, size_t size)
{
    const void *caller = __builtin_return_address(0);

    return ptr ? tarn__raw_resize(ptr, size, caller)
               : tarn__raw_make(&tarn__default_runtime, size, NULL, caller);
}

void tarn_nrt_Free(void *ptr)
{
    tarn__raw_free(ptr);
}
