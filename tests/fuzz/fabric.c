/* fabric.c -- a fuzz target: any bytes as a fabric handle and as messages about leases, in
 * the owner and in the importer, on the driver simulator.
 *
 *     fuzz-fabric [-max_total_time=120] [FOLDER]
 *
 * The first byte selects the repairs: the checksum, which random bytes would not have, and
 * the identities of the processes, which a peer knows.
 *
 * Wrong bytes are rejected with a message that begins with `fabric:` or `ipc:`. They open
 * nothing and leave outputs as they are. Whatever leases begin, the block returns after
 * their end.
 */
#define _GNU_SOURCE
#include "ipc/fabric_encoding.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tarn_resource *resource;
static tarn_pointer *owned;
static tarn_fabric_handle own_handle;
static struct tarn__fabric_encoding own;

static void must(tarn_status status)
{
    if (status == TARN_OK)
        return;
    fprintf(stderr, "%s\n", tarn_error_last()->message);
    abort();
}

/* A failure has a message of this module. */
static bool failed(tarn_status status)
{
    if (status == TARN_OK)
        return false;
    if (strncmp(tarn_error_last()->message, "fabric:", 7) != 0 &&
        strncmp(tarn_error_last()->message, "ipc:", 4) != 0) {
        fprintf(stderr, "no component in: %s\n", tarn_error_last()->message);
        abort();
    }
    return true;
}

static void begin(void)
{
    if (owned)
        return;
    setenv("TARN_SIM", "fabric=on", 1);
    must(tarn_driver_open("sim"));
    must(tarn_exportable_create(0, NULL, &resource));
    must(tarn_pointer_allocate(resource, 1000, TARN_STREAM_NONE, &owned));
    must(tarn_fabric_export(owned, &own_handle));
    must(tarn__fabric_encoding_decode(&own_handle, &own));
}

static void try_handle(const uint8_t *bytes, size_t count, unsigned repairs)
{
    struct tarn__fabric_encoding encoding;
    tarn_fabric_handle handle = own_handle;
    tarn_fabric_message request;
    tarn_pointer *opened = NULL;

    memcpy(handle.bytes, bytes,
           count < sizeof handle.bytes ? count : sizeof handle.bytes);
    memcpy(&encoding, handle.bytes, sizeof encoding);
    if (repairs & 2)
        memset(encoding.owner, 0x55, sizeof encoding.owner); /* of another process */
    if (repairs & 4)
        memcpy(encoding.fabric, own.fabric, sizeof encoding.fabric);
    if (repairs & 1)
        tarn__fabric_encoding_seal(&encoding, &handle);
    failed(tarn_fabric_begin(&handle, repairs >> 4, &request));
    if (failed(tarn_fabric_open(&handle, NULL, 0, &opened)) == (opened != NULL))
        abort();
    tarn_pointer_release(opened);
}

static void try_message(const uint8_t *bytes, size_t count, unsigned repairs)
{
    tarn_fabric_message message = {{0}}, reply, again;
    struct tarn__fabric_message content;
    unsigned milliseconds;

    memcpy(message.bytes, bytes,
           count < sizeof message.bytes ? count : sizeof message.bytes);
    memcpy(&content, message.bytes, sizeof content);
    if (repairs & 2)
        memcpy(content.owner, own.owner, sizeof content.owner);
    if (repairs & 4)
        memcpy(content.importer, own.owner, sizeof content.importer);
    if (repairs & 8)
        content.slot = own.slot, content.generation = own.generation;
    if (repairs & 1)
        tarn__fabric_encoding_seal_message(&content, &message);
    failed(tarn_fabric_check(&message, &milliseconds));
    failed(tarn_fabric_renew(&message, 0, &again));
    failed(tarn_fabric_end(&message, &again));
    if (failed(tarn_fabric_answer(&message, &reply)))
        return;
    must(tarn__fabric_encoding_decode_message(&reply, &content));
    if (content.step != TARN__FABRIC_REPLY)
        abort();
    content.step = TARN__FABRIC_END; /* what the importer would send */
    content.status = content.milliseconds = 0;
    tarn__fabric_encoding_seal_message(&content, &message);
    must(tarn_fabric_answer(&message, &reply));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    size_t leases = 0;

    begin();
    if (count == 0)
        return 0;
    try_handle(bytes + 1, count - 1, *bytes);
    try_message(bytes + 1, count - 1, *bytes);
    must(tarn_ipc_leases(NULL, 0, &leases));
    if (leases != 0 || tarn_pointer_use_count(owned) != 2)
        abort();
    return 0;
}
