/* zones.c -- red zones: where they are in a block, and their fill. */
#include "guard/zones.h"
#include "base/size.h"
#include "resource/discards.h"

/* Lay out a block. Returns false if the sizes overflow. */
bool tarn__zones_lay_out(const struct tarn__guard *guard, size_t bytes, size_t alignment,
                         size_t *offset_out, struct tarn__guard_block *block)
{
    size_t zone = guard->options.guard ? guard->options.zone_bytes : 0;
    size_t front = 0, whole;

    if (zone > 0) {
        if (!tarn__size_round_up(zone + TARN_ALIGNMENT, 2 * (size_t)TARN_ALIGNMENT,
                                 &front))
            return false;
        front -= TARN_ALIGNMENT; /* 256 more than a multiple of 512 */
    }
    if (!tarn__size_round_up(front, alignment, offset_out) ||
        !tarn__size_add(*offset_out, bytes, &whole) ||
        !tarn__size_add(whole, zone, &whole) ||
        !tarn__size_round_up(whole, TARN_ALIGNMENT, &block->base_bytes))
        return false;
    block->front = front;
    block->back = zone > 0 ? block->base_bytes - *offset_out - bytes : 0;
    block->alignment = alignment;
    block->site.bytes = bytes;
    return true;
}

/* Queue the fill of the red zones and the event behind it. */
bool tarn__zones_fill(struct tarn__guard *guard, struct tarn__workspace_use *use,
                      struct tarn__guard_block *block, CUstream_ stream)
{
    const struct tarn__calls *calls = use->scope.calls;
    tarn_device_ptr address = block->site.address;

    if (block->front == 0)
        return false;
    if (!block->event)
        block->event = tarn__workspace_take_event(guard, use);
    return block->event &&
           calls->memset_d8_async(address - block->front, TARN_GUARD_ZONE_BYTE,
                                  block->front, stream) == CUDA_SUCCESS_ &&
           calls->memset_d8_async(address + block->site.bytes, TARN_GUARD_ZONE_BYTE,
                                  block->back, stream) == CUDA_SUCCESS_ &&
           calls->event_record(block->event, stream) == CUDA_SUCCESS_;
}

/* Fill the red zones of a new block. In a workspace. A block without a stream is ready for
 * all streams, so the fill has to be over. It waits for no work of the program. */
void tarn__zones_begin(struct tarn__guard *guard, struct tarn__workspace_use *use,
                       struct tarn__guard_block *block, enum tarn__order order,
                       CUstream_ stream)
{
    block->context_generation = use->scope.context_generation;
    block->discards = tarn__discards();
    if (order == TARN__ORDER_STREAM) {
        block->is_filled = tarn__zones_fill(guard, use, block, stream);
        return;
    }
    stream = tarn__workspace_fill_stream(use);
    block->is_filled = tarn__zones_fill(guard, use, block, stream) &&
                       use->scope.calls->stream_synchronize(stream) == CUDA_SUCCESS_;
}
