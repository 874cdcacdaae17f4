/* fabric.c -- fabric handles, and the messages about leases on their blocks.
 *
 * The two ends exchange messages through the program. The importer keeps nothing but the
 * reply that granted its lease: the next requests are made from its bytes. So a lease can
 * be renewed or ended from another thread, or after the pointer.
 */
#include "driver/driver.h"
#include "ipc/export.h"
#include "ipc/export_table.h"
#include "ipc/fabric_lease.h"
#include "ipc/open.h"
#include "pointer/pointer.h"
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_MS = 60000, MAXIMUM_MS = 3600000 };

/* --- the handle --- */

static tarn_status check_exported(tarn_pointer *pointer, const tarn_fabric_handle *out)
{
    if (!pointer || !out || tarn_pointer_bytes(pointer) == 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "fabric: export: %s",
                              out ? "the pointer is NULL or empty" : "out is NULL");
    tarn_status status = tarn__pointer_check_alive("fabric", pointer);
    if (status == TARN_OK && tarn__driver_gone())
        status = tarn__device_gone("fabric", tarn_pointer_device(pointer));
    return status;
}

/* Find the segment of the block, and fill in what the driver knows of it. */
static tarn_status describe(const tarn_pointer *pointer,
                            struct tarn__export_memory *memory,
                            struct tarn__fabric_encoding *encoding)
{
    *memory = (struct tarn__export_memory){.backing = TARN__BACKING_SEGMENT};
    if (tarn_pointer_get_kind(pointer) != TARN_POINTER_DEVICE ||
        !tarn__segment_around(tarn_pointer_address(pointer), &memory->segment))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "fabric: %zu bytes at 0x%llx are no exportable memory, "
                              "which alone has fabric handles",
                              tarn_pointer_bytes(pointer), tarn_pointer_address(pointer));
    encoding->segment_bytes = memory->segment.bytes;
    encoding->offset = tarn_pointer_address(pointer) - memory->segment.base;
    encoding->bytes = tarn_pointer_bytes(pointer);
    encoding->device = tarn_pointer_device(pointer);
    tarn_status status = tarn__segment_fabric(
        memory->segment.slot, memory->segment.generation, encoding->fabric);
    if (status == TARN_OK)
        status = tarn__export_device_uuid(encoding->device, encoding->uuid);
    return status;
}

tarn_status tarn_fabric_export(tarn_pointer *pointer, tarn_fabric_handle *out)
{
    struct tarn__fabric_encoding encoding = {.process = (int32_t)getpid()};
    struct tarn__export_memory memory;
    tarn_status status = check_exported(pointer, out);

    if (status != TARN_OK)
        return status;
    tarn__fabric_lease_sweep();
    tarn__export_table_sweep();
    status = describe(pointer, &memory, &encoding);
    if (status == TARN_OK)
        status = tarn__fabric_encoding_identity(encoding.owner);
    if (status == TARN_OK)
        status =
            tarn__export_table_find_or_add(pointer->base ? pointer->base : pointer,
                                           &memory, &encoding.slot, &encoding.generation);
    if (status == TARN_OK)
        tarn__fabric_encoding_seal(&encoding, out);
    return status;
}

/* --- requests --- */

/* Decode the handle of another process. */
static tarn_status read_handle(const tarn_fabric_handle *handle,
                               struct tarn__fabric_encoding *out)
{
    unsigned char own[TARN__IDENTITY_BYTES];
    tarn_status status = tarn__fabric_encoding_decode(handle, out);

    if (status == TARN_OK)
        status = tarn__fabric_encoding_identity(own);
    if (status == TARN_OK && memcmp(own, out->owner, sizeof own) == 0)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "fabric: the handle was exported by this process; use the pointer");
    return status;
}

static tarn_status read_time(unsigned milliseconds, uint32_t *out)
{
    if (milliseconds > MAXIMUM_MS)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "fabric: a lease of %u ms is longer than the maximum of %d ms", milliseconds,
            MAXIMUM_MS);
    *out = milliseconds ? milliseconds : DEFAULT_MS;
    return TARN_OK;
}

static tarn_status null_argument(const char *call)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT, "fabric: %s: an argument is NULL", call);
}

tarn_status tarn_fabric_begin(const tarn_fabric_handle *handle, unsigned milliseconds,
                              tarn_fabric_message *out)
{
    static atomic_uint_least64_t last_number;
    struct tarn__fabric_message request = {.step = TARN__FABRIC_BEGIN,
                                           .process = (int32_t)getpid()};
    struct tarn__fabric_encoding encoding;

    if (!handle || !out)
        return null_argument("begin");
    tarn_status status = read_handle(handle, &encoding);
    if (status == TARN_OK)
        status = read_time(milliseconds, &request.milliseconds);
    if (status == TARN_OK)
        status = tarn__fabric_encoding_identity(request.importer);
    if (status != TARN_OK)
        return status;
    memcpy(request.owner, encoding.owner, sizeof request.owner);
    request.slot = encoding.slot;
    request.generation = encoding.generation;
    request.number = atomic_fetch_add(&last_number, 1) + 1;
    tarn__fabric_encoding_seal_message(&request, out);
    return TARN_OK;
}

/* Decode a reply to this process. */
static tarn_status read_reply(const tarn_fabric_message *bytes,
                              struct tarn__fabric_message *out)
{
    unsigned char own[TARN__IDENTITY_BYTES];
    tarn_status status = tarn__fabric_encoding_decode_message(bytes, out);

