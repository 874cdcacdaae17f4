/* pages.c -- the interface to the memory beneath a pool: VMM or segments, and the
 * device-wide wait. */
#include "pool/backing/pages.h"
#include "base/clock.h"
#include "nvtx/heaps.h"
#include "nvtx/ranges.h"
#include "nvtx/tool.h"
#include "pool/backing/backing.h"
#include "pool/backing/segments.h"
#include "pool/backing/vmm.h"
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_move.h"
#include "pool/backing/vmm_peer.h"
#include "pool/backing/vmm_suspend.h"
#include <stdlib.h>

/* --- open and close --- */

enum { RESERVE_BYTES = 256 };

static tarn_status open_segments(struct tarn__pages *pages, tarn_resource *upstream)
{
    tarn_resource *cuda = NULL;
    tarn_status status = upstream ? TARN_OK : tarn_cuda_create(pages->device, &cuda);

    if (status != TARN_OK)
        return status;
    status = tarn__segments_open(pages, upstream ? upstream : cuda);
    tarn_resource_release(cuda);
    return status;
}

/* compute-sanitizer refuses heaps in memory of cuMemCreate (2025.3, on an H200). */
static tarn_status open_kind(struct tarn__pages *pages, tarn_resource *upstream)
{
    tarn_status status = TARN_OK;

    if (!upstream && !tarn__heaps_are_wanted())
        status = tarn__vmm_is_supported(pages->device, &pages->is_vmm);
    if (status != TARN_OK)
        return status;
    return pages->is_vmm ? tarn__vmm_open(pages) : open_segments(pages, upstream);
}

/* Open on a device: its context generation, the reserve block for waits, and then VMM or
 * segments. */
static tarn_status open_on_device(struct tarn__pages *pages, tarn_resource *upstream)
{
    struct tarn__scope scope;
    tarn_status status = tarn__backing_enter(pages, &scope);

    if (status != TARN_OK)
        return status;
    pages->context_generation = scope.context_generation;
    tarn__tool_attach();
    CUresult_ result = TARN__COUNTED(
        &pages->vmm, scope.calls->mem_alloc(&pages->reserve_block, RESERVE_BYTES));
    if (result != CUDA_SUCCESS_)
        status =
            tarn__driver_failed("pool", "cuMemAlloc", result, "%d bytes on device %d",
                                RESERVE_BYTES, pages->device);
    if (status == TARN_OK) {
        status = open_kind(pages, upstream);
        if (status != TARN_OK &&
            TARN__COUNTED(&pages->vmm, scope.calls->mem_free(pages->reserve_block)) !=
                CUDA_SUCCESS_)
            TARN__COUNTED(&pages->vmm, scope.calls->mem_free(pages->reserve_block));
    }
    tarn__scope_leave(&scope);
    return status;
}

static tarn_status check(int device, const tarn_resource *upstream)
{
    if (upstream && tarn_resource_device(upstream) != device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: upstream %s is of device %d, the pool of device %d",
                              tarn_resource_name(upstream),
                              tarn_resource_device(upstream), device);
    if (upstream && device == TARN_DEVICE_NONE)
        return TARN_OK;
    return tarn__device_check("pool", device);
}

tarn_status tarn__pages_open(int device, tarn_resource *upstream, size_t growth_bytes,
                             struct tarn__pages **out)
{
    tarn_status status = check(device, upstream);
    struct tarn__pages *pages;

    if (status != TARN_OK)
        return status;
    pages = calloc(1, sizeof *pages);
    if (!pages)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    pages->device = device;
    pages->opened_ns = tarn__clock_now_ns();
    pages->growth_bytes = growth_bytes;
    pages->vmm.driver_calls = &pages->own_calls;
    atomic_store(&pages->metadata, sizeof *pages);
    status = device == TARN_DEVICE_NONE ? open_segments(pages, upstream)
                                        : open_on_device(pages, upstream);
    if (status != TARN_OK) {
        free(pages);
        return status;
    }
    *out = pages;
    return TARN_OK;
}

/* Release what the pool has in the context; it is gone with the context, if that was
 * reset. */
