/* granules.c -- the tables from addresses to nodes. */
#include "resource/pool/granules.h"
#include <stdlib.h>

static struct tarn__granule_page *page_of(const struct tarn__granules *granules,
                                          uint64_t address)
{
    uint64_t number = address >> TARN__PAGE_SHIFT;
    struct tarn__granule_page *table = atomic_load_explicit(
        &granules->tables[number >> TARN__TABLE_SHIFT], memory_order_relaxed);

    return table ? &table[number & (TARN__TABLE_PAGES - 1)] : NULL;
}

/* The address's granule in its page. */
static uint32_t granule_of(uint64_t address)
{
    return (uint32_t)(address & ((1u << TARN__PAGE_SHIFT) - 1)) >> TARN__GRANULE_SHIFT;
}

static uint32_t part_of(uint32_t granule)
{
    return granule / TARN__PART_GRANULES;
}

static bool add_table(struct tarn__granules *granules, uint64_t address)
{
    struct tarn__granule_page *table = calloc(TARN__TABLE_PAGES, sizeof *table);

    if (!table)
        return false;
    granules->metadata += TARN__TABLE_PAGES * sizeof *table;
    atomic_store_explicit(
        &granules->tables[address >> (TARN__PAGE_SHIFT + TARN__TABLE_SHIFT)], table,
        memory_order_release);
    return true;
}

/* A second block comes to a page: from now on each part has an entry of its own. */
static bool add_parts(struct tarn__granules *granules, struct tarn__granule_page *page)
{
    struct tarn__granule_part *parts = calloc(TARN__PAGE_PARTS, sizeof *parts);

    if (!parts)
        return false;
    granules->metadata += TARN__PAGE_PARTS * sizeof *parts;
    struct tarn__granule_only *only = &parts[part_of(page->only.where)].only;
    only->where = page->only.where;
    atomic_store_explicit(&only->index,
                          atomic_load_explicit(&page->only.index, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&page->parts, parts, memory_order_release);
    return true;
}

/* And to a part, each of whose granules has one then. */
static bool add_granules(struct tarn__granules *granules, struct tarn__granule_part *part)
{
    _Atomic uint32_t *all = calloc(TARN__PART_GRANULES, sizeof *all);

    if (!all)
        return false;
    granules->metadata += TARN__PART_GRANULES * sizeof *all;
    atomic_store_explicit(&all[part->only.where % TARN__PART_GRANULES],
                          atomic_load_explicit(&part->only.index, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&part->granules, all, memory_order_release);
    return true;
}

static bool has_room(const struct tarn__granule_only *only, uint32_t granule)
{
    return only->where == granule ||
           atomic_load_explicit(&only->index, memory_order_relaxed) == 0;
}

/* Room for what starts at `one`, and for what starts at `other` in the same page or part,
 * if that is not the same. */
static bool reserve(struct tarn__granules *granules, uint64_t one, uint64_t other)
{
    bool page_has_two = one != other && (one ^ other) >> TARN__PAGE_SHIFT == 0;
    bool part_has_two = one != other && (one ^ other) >> TARN__PART_SHIFT == 0;
    uint32_t granule = granule_of(one);

    if (one >> 48 || (!page_of(granules, one) && !add_table(granules, one)))
        return false;
    struct tarn__granule_page *page = page_of(granules, one);
    struct tarn__granule_part *parts =
        atomic_load_explicit(&page->parts, memory_order_relaxed);
    if (!parts && !page_has_two && has_room(&page->only, granule))
        return true;
    if (!parts && !add_parts(granules, page))
        return false;
    struct tarn__granule_part *part =
        &atomic_load_explicit(&page->parts, memory_order_relaxed)[part_of(granule)];
    return atomic_load_explicit(&part->granules, memory_order_relaxed) ||
           (!part_has_two && has_room(&part->only, granule)) ||
           add_granules(granules, part);
}

bool tarn__granules_reserve(struct tarn__granules *granules, uint64_t one, uint64_t other)
{
    return reserve(granules, one, other) &&
           (one == other || reserve(granules, other, one));
}

static void set_only(struct tarn__granule_only *only, uint32_t granule, tarn__index index)
{
    only->where = granule;
    atomic_store_explicit(&only->index, index, memory_order_release);
}

void tarn__granules_set(struct tarn__granules *granules, uint64_t address,
                        tarn__index index)
{
    struct tarn__granule_page *page = page_of(granules, address);
    struct tarn__granule_part *parts =
        atomic_load_explicit(&page->parts, memory_order_relaxed);
    uint32_t granule = granule_of(address);

    if (!parts) {
        set_only(&page->only, granule, index);
        return;
    }
    struct tarn__granule_part *part = &parts[part_of(granule)];
    _Atomic uint32_t *all = atomic_load_explicit(&part->granules, memory_order_relaxed);
    if (all)
        atomic_store_explicit(&all[granule % TARN__PART_GRANULES], index,
                              memory_order_release);
    else
        set_only(&part->only, granule, index);
}

static void free_page(struct tarn__granule_page *page)
{
    struct tarn__granule_part *parts = atomic_load(&page->parts);

    for (size_t i = 0; parts && i < TARN__PAGE_PARTS; i++)
        free(atomic_load(&parts[i].granules));
    free(parts);
}

void tarn__granules_free(struct tarn__granules *granules)
{
    for (size_t i = 0; i < TARN__TABLES; i++) {
        struct tarn__granule_page *table = atomic_load(&granules->tables[i]);
        for (size_t j = 0; table && j < TARN__TABLE_PAGES; j++)
            free_page(&table[j]);
        free(table);
    }
}
