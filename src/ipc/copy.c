/* copy.c -- copy a block to another device, through the host.
 *
 * The copy is for devices that cannot reach each other, where the driver goes through the
 * host as well. Each half is done by the device with access to its side, so the kind of
 * memory does not matter. The copy uses streams of its own. They keep it out of captures,
 * and do not wait for the default stream. The mode is relaxed, as synchronizing would end
 * captures.
 */
#include "ipc/copy.h"
#include "driver/driver.h"
#include "base/error.h"
#include <stdlib.h>

enum { CHUNK_BYTES = 4 << 20 };

/* One side of a copy. */
struct side {
    int device;
    tarn_device_ptr address;
    tarn_stream stream;
};

struct transfer {
    struct side from, to;
    size_t bytes;
    unsigned char *buffer; /* of CHUNK_BYTES, or of `bytes` where that is less */
};

static size_t chunk_of(size_t left)
{
    return left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static tarn_status copy_and_wait(const struct side *side, tarn_device_ptr to,
                                 tarn_device_ptr from, size_t bytes)
{
    tarn_status status = tarn_memcpy_async(side->device, to, from, bytes, side->stream);

    return status == TARN_OK ? tarn_stream_synchronize(side->device, side->stream)
                             : status;
}

static tarn_status copy_all(const struct transfer *transfer)
{
    tarn_device_ptr buffer = (uintptr_t)transfer->buffer;
    tarn_status status = TARN_OK;

    for (size_t done = 0; done < transfer->bytes && status == TARN_OK;
         done += CHUNK_BYTES) {
        size_t bytes = chunk_of(transfer->bytes - done);
        status =
            copy_and_wait(&transfer->from, buffer, transfer->from.address + done, bytes);
        if (status == TARN_OK)
            status =
                copy_and_wait(&transfer->to, transfer->to.address + done, buffer, bytes);
    }
    return status;
}

/* The second try is for a driver that fails once. The earlier error message stays. */
static void end_stream(const struct side *side)
{
    struct tarn__kept_error why = tarn__error_keep();

    if (tarn_stream_destroy(side->device, side->stream) != TARN_OK)
        tarn_stream_destroy(side->device, side->stream);
    tarn__error_restore(&why);
}

static tarn_status with_second_stream(struct transfer *transfer)
{
    tarn_status status =
        tarn_stream_create(transfer->to.device, true, &transfer->to.stream);

    if (status != TARN_OK)
        return status;
    status = copy_all(transfer);
    end_stream(&transfer->to);
    return status;
}

static tarn_status with_streams(struct transfer *transfer)
{
    tarn_status status =
        tarn_stream_create(transfer->from.device, true, &transfer->from.stream);

    if (status != TARN_OK)
        return status;
    status = with_second_stream(transfer);
    end_stream(&transfer->from);
    return status;
}

static tarn_status in_relaxed_mode(struct transfer *transfer)
{
    const struct tarn__calls *calls;
    CUstreamCaptureMode_ mode;
    tarn_status status = tarn__driver(&calls);

    if (status == TARN_OK)
        status = tarn__relaxed_enter(calls, &mode);
    if (status != TARN_OK)
        return status;
    status = with_streams(transfer);
    tarn__relaxed_leave(calls, mode);
    return status;
}

static struct side side_of(const tarn_pointer *pointer)
{
    return (struct side){.device = tarn_pointer_device(pointer),
                         .address = tarn_pointer_address(pointer)};
}

tarn_status tarn__copy_between(const tarn_pointer *from, const tarn_pointer *to)
{
    struct transfer transfer = {
        .from = side_of(from), .to = side_of(to), .bytes = tarn_pointer_bytes(from)};

    transfer.buffer = malloc(chunk_of(transfer.bytes));
    if (!transfer.buffer)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "ipc: no host memory to copy %zu bytes",
                              transfer.bytes);
    tarn_status status = in_relaxed_mode(&transfer);
    free(transfer.buffer);
    return status;
}
