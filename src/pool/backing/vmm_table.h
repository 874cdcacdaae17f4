/* vmm_table.h -- the table of the pages in a pool's range: queries and entries, without
 * driver calls. */
#ifndef TARN_POOL_VMM_TABLE_H
#define TARN_POOL_VMM_TABLE_H

#include "pool/backing/backing.h"

/* Visit handles, or runs (handles without an unmapped range between them), by address.
 * Start with *cursor = 0, or the number of a first page; false at the end. Memory whose
 * unmapping failed and that the caller takes for an unmapped range is not visited. */
bool tarn__vmm_table_next_handle(const struct tarn__vmm *vmm, size_t *cursor,
                                 struct tarn__span *out);
bool tarn__vmm_table_next_run(const struct tarn__vmm *vmm, size_t *cursor,
                              struct tarn__span *out);

size_t tarn__vmm_table_page(const struct tarn__vmm *vmm, uint64_t address);
/* Return the page behind a span's last one; and pages [first, end) as a span. */
size_t tarn__vmm_table_end_page(const struct tarn__vmm *vmm, struct tarn__span span);
struct tarn__span tarn__vmm_table_span(const struct tarn__vmm *vmm, size_t first,
                                       size_t end);

/* Return true if these are whole pages of the range; and if none of them is in use. */
bool tarn__vmm_table_holds(const struct tarn__vmm *vmm, struct tarn__span span);
bool tarn__vmm_table_is_unmapped(const struct tarn__vmm *vmm, struct tarn__span span);
/* Return true if any of it is mapped though it should not be. */
bool tarn__vmm_table_has_failed(const struct tarn__vmm *vmm, struct tarn__span span);

/* Enter a handle into the table; and remove all of a span. */
void tarn__vmm_table_add(struct tarn__pages *pages, struct tarn__span handle);
void tarn__vmm_table_remove(struct tarn__vmm *vmm, struct tarn__span span);

/* Note that the handles of a span moved; they stay mapped here until the caller
 * leaves. */
void tarn__vmm_table_retire(struct tarn__vmm *vmm, struct tarn__span span);
/* End all retiring mappings: no work is queued any more. */
void tarn__vmm_table_end_retiring(struct tarn__vmm *vmm);

/* Return the next page of the ring of mappings; `page` itself if it has only one. */
static inline size_t tarn__vmm_table_next_alias(const struct tarn__vmm *vmm, size_t page)
{
    return vmm->table[page].next ? vmm->table[page].next - 1 : page;
}

/* Note that the handle at `to` is the memory of the one at `from`; and that the handle
 * that begins at page `page` is no mapping of it any more. */
void tarn__vmm_table_link(struct tarn__vmm *vmm, uint64_t from, uint64_t to);
void tarn__vmm_table_unlink(struct tarn__vmm *vmm, size_t page);

#endif
