/* annotations.c -- shows blocks to a memory checker such as compute-sanitizer, by NVTX.
 *
 * The tool sees a pool as one allocation. With annotations it knows which bytes of the pool
 * are blocks, and reports each access to the others. They are on while a tool is attached
 * that wants heaps (nvtx/heaps.h). It applies to the outermost calls on all resources, as
 * guard mode does:
 *
 *   1. An allocation requests TAIL_BYTES more than the program. The block is registered with
 *      its requested bytes, and the name of the site. So there is unregistered memory behind
 *      each block, and before each but the first one.
 *   2. A free waits for its stream, so that kernels that still use the block are not
 *      blamed. Then it unregisters the block, and the resource gets it.
 *
 * A resource without heaps, such as `cuda`, has one for each block.
 *
 * A graph uses its memory after the capture has freed it. So what a capturing stream frees
 * stays registered until another block begins there.
 */
#include "guard/annotations.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mutex.h"
#include "base/size.h"
#include "driver/quiesce.h"
#include "guard/order.h"
#include "nvtx/heaps.h"
#include "nvtx/tool.h"
#include "resource/intercept.h"
#include "resource/operations.h"
#include <stdlib.h>
#include <string.h>
#include <tarn/stack.h>

/* compute-sanitizer takes names of up to 49 characters. */
enum { TAIL_BYTES = 512, NAME_BYTES = 50, SITE_DEPTH = 16 };

/* A live block. */
struct block {
    size_t bytes, base_bytes; /* requested; and as its resource knows them */
    bool has_heap;            /* it is a heap of its own */
};

TARN__STATIC_MUTEX(lock);
static struct tarn__map blocks = {0}; /* address -> struct block */

/* --- the tables --- */

static bool put_block(tarn_device_ptr address, const struct block *block)
{
    tarn__mutex_lock(&lock);
    if (blocks.value_bytes == 0)
        tarn__map_init(&blocks, sizeof *block);
    tarn__map_take(&blocks, address, NULL); /* of a context that was reset */
    bool is_put = tarn__map_put(&blocks, address, block);
    tarn__mutex_unlock(&lock);
    return is_put;
}

/* Find a live block, and take it out of the table if `takes`. */
static bool find_block(tarn_device_ptr address, bool takes, struct block *out)
{
    tarn__mutex_lock(&lock);
    const struct block *found =
        blocks.value_bytes > 0 ? tarn__map_get(&blocks, address) : NULL;
    if (found)
        *out = *found;
    if (found && takes)
        tarn__map_take(&blocks, address, NULL);
    tarn__mutex_unlock(&lock);
    return found;
}

/* --- the site --- */

/* Return true if a frame belongs to an installed package. */
static bool is_installed(const tarn_stack_frame *frame)
{
    return strstr(frame->file, "/site-packages/") ||
           strstr(frame->file, "/dist-packages/");
}

static const char *name_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Describe the innermost frame of the user's program. */
static void describe_site(size_t bytes, char out[NAME_BYTES])
{
    tarn_stack_frame frames[SITE_DEPTH];
    size_t count = tarn_stack_frames(tarn_stack_capture(SITE_DEPTH), SITE_DEPTH, frames);
    size_t chosen = 0;

    if (count > SITE_DEPTH)
        count = SITE_DEPTH;
    while (chosen < count && is_installed(&frames[chosen]))
        chosen++;
    if (chosen == count)
        chosen = 0;
    if (count == 0)
        snprintf(out, NAME_BYTES, "%zu bytes", bytes);
    else if (frames[chosen].line > 0)
        snprintf(out, NAME_BYTES, "%zu bytes, %s:%d %s", bytes,
                 name_of_file(frames[chosen].file), frames[chosen].line,
                 frames[chosen].function);
    else
        snprintf(out, NAME_BYTES, "%zu bytes, %s+0x%llx %s", bytes,
                 name_of_file(frames[chosen].file),
                 (unsigned long long)frames[chosen].offset, frames[chosen].function);
}

/* --- allocations --- */

/* Register a block. In a scope. */
static void begin_block(tarn_device_ptr address, size_t bytes, bool is_captured)
{
    char name[NAME_BYTES];

    describe_site(bytes, name);
    tarn__heaps_begin_block(address, bytes, is_captured, name);
}

/* Allocate with a tail, or without one if there is no memory for it. */
static tarn_status allocate_larger(tarn_resource *resource, size_t bytes,
                                   size_t alignment, tarn_stream stream,
                                   size_t *base_bytes_out, tarn_device_ptr *out)
{
    size_t larger;

    if (tarn__size_round_up(bytes, TARN_ALIGNMENT, &larger) &&
        tarn__size_add(larger, TAIL_BYTES, &larger)) {
        *base_bytes_out = larger;
        tarn_status status =
            tarn__operations_allocate(resource, larger, alignment, stream, out);
        if (status != TARN_OUT_OF_MEMORY)
            return status;
    }
    *base_bytes_out = bytes;
    return tarn__operations_allocate(resource, bytes, alignment, stream, out);
}

/* compute-sanitizer takes heaps in memory of cuMemAlloc. It knows the blocks of the driver's
 * pools itself. */
static bool can_be_heap(const tarn_resource *resource)
{
    return !tarn_resource_supports_streams(resource);
}