    if (status == TARN_OK)
        status = tarn__fabric_encoding_identity(own);
    if (status != TARN_OK)
        return status;
    if (out->step != TARN__FABRIC_REPLY || memcmp(own, out->importer, sizeof own) != 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the message is no reply to this process");
    if (out->status == TARN_NOT_FOUND)
        return tarn_error_set(TARN_NOT_FOUND,
                              "fabric: the owner rejects the lease: the block was freed, "
                              "or the lease has expired");
    if (out->status != TARN_OK)
        return tarn_error_set((tarn_status)out->status,
                              "fabric: the owner rejects the lease");
    return TARN_OK;
}

/* Decode the reply that granted a lease. */
static tarn_status read_grant(const tarn_fabric_message *bytes,
                              struct tarn__fabric_message *out)
{
    tarn_status status = read_reply(bytes, out);

    if (status == TARN_OK && out->milliseconds == 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the reply grants no lease: it has ended");
    return status;
}

/* Make a request about the lease that a reply granted. */
static tarn_status request_again(const tarn_fabric_message *granted,
                                 enum tarn__fabric_step step, uint32_t milliseconds,
                                 tarn_fabric_message *out)
{
    struct tarn__fabric_message message;
    tarn_status status = read_grant(granted, &message);

    if (status != TARN_OK)
        return status;
    message.step = step;
    message.milliseconds = milliseconds;
    tarn__fabric_encoding_seal_message(&message, out);
    return TARN_OK;
}

tarn_status tarn_fabric_renew(const tarn_fabric_message *granted, unsigned milliseconds,
                              tarn_fabric_message *out)
{
    uint32_t time = 0;

    if (!granted || !out)
        return null_argument("renew");
    tarn_status status = read_time(milliseconds, &time);
    return status == TARN_OK ? request_again(granted, TARN__FABRIC_RENEW, time, out)
                             : status;
}

tarn_status tarn_fabric_end(const tarn_fabric_message *granted, tarn_fabric_message *out)
{
    if (!granted || !out)
        return null_argument("end");
    return request_again(granted, TARN__FABRIC_END, 0, out);
}

tarn_status tarn_fabric_check(const tarn_fabric_message *reply,
                              unsigned *milliseconds_out)
{
    struct tarn__fabric_message message;

    if (!reply)
        return null_argument("check");
    tarn_status status = read_reply(reply, &message);
    if (status == TARN_OK && milliseconds_out)
        *milliseconds_out = message.milliseconds;
    return status;
}

/* --- answers --- */

/* Decode a request to this process. */
static tarn_status read_request(const tarn_fabric_message *bytes,
                                struct tarn__fabric_message *out)
{
    unsigned char own[TARN__IDENTITY_BYTES];
    tarn_status status = tarn__fabric_encoding_decode_message(bytes, out);

    if (status == TARN_OK)
        status = tarn__fabric_encoding_identity(own);
    if (status != TARN_OK)
        return status;
    if (out->step == TARN__FABRIC_REPLY || memcmp(own, out->owner, sizeof own) != 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the message is no request to this process");
    if (out->milliseconds > MAXIMUM_MS ||
        (out->milliseconds == 0) != (out->step == TARN__FABRIC_END))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the request has an invalid time of %u ms",
                              out->milliseconds);
    return TARN_OK;
}

static tarn_status carry_out(const struct tarn__fabric_message *request,
                             struct tarn__fabric_message *reply)
{
    if (request->step == TARN__FABRIC_BEGIN)
        return tarn__fabric_lease_begin(request, reply);
    if (request->step == TARN__FABRIC_RENEW)
        return tarn__fabric_lease_renew(request);
    tarn__fabric_lease_end(request);
    return TARN_OK;
}

tarn_status tarn_fabric_answer(const tarn_fabric_message *request,
                               tarn_fabric_message *out)
{
    struct tarn__fabric_message message;

    if (!request || !out)
        return null_argument("answer");
    if (tarn__driver_gone())
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "fabric: this process is exiting or is a forked child");
    tarn_status status = read_request(request, &message);
    if (status != TARN_OK)
        return status;
    tarn__fabric_lease_sweep();
    tarn__export_table_sweep();
    struct tarn__fabric_message reply = message;
    reply.status = carry_out(&message, &reply);
    reply.step = TARN__FABRIC_REPLY;
    tarn__fabric_encoding_seal_message(&reply, out);
    return TARN_OK;
}

/* --- opening --- */

static tarn_status check_grant(const struct tarn__fabric_encoding *encoding,
                               const tarn_fabric_message *granted)
{
    struct tarn__fabric_message message;
    tarn_status status = read_grant(granted, &message);

    if (status != TARN_OK)
        return status;
    if (message.slot == encoding->slot && message.generation == encoding->generation &&
        memcmp(message.owner, encoding->owner, sizeof message.owner) == 0)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "fabric: open: the lease is on another block");
}

tarn_status tarn_fabric_open(const tarn_fabric_handle *handle,
                             const tarn_fabric_message *granted, int device,
                             tarn_pointer **out)
{
    struct tarn__fabric_encoding encoding;

    if (!handle || !out)
        return null_argument("open");
    tarn_status status = read_handle(handle, &encoding);
    if (status == TARN_OK && granted)
        status = check_grant(&encoding, granted);
    if (status == TARN_OK)
        status = tarn__device_check("fabric", device);
    if (status == TARN_OK && tarn__driver_gone())
        status = tarn__device_gone("fabric", device);
    return status == TARN_OK ? tarn__open_fabric(&encoding, device, out) : status;
}
