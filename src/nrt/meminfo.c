/* meminfo.c -- one counted block: made, counted, gone.
 *
 * An increment orders nothing: who has a reference has got it in an ordered way already.
 * A decrement is acquire and release at once, so that everything done with the block by
 * any thread happened before the destructor sees it. Numba's device runtime leaves that
 * out (reference/nrt.md, section 6).
 */
#include "nrt/meminfo.h"
#include <stdlib.h>

tarn_status tarn_meminfo_create(tarn_runtime *runtime, void *data, size_t size,
                                tarn_meminfo_destructor destructor, void *info,
                                tarn_meminfo **out)
{
    if (!runtime || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: a MemInfo needs %s",
                              runtime ? "a place for the result" : "a runtime");
    struct tarn__meminfo_block *block = aligned_alloc(64, sizeof *block);
    if (!block)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "nrt: no host memory for a MemInfo of runtime %s",
                              runtime->name);
    block->runtime = runtime;
    block->spare = 0;
    atomic_init(&block->meminfo.refct, 1);
    block->meminfo.dtor = destructor;
    block->meminfo.dtor_info = info;
    block->meminfo.data = data;
    block->meminfo.size = size;
    block->meminfo.external_allocator = NULL;
    atomic_fetch_add_explicit(&runtime->created, 1, memory_order_relaxed);
    *out = &block->meminfo;
    return TARN_OK;
}

void tarn_meminfo_acquire(tarn_meminfo *meminfo)
{
    atomic_fetch_add_explicit(&meminfo->refct, 1, memory_order_relaxed);
}

void tarn__meminfo_destroy(tarn_meminfo *meminfo)
{
    struct tarn__meminfo_block *block = tarn__meminfo_block(meminfo);
    tarn_runtime *runtime = block->runtime;

    if (meminfo->dtor)
        meminfo->dtor(meminfo->data, meminfo->size, meminfo->dtor_info);
    free(block);
    /* The last touch: the instance may be released by another thread right after it. */
    atomic_fetch_add_explicit(&runtime->destroyed, 1, memory_order_release);
}

void tarn_meminfo_release(tarn_meminfo *meminfo)
{
    if (atomic_fetch_sub_explicit(&meminfo->refct, 1, memory_order_acq_rel) == 1)
        tarn__meminfo_destroy(meminfo);
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
