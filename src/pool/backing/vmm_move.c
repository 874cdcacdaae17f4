/* vmm_move.c -- moving reclaimable memory to where it is needed.
 *
 * Physical memory may be mapped twice. So the pool maps it at its new place first, and
 * then drops the old one. Until the first step is done, an undo leaves everything as it
 * was; after that nothing can be lost. The old place is an unmapped range for the caller
 * at once, though it stays mapped (vmm_alias.c). Where queued work may still use the
 * old place, that happens when the work is done. Work that is ordered after it sees the
 * same bytes at the new place.
 */
#include "pool/backing/vmm_move.h"
#include "pool/backing/vmm.h"
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_map.h"
#include "pool/backing/vmm_table.h"

/* Map the handles of `span` at `at` as well. `*done_out`: the bytes that were mapped. */
static tarn_status map_span(struct tarn__pages *pages, const struct tarn__calls *calls,
                            struct tarn__span span, uint64_t at, size_t *done_out)
{
    struct tarn__vmm *vmm = &pages->vmm;
    size_t cursor = tarn__vmm_table_page(vmm, span.address);
    tarn_status status = TARN_OK;

    for (size_t done = 0; done < span.bytes && status == TARN_OK;) {
        struct tarn__span handle;
        tarn__vmm_table_next_handle(vmm, &cursor, &handle);
        struct tarn__span target = {at + done, handle.bytes};
        status = tarn__vmm_map_again(vmm, calls, handle.address, target);
        if (status != TARN_OK)
            break;
        tarn__vmm_table_add(pages, target);
        tarn__vmm_table_link(vmm, handle.address, target.address);
        done += handle.bytes;
        *done_out += handle.bytes;
    }
    return status;
}

static tarn_status map_all(struct tarn__pages *pages, const struct tarn__calls *calls,
                           const struct tarn__span *spans, size_t count, uint64_t at,
                           size_t *done_out)
{
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < count && status == TARN_OK; i++)
        status = map_span(pages, calls, spans[i], at + *done_out, done_out);
    return status;
}

static tarn_status check_sources(const struct tarn__vmm *vmm,
                                 const struct tarn__span *spans, size_t count,
                                 size_t *bytes_out)
{
    tarn_status status = TARN_OK;

    *bytes_out = 0;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        status = tarn__vmm_check_handles(vmm, spans[i]);
        *bytes_out += spans[i].bytes;
    }
    return status;
}

/* In a scope. */
static tarn_status move(struct tarn__pages *pages, const struct tarn__calls *calls,
                        const struct tarn__span *spans, size_t count, size_t unused,
                        struct tarn__span target)
{
    size_t done = 0;
    tarn_status status = tarn__vmm_check_unmapped(pages, calls, target);

    if (status != TARN_OK)
        return status;
    status = map_all(pages, calls, spans, count, target.address, &done);
    if (status == TARN_OK)
        status = tarn__vmm_map_set_access(&pages->vmm, calls, target);
    if (status != TARN_OK) {
        tarn__vmm_map_undo(&pages->vmm, calls, (struct tarn__span){target.address, done},
                           true);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        if (i < unused)
            tarn__vmm_alias_retire(&pages->vmm, calls, spans[i]);
        else
            tarn__vmm_table_retire(&pages->vmm, spans[i]);
    return TARN_OK;
}

tarn_status tarn__vmm_move(struct tarn__pages *pages, const struct tarn__span *spans,
                           size_t count, size_t done, uint64_t at)
{
    struct tarn__span target = {.address = at};
    struct tarn__scope scope;
    tarn_status status = check_sources(&pages->vmm, spans, count, &target.bytes);

    if (status == TARN_OK)
        status = tarn__backing_enter(pages, &scope);
    if (status != TARN_OK)
        return status;
    status = move(pages, scope.calls, spans, count, done, target);
    tarn__scope_leave(&scope);
    return status;
}
