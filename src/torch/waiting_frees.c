/* waiting_frees.c -- frees that wait for recorded streams.
 *
 * A tensor can be used on streams other than that of its allocation. PyTorch's rule for a
 * recorded stream: all work that it has queued at the free may use the block. So the free
 * records an event on each such stream, and the block waits in a list. Allocations and
 * frees query the oldest events. The stream of the allocation does not wait itself, because
 * that would serialize streams that a program runs side by side.
 *
 * Captures. An event of a capturing stream cannot be queried, and each launch of the graph
 * uses the block again:
 *
 *   - A block that the capture allocated is freed without a stream. The pool then keeps it
 *     for the graph, and no stream reuses it.
 *   - Another block is freed on the capturing stream, with the same effect.
 *
 * The list also has blocks whose free failed, for example because a driver call did.
 *
 * Where no event can be recorded, the block is freed without a stream, if the resource
 * supports that. Otherwise the free waits for the device.
 */
#include "torch/waiting_frees.h"
#include "base/mutex.h"
#include "base/warn.h"
#include "driver/driver.h"
#include "driver/quiesce.h"
#include "driver/stream.h"
#include "torch/tensor_counts.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { POLLED_AT_ONCE = 4 };

/* An event after the work of one stream. */
struct mark {
    CUevent_ event;
    int device;
    uint64_t context_generation;
};

/* A block in the list. */
struct waiting {
    struct waiting *next;
    struct tarn__torch_block block;
    size_t count;
    struct mark marks[];
};

TARN__STATIC_MUTEX(lock);
static struct waiting *first, **end = &first;
static atomic_size_t waiting_count;

/* --- the list --- */

static void append(struct waiting *waiting)
{
    tarn__mutex_lock(&lock);
    waiting->next = NULL;
    *end = waiting;
    end = &waiting->next;
    atomic_fetch_add(&waiting_count, 1);
    tarn__mutex_unlock(&lock);
}

static void put_back(struct waiting *waiting)
{
    tarn__mutex_lock(&lock);
    waiting->next = first;
    first = waiting;
    if (!waiting->next)
        end = &waiting->next;
    atomic_fetch_add(&waiting_count, 1);
    tarn__mutex_unlock(&lock);
}

static struct waiting *take_first(void)
{
    tarn__mutex_lock(&lock);
    struct waiting *found = first;
    if (found) {
        first = found->next;
        if (!first)
            end = &first;
        atomic_fetch_sub(&waiting_count, 1);
    }
    tarn__mutex_unlock(&lock);
    return found;
}

/* --- events --- */

/* Record an event on a stream that does not capture. Fails for a stream of a device whose
 * context Tarn does not use. In a relaxed scope. */
static bool record(const struct tarn__scope *scope, tarn_stream stream, int device,
                   struct mark *out)
{
    CUcontext_ context, popped;
    struct mark mark = {.device = device};
    bool pushed = false;

    if (tarn__stream_form(stream) == TARN__STREAM_FORM_RAW &&
        (scope->calls->stream_get_ctx((CUstream_)stream, &context) != CUDA_SUCCESS_ ||
         !tarn__context_device(context, &mark.device)))
        return false;
    if (mark.device != device) {
        if (scope->calls->ctx_push_current(context) != CUDA_SUCCESS_)
            return false;
        pushed = true;
    }
    mark.context_generation = tarn__context_generation(mark.device);
    bool is_made = scope->calls->event_create(&mark.event, CU_EVENT_DISABLE_TIMING_) ==
                   CUDA_SUCCESS_;
    bool is_recorded = is_made && scope->calls->event_record(
                                      mark.event, (CUstream_)stream) == CUDA_SUCCESS_;
    if (is_made && !is_recorded)
        scope->calls->event_destroy(mark.event);
    if (pushed && scope->calls->ctx_pop_current(&popped) != CUDA_SUCCESS_)
        scope->calls->ctx_pop_current(&popped);
    *out = mark;
    return is_recorded;
}

/* Return true if the stream has done its work. The event ends then. `waits`: wait for
 * it. */
static bool is_done(const struct mark *mark, bool waits)
{
    struct tarn__scope scope;
    CUresult_ result;

    if (!tarn__context_generation_is_current(mark->device, mark->context_generation) ||
        tarn__scope_enter_relaxed(mark->device, &scope) != TARN_OK)
        return true; /* the context is gone, and the event with it */
    if (waits && scope.calls->event_synchronize)
        result = scope.calls->event_synchronize(mark->event);
    else if (waits)
        result = tarn__quiesce_device(scope.calls);
    else
        result = scope.calls->event_query(mark->event);
    if (result != CUDA_ERROR_NOT_READY_)
        scope.calls->event_destroy(mark->event);
    tarn__scope_leave(&scope);
    return result != CUDA_ERROR_NOT_READY_;
}

static bool are_done(struct waiting *waiting, bool wait)
{
    while (waiting->count > 0 && is_done(&waiting->marks[waiting->count - 1], wait))
        waiting->count--;
    return waiting->count == 0;
}

/* --- returning blocks --- */

/* Keep a block whose free failed in the list: a later call tries again. Returns false
 * without host memory. */
