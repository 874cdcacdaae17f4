/* fabric_encoding.c -- the encoding of fabric handles and of the messages about leases:
 * written, and validated when read.
 *
 * The checksum tells bytes that were cut off or mixed up. It is no access control: that
 * is the transport's.
 */
#define _GNU_SOURCE
#include "ipc/fabric_encoding.h"
#include "ipc/handle_encoding.h"
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

static const unsigned char handle_magic[8] = {'t', 'a', 'r', 'n', 'f', 'a', 'b', '1'};
static const unsigned char message_magic[8] = {'t', 'a', 'r', 'n', 'l', 'e', 'a', '1'};
enum { MAGIC_WITHOUT_VERSION = 7 };

void tarn__fabric_encoding_seal(struct tarn__fabric_encoding *encoding,
                                tarn_fabric_handle *out)
{
    memcpy(encoding->magic, handle_magic, sizeof handle_magic);
    encoding->check = tarn__handle_encoding_checksum(
        encoding, offsetof(struct tarn__fabric_encoding, check));
    memcpy(out->bytes, encoding, sizeof out->bytes);
}

void tarn__fabric_encoding_seal_message(struct tarn__fabric_message *message,
                                        tarn_fabric_message *out)
{
    memcpy(message->magic, message_magic, sizeof message_magic);
    message->check = tarn__handle_encoding_checksum(
        message, offsetof(struct tarn__fabric_message, check));
    memcpy(out->bytes, message, sizeof out->bytes);
}

static tarn_status check_magic(const unsigned char magic[8],
                               const unsigned char expected[8], const char *what)
{
    if (memcmp(magic, expected, MAGIC_WITHOUT_VERSION) != 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "fabric: the bytes are no %s", what);
    if (magic[MAGIC_WITHOUT_VERSION] == expected[MAGIC_WITHOUT_VERSION])
        return TARN_OK;
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "fabric: the %s has version 0x%02x, this version of Tarn reads 0x%02x", what,
        magic[MAGIC_WITHOUT_VERSION], expected[MAGIC_WITHOUT_VERSION]);
}

tarn_status tarn__fabric_encoding_decode(const tarn_fabric_handle *handle,
                                         struct tarn__fabric_encoding *out)
{
    struct tarn__fabric_encoding encoding;

    memcpy(&encoding, handle->bytes, sizeof encoding);
    tarn_status status = check_magic(encoding.magic, handle_magic, "handle");
    if (status != TARN_OK)
        return status;
    if (encoding.check != tarn__handle_encoding_checksum(
                              &encoding, offsetof(struct tarn__fabric_encoding, check)) ||
        encoding.bytes == 0 || encoding.zero != 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the handle is invalid, its checksum is wrong");
    if (encoding.bytes > encoding.segment_bytes ||
        encoding.offset > encoding.segment_bytes - encoding.bytes)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "fabric: %llu bytes at offset %llu exceed the allocation of %llu bytes",
            (unsigned long long)encoding.bytes, (unsigned long long)encoding.offset,
            (unsigned long long)encoding.segment_bytes);
    *out = encoding;
    return TARN_OK;
}

tarn_status tarn__fabric_encoding_decode_message(const tarn_fabric_message *bytes,
                                                 struct tarn__fabric_message *out)
{
    struct tarn__fabric_message message;

    memcpy(&message, bytes->bytes, sizeof message);
    tarn_status status = check_magic(message.magic, message_magic, "message");
    if (status != TARN_OK)
        return status;
    if (message.check != tarn__handle_encoding_checksum(
                             &message, offsetof(struct tarn__fabric_message, check)) ||
        message.step < TARN__FABRIC_BEGIN || message.step > TARN__FABRIC_REPLY ||
        message.status >= TARN_STATUS_COUNT || message.zero != 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "fabric: the message is invalid, its checksum is wrong");
    *out = message;
    return TARN_OK;
}

/* --- the identity of this process --- */

static struct {
    pthread_once_t once;
    bool is_known;
    unsigned char bytes[TARN__IDENTITY_BYTES];
} identity = {.once = PTHREAD_ONCE_INIT};

static void draw_identity(void)
{
    identity.is_known = getrandom(identity.bytes, sizeof identity.bytes, 0) ==
                        (ssize_t)sizeof identity.bytes;
}

tarn_status tarn__fabric_encoding_identity(unsigned char out[TARN__IDENTITY_BYTES])
{
    pthread_once(&identity.once, draw_identity);
    if (!identity.is_known)
        return tarn_error_set(TARN_SYSTEM_FAILURE,
                              "fabric: the system has no random numbers");
    memcpy(out, identity.bytes, TARN__IDENTITY_BYTES);
    return TARN_OK;
}