static void close_in_context(struct tarn__pages *pages)
{
    struct tarn__scope scope;
    bool entered = pages->context_generation != 0 &&
                   (tarn__backing_enter(pages, &scope) == TARN_OK ||
                    tarn__backing_enter(pages, &scope) == TARN_OK);

    tarn__vmm_suspend_drop_kept(&pages->vmm, entered ? &scope : NULL);
    if (!entered)
        return;
    if (pages->reserve_block &&
        TARN__COUNTED(&pages->vmm, scope.calls->mem_free(pages->reserve_block)) !=
            CUDA_SUCCESS_)
        TARN__COUNTED(&pages->vmm, scope.calls->mem_free(pages->reserve_block));
    tarn__scope_leave(&scope);
}

void tarn__pages_close(struct tarn__pages *pages)
{
    close_in_context(pages);
    if (pages->is_vmm)
        tarn__vmm_close(pages);
    else
        tarn__segments_close(pages);
    free(pages);
}

void tarn__pages_set_maximum(struct tarn__pages *pages, uint64_t bytes)
{
    atomic_store(&pages->most, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
}

void tarn__pages_set_tight(struct tarn__pages *pages, bool is_tight)
{
    atomic_store(&pages->is_tight, is_tight);
}

void tarn__pages_set_block(struct tarn__pages *pages, uint64_t bytes)
{
    pages->block_bytes = bytes;
}

void tarn__pages_set_large(struct tarn__pages *pages, bool is_large)
{
    pages->is_large = is_large;
}

void tarn__pages_set_single(struct tarn__pages *pages, bool is_single)
{
    atomic_store(&pages->is_single, is_single);
}

size_t tarn__pages_reserved(const struct tarn__pages *pages)
{
    return atomic_load(&pages->reserved);
}

void tarn__pages_note_call(struct tarn__pages *pages)
{
    atomic_fetch_add_explicit(&pages->noted_calls, 1, memory_order_relaxed);
}

uint64_t tarn__pages_own_calls(const struct tarn__pages *pages)
{
    return atomic_load_explicit(&pages->own_calls, memory_order_relaxed);
}

uint64_t tarn__pages_driver_calls(const struct tarn__pages *pages)
{
    return tarn__pages_own_calls(pages) +
           atomic_load_explicit(&pages->noted_calls, memory_order_relaxed);
}

size_t tarn__pages_suspended(const struct tarn__pages *pages)
{
    return atomic_load(&pages->suspended);
}

size_t tarn__pages_metadata(const struct tarn__pages *pages)
{
    return atomic_load(&pages->metadata);
}

/* --- both kinds --- */

bool tarn__pages_is_vmm(const struct tarn__pages *pages)
{
    return pages->is_vmm;
}

bool tarn__pages_is_ordered(const struct tarn__pages *pages)
{
    return !pages->is_vmm && tarn_resource_supports_streams(pages->segments.upstream);
}

bool tarn__pages_are_done(const struct tarn__pages *pages)
{
    return pages->is_vmm || tarn_resource_supports_no_stream(pages->segments.upstream);
}

struct tarn__span tarn__pages_range(const struct tarn__pages *pages)
{
    return pages->vmm.range;
}

tarn_status tarn__pages_grow(struct tarn__pages *pages, uint64_t at, size_t bytes,
                             tarn_stream stream, struct tarn__span *out)
{
    struct tarn__span span = {at, bytes};
    bool has_range = tarn__ranges_begin("grow", bytes);
    tarn_status status = pages->is_vmm ? tarn__vmm_grow(pages, span)
                                       : tarn__segments_grow(pages, bytes, stream, &span);

    tarn__ranges_end(has_range);
    if (status == TARN_OK)
        *out = span;
    return status;
}

struct tarn__span tarn__pages_removable(const struct tarn__pages *pages,
                                        struct tarn__span idle)
{
    return pages->is_vmm ? tarn__vmm_removable(&pages->vmm, idle)
                         : tarn__segments_removable(pages, idle);
}

struct tarn__span tarn__pages_first(const struct tarn__pages *pages,
                                    struct tarn__span span, size_t bytes)
{
    return pages->is_vmm ? tarn__vmm_first(&pages->vmm, span, bytes) : span;
}

struct tarn__span tarn__pages_handle_at(const struct tarn__pages *pages, uint64_t address)
{
    return tarn__vmm_handle_at(&pages->vmm, address);
}

unsigned tarn__pages_count(const struct tarn__pages *pages, struct tarn__span span)
{
    return pages->is_vmm ? tarn__vmm_count(&pages->vmm, span) : span.bytes > 0;
}

tarn_status tarn__pages_remove(struct tarn__pages *pages, struct tarn__span span)
{
    bool has_range = tarn__ranges_begin("release memory", span.bytes);
    tarn_status status = pages->is_vmm ? tarn__vmm_remove(pages, span)
                                       : tarn__segments_remove(pages, span);

    tarn__ranges_end(has_range);
    return status;
}

static tarn_status only_vmm(const char *what)
{
    return tarn_error_set(TARN_NOT_SUPPORTED,
                          "pool: a pool with an upstream cannot %s, a pool on VMM can",
                          what);
}

tarn_status tarn__pages_move(struct tarn__pages *pages, const struct tarn__span *spans,
                             size_t count, size_t done, uint64_t at)
{
    uint64_t bytes = 0;

    if (!pages->is_vmm)
        return only_vmm("move memory");
    for (size_t i = 0; i < count; i++)
        bytes += spans[i].bytes;
    bool has_range = tarn__ranges_begin("compact", bytes);
    tarn_status status = tarn__vmm_move(pages, spans, count, done, at);
    tarn__ranges_end(has_range);
    return status;
}

void tarn__pages_end_retired(struct tarn__pages *pages, struct tarn__span old)
{
    const struct tarn__calls *calls;

    if (!tarn__driver_gone() && tarn__driver(&calls) == TARN_OK)
        tarn__vmm_alias_retire(&pages->vmm, calls, old);
}

tarn_status tarn__pages_suspend(struct tarn__pages *pages, const struct tarn__span *kept,
                                size_t count)
{
    return pages->is_vmm ? tarn__vmm_suspend(pages, kept, count) : only_vmm("suspend");
}

tarn_status tarn__pages_resume(struct tarn__pages *pages)
{
    return pages->is_vmm ? tarn__vmm_suspend_end(pages) : only_vmm("resume");
}

tarn_status tarn__pages_set_peer(struct tarn__pages *pages, int peer, bool access)
{
    return pages->is_vmm ? tarn__vmm_peer_set(pages, peer, access)
                         : only_vmm("grant peer access");
}

/* --- the device-wide wait --- */

/* Wait by allocating and freeing a block. Where no memory is left, the reserve block is
 * freed, and it is replaced as soon as memory is available. In a scope. */
static tarn_status wait_by_mem_free(struct tarn__pages *pages,
                                    const struct tarn__calls *calls)
{
    CUdeviceptr_ block = 0;
    CUresult_ result =
        TARN__COUNTED(&pages->vmm, calls->mem_alloc(&block, RESERVE_BYTES));

    if (result == CUDA_ERROR_OUT_OF_MEMORY_ && pages->reserve_block) {
        block = pages->reserve_block;
        pages->reserve_block = 0;
        result = CUDA_SUCCESS_;
    }
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemAlloc", result,
                                   "%d bytes for a device-wide wait on device %d",
                                   RESERVE_BYTES, pages->device);
    result = TARN__COUNTED(&pages->vmm, calls->mem_free(block));
    if (result != CUDA_SUCCESS_)
        result = TARN__COUNTED(&pages->vmm, calls->mem_free(block));
    if (result != CUDA_SUCCESS_) {
        if (!pages->reserve_block)
            pages->reserve_block = block;
        return tarn__driver_failed("pool", "cuMemFree", result,
                                   "%d bytes for a device-wide wait on device %d",
                                   RESERVE_BYTES, pages->device);
    }
    if (!pages->reserve_block &&
        TARN__COUNTED(&pages->vmm, calls->mem_alloc(&block, RESERVE_BYTES)) ==
            CUDA_SUCCESS_)
        pages->reserve_block = block;
    return TARN_OK;
}

tarn_status tarn__pages_wait_for_device(struct tarn__pages *pages)
{
    struct tarn__scope scope;

    if (pages->device == TARN_DEVICE_NONE)
        return TARN_OK; /* no work is queued anywhere */
    tarn_status status = tarn__backing_enter(pages, &scope);
    if (status != TARN_OK)
        return status;
    bool has_range = tarn__ranges_begin("wait for the device", 0);
    status = wait_by_mem_free(pages, scope.calls);
    tarn__ranges_end(has_range);
    tarn__scope_leave(&scope);
    return status;
}
