/* bits.h -- a set of small numbers that finds the next and the previous member. */
#ifndef TARN_PLAN_BITS_H
#define TARN_PLAN_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARN__BITS_NONE UINT32_MAX

/* Bit i of a level tells whether word i of the level below has a bit. */
enum { TARN__BITS_LEVELS = 6 };

struct tarn__bits {
    uint64_t *levels[TARN__BITS_LEVELS]; /* [0] has the members; all are one allocation */
    unsigned level_count;
    size_t words; /* of all levels */
};

/* Create the empty set of numbers below `count`. false: no host memory. */
bool tarn__bits_init(struct tarn__bits *bits, size_t count);
void tarn__bits_free(struct tarn__bits *bits);
void tarn__bits_clear(struct tarn__bits *bits);

void tarn__bits_add(struct tarn__bits *bits, uint32_t member);
void tarn__bits_remove(struct tarn__bits *bits, uint32_t member);
/* The least member of at least `from`, which is below `count`; or TARN__BITS_NONE. */
uint32_t tarn__bits_next(const struct tarn__bits *bits, uint32_t from);
/* The greatest member of at most `from`, which is below `count`; or TARN__BITS_NONE. */
uint32_t tarn__bits_previous(const struct tarn__bits *bits, uint32_t from);

static inline bool tarn__bits_has(const struct tarn__bits *bits, uint32_t member)
{
    return bits->levels[0][member / 64] >> member % 64 & 1;
}

#endif
