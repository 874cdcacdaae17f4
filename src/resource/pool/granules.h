/* granules.h -- from the first address of a block to its node.
 *
 * Addresses have 48 bits: 14 choose a table, 13 a page of 2 MiB in it, 6 a part of 32 KiB
 * in that, 6 a granule. A page knows the one block that starts in it, or, once there is a
 * second, has an entry for each of its parts; a part does the same with its granules. So
 * what blocks of a few megabytes take is little, and little has to be cleared when one
 * starts in a page for the first time. Read without a lock at every free, so tables only
 * ever come.
 */
#ifndef TARN_POOL_GRANULES_H
#define TARN_POOL_GRANULES_H

#include "resource/pool/node.h"

enum {
    TARN__PAGE_SHIFT = 21,
    TARN__PART_SHIFT = 15,
    TARN__TABLE_SHIFT = 13,
    TARN__TABLES = 1 << (48 - TARN__PAGE_SHIFT - TARN__TABLE_SHIFT),
    TARN__TABLE_PAGES = 1 << TARN__TABLE_SHIFT,
    TARN__PAGE_PARTS = 1 << (TARN__PAGE_SHIFT - TARN__PART_SHIFT),
    TARN__PART_GRANULES = 1 << (TARN__PART_SHIFT - TARN__GRANULE_SHIFT)
};

/* The block that starts here, while no second one does. */
struct tarn__granule_only {
    _Atomic uint32_t index; /* 0: none */
    uint32_t where;         /* the granule of the page that it starts at */
};

struct tarn__granule_part {
    _Atomic(_Atomic uint32_t *) granules; /* NULL: at most one block starts here */
    struct tarn__granule_only only;
};

struct tarn__granule_page {
    _Atomic(struct tarn__granule_part *) parts; /* NULL: at most one block starts here */
    struct tarn__granule_only only;
};

struct tarn__granules {
    _Atomic(struct tarn__granule_page *) tables[TARN__TABLES];
    size_t metadata; /* bytes of tables, parts and granules */
};

/* Make room for blocks that start at `one` and at `other` (multiples of the granule, below
 * 2^48; they may be the same), so that setting them cannot fail. False: no host memory.
 * Locked by the owner. */
bool tarn__granules_reserve(struct tarn__granules *granules, uint64_t one,
                            uint64_t other);
/* Enter `index`, or 0 to take out what starts there. Locked by the owner. */
void tarn__granules_set(struct tarn__granules *granules, uint64_t address,
                        tarn__index index);
void tarn__granules_free(struct tarn__granules *granules);

/* The node of what may start at `address`; it has to be compared with the node's own
 * address. 0: nothing. Any thread, no lock. */
static inline tarn__index tarn__granules_get(const struct tarn__granules *granules,
                                             uint64_t address)
{
    uint64_t page_number = address >> TARN__PAGE_SHIFT;

    if (address >> 48 || (address & (TARN__GRANULE - 1)))
        return 0;
    const struct tarn__granule_page *table = atomic_load_explicit(
        &granules->tables[page_number >> TARN__TABLE_SHIFT], memory_order_acquire);
    if (!table)
        return 0;
    const struct tarn__granule_page *page = &table[page_number & (TARN__TABLE_PAGES - 1)];
    const struct tarn__granule_part *parts =
        atomic_load_explicit(&page->parts, memory_order_acquire);
    if (!parts)
        return atomic_load_explicit(&page->only.index, memory_order_acquire);
    const struct tarn__granule_part *part =
        &parts[(address >> TARN__PART_SHIFT) & (TARN__PAGE_PARTS - 1)];
    const _Atomic uint32_t *all =
        atomic_load_explicit(&part->granules, memory_order_acquire);
    const _Atomic uint32_t *entry =
        all ? &all[(address >> TARN__GRANULE_SHIFT) & (TARN__PART_GRANULES - 1)]
            : &part->only.index;
    return atomic_load_explicit(entry, memory_order_acquire);
}

#endif