/* Allocate a block that the tool knows. In a scope. */
static tarn_status allocate_shown(tarn_resource *resource, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out)
{
    struct block block = {.bytes = bytes};
    tarn_device_ptr address;
    tarn_status status =
        allocate_larger(resource, bytes, alignment, stream, &block.base_bytes, &address);

    if (status != TARN_OK)
        return status;
    block.has_heap = can_be_heap(resource) && tarn__heaps_add(address, block.base_bytes);
    if (!put_block(address, &block)) {
        if (block.has_heap)
            tarn__heaps_remove(address, block.base_bytes);
        tarn__operations_deallocate(resource, address, block.base_bytes, alignment,
                                    stream);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "nvtx: no host memory for a block");
    }
    begin_block(address, bytes, false);
    *out = address;
    return TARN_OK;
}

static tarn_status allocate(tarn_resource *resource, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out)
{
    int device = tarn_resource_device(resource);
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__scope scope;
    CUstream_ handle;
    tarn_status status;

    if (device == TARN_DEVICE_NONE || tarn__driver_gone() ||
        tarn__scope_enter_relaxed(device, &scope) != TARN_OK) {
        tarn__error_restore(&last);
        return tarn__operations_allocate(resource, bytes, alignment, stream, out);
    }
    bool is_captured =
        tarn__order_find(resource, &scope, stream, &handle) == TARN__ORDER_CAPTURED;
    tarn__error_restore(&last);
    tarn__tool_attach();
    if (!tarn__heaps_are_wanted()) {
        status = tarn__operations_allocate(resource, bytes, alignment, stream, out);
        if (status == TARN_OK) /* for a checker of host memory */
            tarn__heaps_begin_block(*out, bytes, false, "");
    } else if (is_captured) {
        status = tarn__operations_allocate(resource, bytes, alignment, stream, out);
        if (status == TARN_OK)
            begin_block(*out, bytes, true);
    } else {
        status = allocate_shown(resource, bytes, alignment, stream, out);
    }
    tarn__scope_leave(&scope);
    return status;
}

/* --- frees --- */

/* Wait for the work that may use a block. Returns false where that is not possible: a
 * stream captures, or a call failed. */
static bool wait_for_use(const tarn_resource *resource, tarn_stream stream)
{
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__scope scope;
    CUstream_ handle = NULL;
    CUresult_ result = CUDA_ERROR_NOT_SUPPORTED_;

    if (tarn__driver_gone() ||
        tarn__scope_enter_relaxed(tarn_resource_device(resource), &scope) != TARN_OK) {
        tarn__error_restore(&last);
        return false;
    }
    enum tarn__order order = tarn__order_find(resource, &scope, stream, &handle);
    if (order == TARN__ORDER_STREAM)
        result = scope.calls->stream_synchronize(handle);
    else if (order == TARN__ORDER_NONE)
        result = tarn__quiesce_device(scope.calls);
    tarn__scope_leave(&scope);
    tarn__error_restore(&last);
    return result == CUDA_SUCCESS_;
}

/* Show a block again whose free failed. */
static void restore_block(tarn_device_ptr address, struct block *block)
{
    struct tarn__kept_error why = tarn__error_keep();

    if (block->has_heap)
        block->has_heap = tarn__heaps_add(address, block->base_bytes);
    put_block(address, block);
    begin_block(address, block->bytes, false);
    tarn__error_restore(&why);
}

bool tarn__annotations_free(tarn_resource *resource, tarn_device_ptr address,
                            size_t bytes, size_t alignment, tarn_stream stream,
                            tarn_status *status_out)
{
    struct block block;

    if (!find_block(address, false, &block))
        return false;
    if (block.bytes != bytes) {
        *status_out =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "%s: 0x%llx was allocated with %zu bytes, freed with %zu",
                           tarn_resource_name(resource), address, block.bytes, bytes);
        return true;
    }
    bool is_unused = wait_for_use(resource, stream);
    if (!find_block(address, true, &block))
        return false; /* another thread has freed it */
    if (is_unused)
        tarn__heaps_end_block(address, block.bytes);
    else
        tarn__heaps_leave_block(address, block.bytes);
    if (block.has_heap)
        tarn__heaps_remove(address, block.base_bytes);
    *status_out = tarn__operations_deallocate(resource, address, block.base_bytes,
                                              alignment, stream);
    if (*status_out != TARN_OK)
        restore_block(address, &block);
    return true;
}

static tarn_status deallocate(tarn_resource *resource, tarn_device_ptr block,
                              size_t bytes, size_t alignment, tarn_stream stream)
{
    tarn_status status;

    if (tarn__annotations_free(resource, block, bytes, alignment, stream, &status))
        return status;
    if (!tarn__heaps_are_wanted()) /* for a checker of host memory */
        tarn__heaps_end_block(block, bytes);
    status = tarn__operations_deallocate(resource, block, bytes, alignment, stream);
    if (status != TARN_OK && !tarn__heaps_are_wanted())
        tarn__heaps_begin_block(block, bytes, false, "");
    return status;
}

bool tarn__annotations_requested_bytes(tarn_device_ptr address, size_t *out)
{
    struct block block;
    bool is_found = find_block(address, false, &block);

    if (is_found)
        *out = block.bytes;
    return is_found;
}

/* --- on and off --- */

static void flush(tarn_resource *resource)
{
    (void)resource;
}

void tarn__annotations_stop(void)
{
    tarn__heaps_stop();
}

static void begin(void)
{
    static const struct tarn__intercept_functions functions = {
        allocate, deallocate, tarn__annotations_requested_bytes, flush};

    if (!tarn__intercept_get()) /* guard mode is off */
        tarn__intercept_set(&functions, false);
}

/* A tool cannot be loaded before the driver is initialized. If the environment names one, the
 * functions are set for resources that add no heap, such as `cuda`. */
__attribute__((constructor)) static void read_environment(void)
{
    tarn__tool_on_heaps(begin);
    if (tarn__tool_is_named())
        begin();
}
