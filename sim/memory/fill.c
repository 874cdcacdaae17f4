/* fill.c -- memsets of elements of 1, 2 or 4 bytes, contiguous or in rows with a pitch.
 */
#include "sim/memory/fill.h"
#include "base/size.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/memory/block.h"
#include "sim/memory/bytes.h"
#include "sim/memory/guard.h"
#include "sim/memory/unknown.h"
#include "sim/races/races.h"
#include "sim/work/stream_lookup.h"
#include "sim/work/work.h"

/* Write the first element, and then copy what is written behind itself. */
static void fill_row(char *to, const struct sim_fill *fill)
{
    size_t bytes = fill->count * fill->element, done = fill->element;
    uint16_t half = (uint16_t)fill->value;

    if (fill->element == 1) {
        sim_bytes_fill(to, (int)(fill->value & 0xff), fill->count);
        return;
    }
    if (bytes == 0)
        return;
    sim_bytes_copy(to, fill->element == 2 ? (const void *)&half : &fill->value,
                   fill->element);
    for (size_t more; done < bytes; done += more) {
        more = done < bytes - done ? done : bytes - done;
        sim_bytes_copy(to + done, to, more);
    }
}

/* A memset in the queue. */
struct queued_fill {
    struct sim_guard guard;
    struct sim_fill fill;
};

static void run_fill(void *data)
{
    const struct sim_fill *fill = &((const struct queued_fill *)data)->fill;

    for (size_t row = 0; row < fill->rows; row++)
        fill_row(fill->to + row * fill->pitch, fill);
}

/* False: some of the memory is not accessible. */
static bool guard_fill(struct sim_op *op, struct sim_context *context,
                       const struct sim_fill *fill, size_t bytes)
{
    const struct sim_touch touches[2] = {{(uintptr_t)fill->to, bytes, true}};

    op->check = &sim_guard_check;
    return sim_guard_set((struct sim_guard *)(void *)op->data, context, touches);
}

static void touch_fill(const void *data, struct sim_timeline *timeline)
{
    const struct sim_fill *fill = &((const struct queued_fill *)data)->fill;

    for (size_t row = 0; row < fill->rows; row++)
        sim_races_touch(timeline, (uintptr_t)fill->to + row * fill->pitch,
                        fill->count * fill->element, true);
}

/* The number of bytes from the first to the last; false on overflow. */
static bool extent_of(const struct sim_fill *fill, size_t *bytes)
{
    size_t last = fill->count * fill->element;

    if (fill->count > SIZE_MAX / fill->element ||
        (fill->rows > 1 && (fill->pitch < last || fill->pitch > SIZE_MAX / fill->rows)))
        return false;
    return tarn__size_add((fill->rows - 1) * fill->pitch, last, bytes);
}

CUresult sim_fill_op(struct sim_stream *stream, const struct sim_fill *fill,
                     struct sim_op **out)
{
    struct sim_op *op = sim_op_new(sizeof(struct queued_fill), run_fill, NULL);
    size_t bytes;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!extent_of(fill, &bytes) || !guard_fill(op, stream->context, fill, bytes)) {
        sim_op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op->touch = touch_fill;
    sim_unknown_fill((uintptr_t)fill->to, fill->rows == 1 ? bytes : 0);
    ((struct queued_fill *)(void *)op->data)->fill = *fill;
    *out = op;
    return CUDA_SUCCESS;
}

CUresult sim_fill_check(const struct sim_fill *fill, const struct sim_stream *stream,
                        enum sim_place *out)
{
    size_t bytes;

    if ((uintptr_t)fill->to % fill->element != 0 ||
        (fill->rows > 1 && fill->pitch % fill->element != 0) || !extent_of(fill, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_place_for(stream, (uintptr_t)fill->to, bytes);
    const struct sim_block *block = sim_block_find((uintptr_t)fill->to);
    return !sim_place_is_accessible(*out) ||
                   (stream && block && !sim_block_is_reached(block, stream->context))
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

/* Returns immediately, unless the host can access the memory. */
static CUresult queue_fill(struct sim_stream *stream, const struct sim_fill *fill,
                           bool is_sync)
{
    enum sim_place place;
    struct sim_op *op;
    CUresult result;

    if (fill->count == 0 || fill->rows == 0)
        return CUDA_SUCCESS;
    result = sim_fill_check(fill, stream, &place);
    if (result == CUDA_SUCCESS && stream->member)
        return sim_hooks.capture_add_fill(stream, fill);
    if (result == CUDA_SUCCESS)
        result = sim_fill_op(stream, fill, &op);
    if (result != CUDA_SUCCESS)
        return result;
    return is_sync && place != PLACE_DEVICE ? sim_work_do(stream, op)
                                            : sim_work_queue(stream, op);
}

static CUresult fill_now(CUdeviceptr to, size_t pitch, uint32_t value, size_t element,
                         size_t count, size_t rows)
{
    struct sim_fill fill = {(char *)(uintptr_t)to, value, element, count, rows, pitch};
    struct sim_stream *stream;

    sim_lock();
    CUresult result = sim_stream_lookup_default(&stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? queue_fill(stream, &fill, true)
                                                 : result);
}

static CUresult fill_async(const char *call, CUdeviceptr to, size_t pitch, uint32_t value,
                           size_t element, size_t count, size_t rows, CUstream handle)
{
    struct sim_fill fill = {(char *)(uintptr_t)to, value, element, count, rows, pitch};
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? queue_fill(stream, &fill, false)
                                                 : result);
}

#define FILL(name, type, element)                                             \
    CUresult cuMemset##name##_v2(CUdeviceptr to, type value, size_t count)    \
    {                                                                         \
        ENTER(CALL_CONTEXT);                                                  \
        return fill_now(to, 0, value, element, count, 1);                     \
    }                                                                         \
    CUresult cuMemset##name##Async(CUdeviceptr to, type value, size_t count,  \
                                   CUstream stream)                           \
    {                                                                         \
        ENTER(CALL_HANDLE);                                                   \
        return fill_async(__func__, to, 0, value, element, count, 1, stream); \
    }

#define FILL_ROWS(name, type, element)                                                   \
    CUresult cuMemset##name##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                 size_t height)                                          \
    {                                                                                    \
        ENTER(CALL_CONTEXT);                                                             \
        return fill_now(to, pitch, value, element, width, height);                       \
    }                                                                                    \
    CUresult cuMemset##name##Async(CUdeviceptr to, size_t pitch, type value,             \
                                   size_t width, size_t height, CUstream stream)         \
    {                                                                                    \
        ENTER(CALL_HANDLE);                                                              \
        return fill_async(__func__, to, pitch, value, element, width, height, stream);   \
    }

FILL(D8, unsigned char, 1)
FILL(D16, unsigned short, 2)
FILL(D32, unsigned int, 4)
FILL_ROWS(D2D8, unsigned char, 1)
FILL_ROWS(D2D16, unsigned short, 2)
FILL_ROWS(D2D32, unsigned int, 4)
