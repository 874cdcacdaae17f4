/* vmm_table.c -- the table of the pages in a pool's range.
 *
 * The mappings of a handle form a ring through the table.
 */
#include "pool/backing/vmm_table.h"

size_t tarn__vmm_table_page(const struct tarn__vmm *vmm, uint64_t address)
{
    return (size_t)(address - vmm->range.address) / TARN__PAGE_BYTES;
}

size_t tarn__vmm_table_end_page(const struct tarn__vmm *vmm, struct tarn__span span)
{
    return tarn__vmm_table_page(vmm, span.address) + span.bytes / TARN__PAGE_BYTES;
}

struct tarn__span tarn__vmm_table_span(const struct tarn__vmm *vmm, size_t first,
                                       size_t end)
{
    return (struct tarn__span){vmm->range.address + first * TARN__PAGE_BYTES,
                               (end - first) * TARN__PAGE_BYTES};
}

bool tarn__vmm_table_holds(const struct tarn__vmm *vmm, struct tarn__span span)
{
    uint64_t offset = span.address - vmm->range.address;

    return span.bytes > 0 && (offset | span.bytes) % TARN__PAGE_BYTES == 0 &&
           offset < vmm->range.bytes && span.bytes <= vmm->range.bytes - offset;
}

bool tarn__vmm_table_is_unmapped(const struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t end = tarn__vmm_table_end_page(vmm, span);

    for (size_t i = tarn__vmm_table_page(vmm, span.address); i < end; i++)
        if (vmm->table[i].first != 0)
            return false;
    return true;
}

bool tarn__vmm_table_has_failed(const struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t end = tarn__vmm_table_end_page(vmm, span);

    for (size_t i = tarn__vmm_table_page(vmm, span.address); i < end; i++)
        if (tarn__backing_unmap_failed(&vmm->table[i]))
            return true;
    return false;
}

bool tarn__vmm_table_next_handle(const struct tarn__vmm *vmm, size_t *cursor,
                                 struct tarn__span *out)
{
    size_t page = *cursor < vmm->low ? vmm->low : *cursor;

    for (; page < vmm->high; page++) {
        const struct tarn__page *entry = &vmm->table[page];
        if (entry->first != page + 1 || tarn__backing_is_hidden(entry))
            continue;
        *out = tarn__vmm_table_span(vmm, page, page + entry->count);
        *cursor = page + entry->count;
        return true;
    }
    return false;
}

bool tarn__vmm_table_next_run(const struct tarn__vmm *vmm, size_t *cursor,
                              struct tarn__span *out)
{
    struct tarn__span run, handle;

    if (!tarn__vmm_table_next_handle(vmm, cursor, &run))
        return false;
    for (size_t after = *cursor; tarn__vmm_table_next_handle(vmm, &after, &handle) &&
                                 handle.address == run.address + run.bytes;
         *cursor = after)
        run.bytes += handle.bytes;
    *out = run;
    return true;
}

void tarn__vmm_table_add(struct tarn__pages *pages, struct tarn__span handle)
{
    struct tarn__vmm *vmm = &pages->vmm;
    size_t first = tarn__vmm_table_page(vmm, handle.address);
    size_t end = tarn__vmm_table_end_page(vmm, handle);

    for (size_t i = first; i < end; i++)
        vmm->table[i] = (struct tarn__page){.first = (uint32_t)first + 1};
    vmm->table[first].count = (uint8_t)(end - first);
    if (vmm->high == 0 || first < vmm->low)
        vmm->low = first;
    if (end > vmm->high)
        vmm->high = end;
    atomic_store(&pages->metadata,
                 sizeof *pages + (vmm->high - vmm->low) * sizeof *vmm->table);
}

void tarn__vmm_table_link(struct tarn__vmm *vmm, uint64_t from, uint64_t to)
{
    size_t one = tarn__vmm_table_page(vmm, from), other = tarn__vmm_table_page(vmm, to);

    vmm->table[other].next = (uint32_t)tarn__vmm_table_next_alias(vmm, one) + 1;
    vmm->table[one].next = (uint32_t)other + 1;
}

void tarn__vmm_table_unlink(struct tarn__vmm *vmm, size_t page)
{
    size_t after = tarn__vmm_table_next_alias(vmm, page), before = page;

    while (tarn__vmm_table_next_alias(vmm, before) != page)
        before = tarn__vmm_table_next_alias(vmm, before);
    vmm->table[before].next = after == before ? 0 : (uint32_t)after + 1;
    vmm->table[page].next = 0;
}

void tarn__vmm_table_remove(struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t end = tarn__vmm_table_end_page(vmm, span);

    for (size_t i = tarn__vmm_table_page(vmm, span.address); i < end; i++) {
        if (tarn__backing_unmap_failed(&vmm->table[i]))
            vmm->unmap_failed_count--;
        if (vmm->table[i].next)
            tarn__vmm_table_unlink(vmm, i);
        vmm->table[i] = (struct tarn__page){0};
    }
}

void tarn__vmm_table_retire(struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t page = tarn__vmm_table_page(vmm, span.address);
    size_t end = tarn__vmm_table_end_page(vmm, span);

    for (; page < end; page += vmm->table[page].count)
        vmm->table[page].state = TARN__PAGE_RETIRING;
}

void tarn__vmm_table_end_retiring(struct tarn__vmm *vmm)
{
    for (size_t page = vmm->low; page < vmm->high; page++)
        if (tarn__backing_is_hidden(&vmm->table[page]) &&
            vmm->table[page].state != TARN__PAGE_ABANDONED) {
            vmm->table[page].state = TARN__PAGE_ABANDONED;
            vmm->unmap_failed_count++;
        }
}
