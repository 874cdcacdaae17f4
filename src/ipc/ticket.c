/* ticket.c -- the encoding of handles that name a server: written, and validated when
 * read.
 *
 * The checksum tells bytes that were cut off or mixed up from a handle whose owner has
 * gone. It is no access control: the socket decides that, as it knows its peer.
 */
#include "ipc/ticket.h"
#include <string.h>
#include <unistd.h>

static const unsigned char magic[8] = {'t', 'a', 'r', 'n', 'i', 'p', 'c', '2'};
enum { MAGIC_WITHOUT_VERSION = 7 };

_Static_assert(offsetof(struct tarn__ticket, check) % sizeof(uint64_t) == 0,
               "the check is over whole words");

/* One word at a time: the checksum is computed at each opening, also of memory that is
 * open already. */
static uint64_t check_of(const struct tarn__ticket *ticket)
{
    uint64_t words[offsetof(struct tarn__ticket, check) / sizeof(uint64_t)];
    uint64_t check = sizeof words;

    memcpy(words, ticket, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        check = (check ^ words[i]) * UINT64_C(0x9fb21c651e98df25);
        check ^= check >> 32;
    }
    return check;
}

void tarn__ticket_seal(struct tarn__ticket *ticket)
{
    memcpy(ticket->magic, magic, sizeof magic);
    ticket->check = check_of(ticket);
}

bool tarn__ticket_claims(const unsigned char bytes[64])
{
    return memcmp(bytes, magic, MAGIC_WITHOUT_VERSION) == 0;
}

tarn_status tarn__ticket_read(const unsigned char bytes[64], struct tarn__ticket *out)
{
    struct tarn__ticket ticket;

    memcpy(&ticket, bytes, sizeof ticket);
    if (ticket.magic[MAGIC_WITHOUT_VERSION] != magic[MAGIC_WITHOUT_VERSION])
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "ipc: the handle has version 0x%02x, this version of Tarn reads 0x%02x",
            ticket.magic[MAGIC_WITHOUT_VERSION], magic[MAGIC_WITHOUT_VERSION]);
    if (ticket.check != check_of(&ticket) || ticket.kind > TARN_IPC_SERVED)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "ipc: the handle is invalid, its checksum is wrong");
    *out = ticket;
    return TARN_OK;
}

tarn_status tarn__ticket_check_user(const struct tarn__ticket *ticket)
{
    if (ticket->user == (uint32_t)geteuid())
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "ipc: the handle belongs to user %u, this process to user %u",
                          ticket->user, (unsigned)geteuid());
}
