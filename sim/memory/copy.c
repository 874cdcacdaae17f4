/* copy.c -- the plain copies, and how every copy runs.
 *
 * Copies between pinned and device memory run when the stream reaches them. Pageable
 * memory cannot be read later, because the client may change it after the call returns.
 * A small source is copied to a staging buffer first. In all other cases the call waits.
 */
#include "sim/memory/copy.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/core/thread.h"
#include "sim/memory/block.h"
#include "sim/memory/bytes.h"
#include "sim/memory/graph_memory.h"
#include "sim/memory/guard.h"
#include "sim/memory/pool.h"
#include "sim/memory/unknown.h"
#include "sim/memory/vmm.h"
#include "sim/races/races.h"
#include "sim/work/stream_lookup.h"
#include "sim/work/work.h"
#include <string.h>

enum { STAGED_MAX = 1 << 20 }; /* the real driver stages at least as much */

void sim_copy_set_known(struct sim_box *box)
{
    box->to_is_known = sim_place_of((uintptr_t)box->to, 1) != PLACE_PAGEABLE;
    box->from_is_known = sim_place_of((uintptr_t)box->from, 1) != PLACE_PAGEABLE;
}

/* A copy in the queue. */
struct copy {
    struct sim_guard guard;
    struct sim_box box;
    char staged[]; /* the source, if it is staged */
};

static void copy_box(void *data)
{
    const struct sim_box *box = &((const struct copy *)data)->box;

    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            sim_bytes_copy(box->to + z * box->to_slice + y * box->to_pitch,
                           box->from + z * box->from_slice + y * box->from_pitch,
                           box->width);
}

/* Treat rows without a gap between them as one. */
static void touch_rows(struct sim_timeline *timeline, uintptr_t start,
                       const struct sim_box *box, size_t pitch, size_t slice,
                       bool is_write)
{
    if (sim_place_of(start, 1) == PLACE_PAGEABLE || sim_place_of(start, 1) == PLACE_BAD)
        return; /* the client's own memory, or staged */
    for (size_t z = 0; z < box->depth; z++) {
        if (pitch == box->width || box->height == 1) {
            sim_races_touch(timeline, start + z * slice, box->width * box->height,
                            is_write);
            continue;
        }
        for (size_t y = 0; y < box->height; y++)
            sim_races_touch(timeline, start + z * slice + y * pitch, box->width,
                            is_write);
    }
}

static void touch_box(const void *data, struct sim_timeline *timeline)
{
    const struct sim_box *box = &((const struct copy *)data)->box;

    touch_rows(timeline, (uintptr_t)box->from, box, box->from_pitch, box->from_slice,
               false);
    touch_rows(timeline, (uintptr_t)box->to, box, box->to_pitch, box->to_slice, true);
}

/* The bytes from the first to the last, with rows and slices that far apart. */
static size_t extent_of(const struct sim_box *box, size_t pitch, size_t slice)
{
    return (box->depth - 1) * slice + (box->height - 1) * pitch + box->width;
}

/* False: some of the memory is not accessible. */
static bool guard_box(struct sim_op *op, struct sim_context *context,
                      const struct sim_box *box)
{
    const struct sim_touch touches[2] = {
        {(uintptr_t)box->from, extent_of(box, box->from_pitch, box->from_slice), false},
        {(uintptr_t)box->to, extent_of(box, box->to_pitch, box->to_slice), true},
    };

    op->check = &sim_guard_check;
    return sim_guard_set((struct sim_guard *)(void *)op->data, context, touches);
}

static void note_unknown(const struct sim_box *box)
{
    bool is_row = (box->height == 1 || box->to_pitch == box->width) &&
                  (box->depth == 1 || box->to_slice == box->width * box->height);

    sim_unknown_copy((uintptr_t)box->to, (uintptr_t)box->from,
                     is_row ? box->width * box->height * box->depth : 0);
}

/* Create a copy operation, with space for `staged` bytes of the source. */
static CUresult new_copy(struct sim_stream *stream, const struct sim_box *box,
                         size_t staged, struct sim_op **out)
{
    struct sim_op *op = sim_op_new(sizeof(struct copy) + staged, copy_box, NULL);
    struct copy *copy;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!guard_box(op, stream->context, box)) {
        sim_op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op->touch = touch_box;
    note_unknown(box);
    copy = (struct copy *)(void *)op->data;
    copy->box = *box;
    if (staged)
        copy->box.from = memcpy(copy->staged, box->from, staged);
    *out = op;
    return CUDA_SUCCESS;
}

/* Queue it with `staged` bytes of the source (0: none). */
static CUresult queue_copy(struct sim_stream *stream, const struct sim_box *box,
                           size_t staged)
{
    struct sim_op *op;
    CUresult result = new_copy(stream, box, staged, &op);

    return result == CUDA_SUCCESS ? sim_work_queue(stream, op) : result;
}

static CUresult copy_now(struct sim_stream *stream, const struct sim_box *box)
{
    struct sim_op *op;
    CUresult result = new_copy(stream, box, 0, &op);

    return result == CUDA_SUCCESS ? sim_work_do(stream, op) : result;
}

CUresult sim_copy_op(struct sim_stream *stream, const struct sim_box *box,
                     struct sim_op **out)
{
    return new_copy(stream, box, 0, out);
}

