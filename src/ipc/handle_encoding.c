/* handle_encoding.c -- the encoding of handles that name a server: written, and
 * validated when read.
 *
 * The checksum tells bytes that were cut off or mixed up from a handle whose owner has
 * gone. It is no access control: the socket decides that, as it knows its peer.
 */
#include "ipc/handle_encoding.h"
#include <string.h>
#include <unistd.h>

static const unsigned char magic[8] = {'t', 'a', 'r', 'n', 'i', 'p', 'c', '2'};
enum { MAGIC_WITHOUT_VERSION = 7 };

_Static_assert(offsetof(struct tarn__handle_encoding, check) % sizeof(uint64_t) == 0,
               "the check is over whole words");

/* One word at a time: the checksum is computed at each opening, also of memory that is
 * open already. */
uint64_t tarn__handle_encoding_checksum(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t check = bytes, word;

    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, at + i, sizeof word);
        check = (check ^ word) * UINT64_C(0x9fb21c651e98df25);
        check ^= check >> 32;
    }
    return check;
}

static uint64_t check_of(const struct tarn__handle_encoding *encoding)
{
    return tarn__handle_encoding_checksum(encoding,
                                          offsetof(struct tarn__handle_encoding, check));
}

void tarn__handle_encoding_seal(struct tarn__handle_encoding *encoding)
{
    memcpy(encoding->magic, magic, sizeof magic);
    encoding->check = check_of(encoding);
}

bool tarn__handle_encoding_has_magic(const unsigned char bytes[64])
{
    return memcmp(bytes, magic, MAGIC_WITHOUT_VERSION) == 0;
}

tarn_status tarn__handle_encoding_decode(const unsigned char bytes[64],
                                         struct tarn__handle_encoding *out)
{
    struct tarn__handle_encoding encoding;

    memcpy(&encoding, bytes, sizeof encoding);
    if (encoding.magic[MAGIC_WITHOUT_VERSION] != magic[MAGIC_WITHOUT_VERSION])
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "ipc: the handle has version 0x%02x, this version of Tarn reads 0x%02x",
            encoding.magic[MAGIC_WITHOUT_VERSION], magic[MAGIC_WITHOUT_VERSION]);
    if (encoding.check != check_of(&encoding) || encoding.kind > TARN_IPC_SERVED)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "ipc: the handle is invalid, its checksum is wrong");
    *out = encoding;
    return TARN_OK;
}

tarn_status tarn__handle_encoding_check_user(const struct tarn__handle_encoding *encoding)
{
    if (encoding->user == (uint32_t)geteuid())
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "ipc: the handle belongs to user %u, this process to user %u",
                          encoding->user, (unsigned)geteuid());
}
