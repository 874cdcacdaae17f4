/* red_zone.c -- red zones: the bytes around and in a block that reveal misuse.
 *
 * A MemInfo with the flag RED_ZONE has 16 bytes or more between itself and its data. The
 * first 8 have the offset of the data, since any code can overwrite the MemInfo's own
 * field. All others are guard bytes. A guarded block has 16 guard bytes behind its
 * data. Raw memory has no front: a write before its data hits the header, whose state is
 * then invalid.
 *
 * The links of quarantine lie over the first bytes of raw memory, which are therefore not
 * checked.
 */
#include "nrt/red_zone.h"
#include "nrt/misuse.h"
#include <string.h>

enum { POISON_NEW = 0xCB, POISON_OLD = 0xDE, GUARD_BYTE = 0xFD };

#define FRONT_MAGIC UINT64_C(0x9d3f5a7714c2e86b)

static bool has_front(uint64_t word)
{
    return (TARN__FLAGS(word) & (TARN__MI | TARN__RED_ZONE)) ==
           (TARN__MI | TARN__RED_ZONE);
}

static char *front_of(struct tarn__block *block)
{
    return (char *)block + TARN__HEAD;
}

static void write_front(struct tarn__block *block, char *data)
{
    uint64_t place = (uint64_t)(data - (char *)block) ^ FRONT_MAGIC;
    char *front = front_of(block);

    memcpy(front, &place, sizeof place);
    memset(front + sizeof place, GUARD_BYTE, (size_t)(data - front) - sizeof place);
}

void tarn__red_zone_write(struct tarn__block *block, char *data)
{
    uint64_t word = tarn__block_word(block);

    if (has_front(word))
        write_front(block, data);
    if (TARN__FLAGS(word) & TARN__POISON)
        memset(data, POISON_NEW, block->bytes);
    if (TARN__FLAGS(word) & TARN__GUARD)
        memset(data + block->bytes, GUARD_BYTE, TARN__BACK);
}

char *tarn__red_zone_data(struct tarn__block *block)
{
    uint64_t word = tarn__block_word(block), place;

    /* a MemInfo without a front was raw memory (NRT_MemInfo_init) */
    if (!has_front(word))
        return (char *)block + TARN__HEADER;
    memcpy(&place, front_of(block), sizeof place);
    place ^= FRONT_MAGIC;
    return place >= TARN__HEAD + TARN__FRONT && place < UINT64_C(1) << 40
               ? (char *)block + place
               : NULL;
}

/* The number of these bytes that differ from the written pattern. */
static size_t count_damaged(const char *from, size_t bytes)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += (unsigned char)from[i] != GUARD_BYTE;
    return count;
}

void tarn__red_zone_check(tarn_runtime *runtime, struct tarn__block *block)
{
    char *data = tarn__red_zone_data(block);

    if (!(TARN__FLAGS(tarn__block_word(block)) & TARN__GUARD))
        return;
    size_t before = sizeof(uint64_t), after = 0;
    if (data) {
        bool front = has_front(tarn__block_word(block));
        char *guard = front_of(block) + sizeof(uint64_t);
        before = front ? count_damaged(guard, (size_t)(data - guard)) : 0;
        after = count_damaged(data + block->bytes, TARN__BACK);
    }
    if (before || after)
        tarn__misuse_report(
            runtime,
            "nrt: out-of-bounds write around a block of %zu bytes at %p of runtime %s: "
            "%zu red-zone bytes before its data and %zu after it changed",
            (size_t)block->bytes, (void *)data, runtime->name, before, after);
}

void tarn__red_zone_poison(struct tarn__block *block)
{
    char *data = tarn__red_zone_data(block);

    if (data && block->bytes)
        memset(data, POISON_OLD, block->bytes);
}

const void *tarn__red_zone_poison_changed(const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != POISON_OLD)
            return byte + i;
    return NULL;
}