CUresult sim_copy(struct sim_stream *stream, const struct sim_box *box, enum sim_place to,
                  enum sim_place from, enum sim_copy_mode mode)
{
    bool is_row = box->height == 1 && box->depth == 1;

    if (stream->member)
        return sim_hooks.capture_add_copy(stream, box);
    if (to == PLACE_DEVICE && from == PLACE_DEVICE)
        return queue_copy(stream, box, 0);
    if (mode == COPY_SYNC || to == PLACE_PAGEABLE)
        return copy_now(stream, box);
    if (from != PLACE_PAGEABLE)
        return queue_copy(stream, box, 0);
    return is_row && box->width <= STAGED_MAX ? queue_copy(stream, box, box->width)
                                              : copy_now(stream, box);
}

/* A call that accepts host memory treats freed device memory as host memory, as the real
 * driver does. Memory that a graph under construction allocates is not valid yet. */
static void check_not_freed(const struct sim_stream *stream, uintptr_t address)
{
    if (!sim_block_find(address) && sim_place_is_device(address) &&
        !sim_vmm_reservation(address) &&
        !(stream->member && sim_graph_memory_find(address, 1)))
        sim_misuse_abort_locked(sim_thread.call,
                                "%p is freed device memory; a real driver crashes here",
                                (void *)address);
}

/* Which side must be device memory; the other may be any memory. */
enum needs { NEEDS_NONE = 0, TO_DEVICE = 1, FROM_DEVICE = 2, IS_PEER = 4 };

static bool is_allowed(enum sim_place to, enum sim_place from, unsigned needs)
{
    if (to == PLACE_BAD || from == PLACE_BAD)
        return false;
    if (needs & TO_DEVICE && !sim_place_is_accessible(to))
        return false;
    return !(needs & FROM_DEVICE) || sim_place_is_accessible(from);
}

/* Memory of another device's pool needs access from the current device, whatever the
 * stream, except for copies that name both contexts. That of cuMemAlloc does not. */
static bool is_denied(uintptr_t address)
{
    const struct sim_context *context = sim_context_current();
    const struct sim_block *block = sim_block_find(address);

    return context && block && block->kind == BLOCK_POOL &&
           block->pool->kind == POOL_DEVICE && !sim_block_is_reached(block, context);
}

static CUresult copy_row(struct sim_stream *stream, uintptr_t to, uintptr_t from,
                         size_t bytes, unsigned needs, enum sim_copy_mode mode)
{
    struct sim_box box = {
        .to = (char *)to,
        .from = (const char *)from,
        .width = bytes,
        .height = 1,
        .depth = 1,
    };

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (needs == NEEDS_NONE) {
        check_not_freed(stream, to);
        check_not_freed(stream, from);
    }
    enum sim_place to_place = sim_place_for(stream, to, bytes),
                   from_place = sim_place_for(stream, from, bytes);
    if (!is_allowed(to_place, from_place, needs) ||
        (!(needs & IS_PEER) && (is_denied(to) || is_denied(from))))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_copy(stream, &box, to_place, from_place, mode);
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, unsigned needs)
{
    struct sim_stream *stream;

    sim_lock();
    CUresult result = sim_stream_lookup_default(&stream);
    if (result == CUDA_SUCCESS)
        result =
            copy_row(stream, (uintptr_t)to, (uintptr_t)from, bytes, needs, COPY_SYNC);
    return sim_lock_leave(result);
}

static CUresult copy_async(const char *call, CUdeviceptr to, CUdeviceptr from,
                           size_t bytes, unsigned needs, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    if (result == CUDA_SUCCESS)
        result =
            copy_row(stream, (uintptr_t)to, (uintptr_t)from, bytes, needs, COPY_ASYNC);
    return sim_lock_leave(result);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy(to, from, bytes, NEEDS_NONE);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy(to, (uintptr_t)from, bytes, TO_DEVICE);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy((uintptr_t)to, from, bytes, FROM_DEVICE);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy(to, from, bytes, TO_DEVICE | FROM_DEVICE);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_async(__func__, to, from, bytes, NEEDS_NONE, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_async(__func__, to, (uintptr_t)from, bytes, TO_DEVICE, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_async(__func__, (uintptr_t)to, from, bytes, FROM_DEVICE, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_async(__func__, to, from, bytes, TO_DEVICE | FROM_DEVICE, stream);
}

/* --- between devices: addresses are unified, so only the contexts must be active --- */

static CUresult check_alive(CUcontext to, CUcontext from)
{
    struct sim_context *context;

    sim_lock();
    CUresult result = sim_context_alive(to, &context); /* NULL: the current one */
    if (result == CUDA_SUCCESS)
        result = sim_context_alive(from, &context);
    return sim_lock_leave(result);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    CUresult result = check_alive(to_context, from_context);
    if (result != CUDA_SUCCESS)
        return result;
    return copy(to, from, bytes, TO_DEVICE | FROM_DEVICE | IS_PEER);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream)
{
    ENTER(CALL_CONTEXT);
    CUresult result = check_alive(to_context, from_context);
    if (result != CUDA_SUCCESS)
        return result;
    return copy_async(__func__, to, from, bytes, TO_DEVICE | FROM_DEVICE | IS_PEER,
                      stream);
}
