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

static size_t granule_of(uint64_t address)
{
    return (address >> TARN__GRANULE_SHIFT) & (TARN__PAGE_GRANULES - 1);
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

/* A second block comes to a page: from now on each granule has an entry of its own. */
static bool add_granules(struct tarn__granules *granules, struct tarn__granule_page *page)
{
    _Atomic uint32_t *all = calloc(TARN__PAGE_GRANULES, sizeof *all);

    if (!all)
        return false;
    granules->metadata += TARN__PAGE_GRANULES * sizeof *all;
    atomic_store_explicit(&all[page->where], atomic_load(&page->only),
                          memory_order_relaxed);
    atomic_store_explicit(&page->granules, all, memory_order_release);
    return true;
}

/* Room for one start in its page, which may be asked to hold a `second` one as well. */
static bool reserve(struct tarn__granules *granules, uint64_t address, bool second)
{
    if (address >> 48 || (!page_of(granules, address) && !add_table(granules, address)))
        return false;
    struct tarn__granule_page *page = page_of(granules, address);
    if (atomic_load_explicit(&page->granules, memory_order_relaxed))
        return true;
    bool is_free = atomic_load_explicit(&page->only, memory_order_relaxed) == 0 ||
                   page->where == granule_of(address);
    return (is_free && !second) || add_granules(granules, page);
}

bool tarn__granules_reserve(struct tarn__granules *granules, uint64_t one, uint64_t other)
{
    bool one_page = one >> TARN__PAGE_SHIFT == other >> TARN__PAGE_SHIFT;

    return reserve(granules, one, one_page && one != other) &&
           reserve(granules, other, false);
}

void tarn__granules_set(struct tarn__granules *granules, uint64_t address,
                        tarn__index index)
{
    struct tarn__granule_page *page = page_of(granules, address);
    _Atomic uint32_t *all = atomic_load_explicit(&page->granules, memory_order_relaxed);

    if (all) {
        atomic_store_explicit(&all[granule_of(address)], index, memory_order_release);
        return;
    }
    page->where = (uint32_t)granule_of(address);
    atomic_store_explicit(&page->only, index, memory_order_release);
}

void tarn__granules_free(struct tarn__granules *granules)
{
    for (size_t i = 0; i < TARN__TABLES; i++) {
        struct tarn__granule_page *table = atomic_load(&granules->tables[i]);
        for (size_t j = 0; table && j < TARN__TABLE_PAGES; j++)
            free(atomic_load(&table[j].granules));
        free(table);
    }
}