static bool keep(const struct tarn__torch_block *block)
{
    struct waiting *waiting = malloc(sizeof *waiting);

    if (!waiting)
        return false;
    *waiting = (struct waiting){.block = *block};
    append(waiting);
    return true;
}

void tarn__waiting_frees_return(const struct tarn__torch_block *block, tarn_stream stream)
{
    tarn_status status = tarn_resource_deallocate(block->resource, block->address,
                                                  block->bytes, 0, stream);

    if (status != TARN_OK && status != TARN_INVALID_ARGUMENT && keep(block))
        return;
    if (status != TARN_OK)
        tarn__warn("torch: a free failed: %s", tarn_error_last()->message);
    tarn__tensor_counts_return(block->device, block->bytes);
}

void tarn__waiting_frees_poll(void)
{
    for (int i = 0; i < POLLED_AT_ONCE && atomic_load(&waiting_count) > 0; i++) {
        struct waiting *waiting = take_first();
        if (!waiting)
            return;
        if (!are_done(waiting, false)) {
            put_back(waiting);
            return;
        }
        tarn__waiting_frees_return(&waiting->block, waiting->block.stream);
        free(waiting);
    }
}

bool tarn__waiting_frees_finish(bool in_capture)
{
    size_t count = atomic_load(&waiting_count); /* a free that fails comes back */
    struct waiting *waiting;
    bool any = false;

    for (; count > 0 && (waiting = take_first()) != NULL; count--) {
        any = true;
        are_done(waiting, true);
        bool can_be_none =
            in_capture && tarn_resource_supports_no_stream(waiting->block.resource);
        tarn__waiting_frees_return(&waiting->block, can_be_none ? TARN_STREAM_NONE
                                                                : waiting->block.stream);
        free(waiting);
    }
    return any;
}

/* --- a free with recorded streams --- */

/* Return the block without an event: no stream reuses it before the device has done all
 * queued work. */
static void return_after_all(const struct tarn__torch_block *block)
{
    if (tarn_resource_supports_no_stream(block->resource)) {
        tarn__waiting_frees_return(block, TARN_STREAM_NONE);
        return;
    }
    struct tarn__scope scope;
    if (tarn__scope_enter_relaxed(block->device, &scope) == TARN_OK) {
        tarn__quiesce_device(scope.calls);
        tarn__scope_leave(&scope);
    }
    tarn__waiting_frees_return(block, block->stream);
}

enum capture_state { NOT_CAPTURING, CAPTURING, UNKNOWN };

static enum capture_state capture_of(const struct tarn__scope *scope, tarn_stream stream)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;

    if (tarn__stream_form(stream) == TARN__STREAM_FORM_PER_THREAD)
        return UNKNOWN; /* of which thread? */
    if (scope->calls->stream_is_capturing((CUstream_)stream, &status) != CUDA_SUCCESS_)
        return UNKNOWN; /* the legacy stream, while a blocking one captures */
    return status == CU_STREAM_CAPTURE_STATUS_NONE_ ? NOT_CAPTURING : CAPTURING;
}

/* Record events for all streams. Returns NULL, and no event is left, if that fails. */
static struct waiting *mark_all(const struct tarn__scope *scope,
                                const struct tarn__torch_block *block,
                                const struct tarn__torch_record *record_)
{
    struct waiting *waiting =
        malloc(sizeof *waiting + record_->count * sizeof *waiting->marks);

    if (!waiting)
        return NULL;
    *waiting = (struct waiting){.block = *block};
    for (size_t i = 0; i < record_->count; i++) {
        if (record_->streams[i] == block->stream)
            continue;
        if (!record(scope, record_->streams[i], block->device,
                    &waiting->marks[waiting->count])) {
            while (waiting->count > 0)
                scope->calls->event_destroy(waiting->marks[--waiting->count].event);
            free(waiting);
            return NULL;
        }
        waiting->count++;
    }
    return waiting;
}

/* Free a block that no capture has allocated. In a relaxed scope. */
static void free_in_scope(const struct tarn__scope *scope,
                          const struct tarn__torch_block *block,
                          const struct tarn__torch_record *record_)
{
    enum capture_state state = capture_of(scope, block->stream);
    tarn_stream stream = block->stream;

    for (size_t i = 0; i < record_->count && state == NOT_CAPTURING; i++) {
        stream = record_->streams[i];
        state = capture_of(scope, stream);
    }
    if (state == CAPTURING) {
        tarn__waiting_frees_return(block, stream);
        return;
    }
    struct waiting *waiting =
        state == NOT_CAPTURING ? mark_all(scope, block, record_) : NULL;
    if (waiting)
        append(waiting);
    else
        return_after_all(block);
}

void tarn__waiting_frees_free(const struct tarn__torch_block *block,
                              const struct tarn__torch_record *record_)
{
    struct tarn__scope scope;
    bool any = false;

    for (size_t i = 0; i < record_->count; i++)
        any = any || record_->streams[i] != block->stream;
    if (!any) {
        tarn__waiting_frees_return(block, block->stream);
    } else if (record_->is_captured ||
               tarn__scope_enter_relaxed(block->device, &scope) != TARN_OK) {
        return_after_all(block);
    } else {
        free_in_scope(&scope, block, record_);
        tarn__scope_leave(&scope);
    }
}
