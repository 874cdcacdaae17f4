/* bits.c -- a set of small numbers: words of 64 bits, with a summary above them. */
#include "plan/bits.h"
#include <stdlib.h>
#include <string.h>

static size_t words_for(size_t count)
{
    return (count + 63) / 64;
}

bool tarn__bits_init(struct tarn__bits *bits, size_t count)
{
    size_t sizes[TARN__BITS_LEVELS], words = 0;
    unsigned levels = 0;

    do {
        count = words_for(count ? count : 1);
        sizes[levels++] = count;
        words += count;
    } while (count > 1 && levels < TARN__BITS_LEVELS);
    uint64_t *at = calloc(words, sizeof *at);
    *bits = (struct tarn__bits){.level_count = levels, .words = words};
    if (!at)
        return false;
    for (unsigned level = 0; level < levels; level++) {
        bits->levels[level] = at;
        at += sizes[level];
    }
    return true;
}

void tarn__bits_free(struct tarn__bits *bits)
{
    free(bits->levels[0]);
    *bits = (struct tarn__bits){.levels = {NULL}};
}

void tarn__bits_clear(struct tarn__bits *bits)
{
    memset(bits->levels[0], 0, bits->words * sizeof *bits->levels[0]);
}

void tarn__bits_add(struct tarn__bits *bits, uint32_t member)
{
    for (unsigned level = 0; level < bits->level_count; level++, member /= 64) {
        uint64_t *word = &bits->levels[level][member / 64];
        uint64_t before = *word;
        *word |= (uint64_t)1 << member % 64;
        if (before)
            return;
    }
}

void tarn__bits_remove(struct tarn__bits *bits, uint32_t member)
{
    for (unsigned level = 0; level < bits->level_count; level++, member /= 64) {
        uint64_t *word = &bits->levels[level][member / 64];
        *word &= ~((uint64_t)1 << member % 64);
        if (*word)
            return;
    }
}

/* Follow the first or the last bits down from a bit of `level`. */
static uint32_t descend(const struct tarn__bits *bits, unsigned level, uint32_t at,
                        bool last)
{
    while (level-- > 0) {
        uint64_t word = bits->levels[level][at];
        at = at * 64 +
             (uint32_t)(last ? 63 - __builtin_clzll(word) : __builtin_ctzll(word));
    }
    return at;
}

uint32_t tarn__bits_next(const struct tarn__bits *bits, uint32_t from)
{
    for (unsigned level = 0; level < bits->level_count; level++) {
        uint64_t word = bits->levels[level][from / 64] & UINT64_MAX << from % 64;
        if (word)
            return descend(bits, level, from / 64 * 64 + (uint32_t)__builtin_ctzll(word),
                           false);
        from = from / 64 + 1; /* the word after this one, seen from the level above */
        if (level + 1 == bits->level_count ||
            &bits->levels[level][from] >= bits->levels[level + 1])
            break;
    }
    return TARN__BITS_NONE;
}

uint32_t tarn__bits_previous(const struct tarn__bits *bits, uint32_t from)
{
    for (unsigned level = 0; level < bits->level_count; level++) {
        uint64_t word = bits->levels[level][from / 64] & UINT64_MAX >> (63 - from % 64);
        if (word)
            return descend(bits, level,
                           from / 64 * 64 + 63 - (uint32_t)__builtin_clzll(word), true);
        if (from < 64)
            break;
        from = from / 64 - 1;
    }
    return TARN__BITS_NONE;
}
