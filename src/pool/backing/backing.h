/* backing.h -- what the files of pages.h share: VMM, segments, and the state of
 * each.
 */
#ifndef TARN_POOL_PAGES_INSIDE_H
#define TARN_POOL_PAGES_INSIDE_H

#include "driver/driver.h"
#include "pool/backing/pages.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TARN__ACCESS_MAX = 64 }; /* devices that can have access to one pool */

/* State of one page of the range. All fields are zero where no memory ever was. A handle
 * is an allocation of cuMemCreate, a physical handle range of whole pages. The pool does
 * not keep its number: it releases the handle once it is mapped, so that unmapping frees
 * the memory. */
struct tarn__page {
    uint32_t first; /* number of the handle's first page, plus 1; 0: an unmapped range */
    /* All other fields are set in the first page of a handle alone. */
    /* number of another first page where the same memory is mapped, plus 1, in a ring
     * (pages_places.c); 0: there is no other mapping */
    uint32_t next;
    uint8_t count; /* its pages */
    uint8_t
        unmap_failed; /* unmapping failed: it is mapped and should not be, see sweep() */
    uint8_t retired;  /* retired: it is mapped and need not be, as its memory moved */
    /* Not client-visible: the caller takes it for an unmapped range. If it is neither
     * stuck nor left, the page is retiring: it is unmapped once the work that uses it is
     * done. */
    uint8_t hidden;
};
static_assert(TARN__HANDLE_BYTES_MAX / TARN__PAGE_BYTES <= UINT8_MAX, "count");

/* Bytes of live blocks while the pool is suspended. */
struct tarn__kept {
    void *memory; /* page-locked; NULL: nothing is kept */
    struct tarn__span *spans;
    size_t count;
    uint64_t context_generation; /* generation of the context; `memory` ends with it */
};

struct tarn__vmm {
    struct tarn__span range;
    struct tarn__page *table; /* one a page of the range; reserved, used where touched */
    size_t page_count;
    size_t low, high;          /* every page that was ever mapped lies in [low, high) */
    size_t unmap_failed_count; /* entries of the table with `stuck` */
    size_t device_bytes;
    CUmemAllocationProp_ properties;
    CUmemAccessDesc_ access[TARN__ACCESS_MAX]; /* the first is the pool's device */
    size_t access_count;
    struct tarn__kept kept;
};

/* A block of the upstream. */
struct tarn__segment {
    struct tarn__span span;
    size_t alignment; /* as requested */
    uint64_t
        context_generation; /* generation of the context at that time; 0: there was none */
};

struct tarn__segments {
    tarn_resource *upstream;    /* retained */
    pthread_mutex_t lock;       /* guards the list; no call is made under it */
    struct tarn__segment *list; /* by address */
    size_t count, capacity;
    atomic_bool requests_aligned; /* the upstream does not align by itself */
};

struct tarn__pages {
    int device; /* TARN_DEVICE_NONE: the upstream belongs to no device */
    bool is_vmm;
    size_t growth_bytes; /* 0: by the pool's size */
    atomic_size_t reserved, suspended, metadata;
    atomic_size_t most; /* that the pool may have; 0: not set */
    atomic_bool is_suspended;
    /* generation of the device's context at the start; 0: no device */
    uint64_t context_generation;
    /* 256 bytes of cuMemAlloc for a device-wide wait when memory is exhausted */
    CUdeviceptr_ reserve_block;
    struct tarn__vmm vmm;
    struct tarn__segments segments;
};

/* Enter a scope in which calls end no capture. Fails where the process ends or was
 * forked, and where the context was destroyed: the pool ends with it. */
tarn_status tarn__pages_enter(const struct tarn__pages *pages, struct tarn__scope *out);

/* --- pages_vmm.c: the functions of pages.h for VMM */
tarn_status tarn__vmm_is_supported(int device, bool *out);
tarn_status tarn__vmm_open(struct tarn__pages *pages);
void tarn__vmm_close(struct tarn__pages *pages);
tarn_status tarn__vmm_grow(struct tarn__pages *pages, struct tarn__span span);
struct tarn__span tarn__vmm_removable(const struct tarn__vmm *vmm,
                                      struct tarn__span idle);
struct tarn__span tarn__vmm_first(const struct tarn__vmm *vmm, struct tarn__span span,
                                  size_t bytes);
struct tarn__span tarn__vmm_handle_at(const struct tarn__vmm *vmm, uint64_t address);
unsigned tarn__vmm_count(const struct tarn__vmm *vmm, struct tarn__span span);
tarn_status tarn__vmm_remove(struct tarn__pages *pages, struct tarn__span span);

/* Check that `span` is an unmapped range that may get memory now. Pages in it whose
 * unmapping failed are unmapped. In a scope. */
tarn_status tarn__vmm_check_unmapped(struct tarn__pages *pages,
                                     const struct tarn__calls *calls,
                                     struct tarn__span span);
/* Check that the span is whole handles without an unmapped range between them. */
tarn_status tarn__vmm_check_handles(const struct tarn__vmm *vmm, struct tarn__span span);

/* --- pages_move.c, pages_peer.c */
tarn_status tarn__vmm_move(struct tarn__pages *pages, const struct tarn__span *spans,
                           size_t count, size_t done, uint64_t at);
tarn_status tarn__vmm_set_peer(struct tarn__pages *pages, int peer, bool access);

/* --- pages_map.c: the steps beneath these, in a scope */

/* Visit handles, or runs (handles without an unmapped range between them), by address.
 * Start with *cursor = 0, or the number of a first page; false at the end. Stuck memory
 * that the caller takes for an unmapped range is not visited. */
bool tarn__vmm_next_handle(const struct tarn__vmm *vmm, size_t *cursor,
                           struct tarn__span *out);
bool tarn__vmm_next_run(const struct tarn__vmm *vmm, size_t *cursor,
                        struct tarn__span *out);

size_t tarn__vmm_page(const struct tarn__vmm *vmm, uint64_t address);
/* Return the page behind a span's last one; and pages [first, end) as a span. */
size_t tarn__vmm_end_page(const struct tarn__vmm *vmm, struct tarn__span span);
struct tarn__span tarn__vmm_span(const struct tarn__vmm *vmm, size_t first, size_t end);

/* Return true if these are whole pages of the range; and if none of them is in use. */
bool tarn__vmm_holds(const struct tarn__vmm *vmm, struct tarn__span span);
bool tarn__vmm_is_unmapped(const struct tarn__vmm *vmm, struct tarn__span span);

/* Enter a handle into the table; and remove all of a span. */
void tarn__vmm_note(struct tarn__pages *pages, struct tarn__span handle);
void tarn__vmm_forget(struct tarn__vmm *vmm, struct tarn__span span);

/* Map new physical memory at `span`, without access. */
tarn_status tarn__vmm_map_new(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                              struct tarn__span span);
/* Map memory that exists already, at `from`, at `span` as well. */
tarn_status tarn__vmm_map_again(const struct tarn__calls *calls, uint64_t from,
                                struct tarn__span span);
/* Grant access to the device and its peers. */
tarn_status tarn__vmm_allow(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                            struct tarn__span span);

/* Unmap whole handles; a failure is tried again once. */
CUresult_ tarn__vmm_unmap(const struct tarn__calls *calls, struct tarn__span span);

/* Unmap whole handles of the table for an undo that cannot fail. Memory that the driver
 * keeps mapped is noted as stuck. `unknown`: the caller takes the span for an unmapped
 * range, so the rest is removed from the table. */
void tarn__vmm_undo(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                    struct tarn__span span, bool hidden);

/* Note that the handles of a span moved; they stay mapped here until the caller
 * leaves. */
void tarn__vmm_retire(struct tarn__vmm *vmm, struct tarn__span span);
/* End all retiring mappings: no work is queued any more. */
void tarn__vmm_end_retiring(struct tarn__vmm *vmm);

/* --- pages_places.c: memory with several mappings (aliases); in a scope, but for those
 * that take no calls */

/* Note that the handle at `to` is the memory of the one at `from`; and that the handle
 * that begins at page `page` is no mapping of it any more. */
void tarn__aliases_add(struct tarn__vmm *vmm, uint64_t from, uint64_t to);
void tarn__aliases_remove(struct tarn__vmm *vmm, size_t page);

/* Turn the handles of `span`, which moved and which no work uses here, into unmapped
 * ranges. */
void tarn__aliases_retire(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                          struct tarn__span span);
/* Unmap the retired mappings in this unmapped range, or in the whole range, before other
 * memory comes there. Memory that the driver keeps mapped is stuck. */
void tarn__aliases_unmap_in(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                            struct tarn__span span);
void tarn__aliases_unmap_all(struct tarn__vmm *vmm, const struct tarn__calls *calls);
/* Note that each retiring mapping is to be unmapped once it is left. */
void tarn__aliases_remove_retiring(struct tarn__vmm *vmm);
/* Unmap the retired mappings of the memory of `span`, which is to be released. On failure
 * the memory that is still mapped stays retired as before. */
CUresult_ tarn__aliases_unmap_of(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                                 struct tarn__span span);

/* Return true if any of it is mapped though it should not be. */
bool tarn__vmm_unmap_failed(const struct tarn__vmm *vmm, struct tarn__span span);

/* Unmap stuck memory; memory that stays stuck stays noted. */
void tarn__vmm_sweep(struct tarn__vmm *vmm, const struct tarn__calls *calls);

/* --- pages_sleep.c */
tarn_status tarn__vmm_suspend(struct tarn__pages *pages, const struct tarn__span *kept,
                              size_t count);
tarn_status tarn__vmm_resume(struct tarn__pages *pages);
/* Drop the kept bytes. In a scope. */
void tarn__vmm_drop_kept(struct tarn__vmm *vmm, const struct tarn__scope *scope);

/* --- pages_segments.c */
tarn_status tarn__segments_open(struct tarn__pages *pages, tarn_resource *upstream);
void tarn__segments_close(struct tarn__pages *pages);
tarn_status tarn__segments_grow(struct tarn__pages *pages, size_t bytes,
                                tarn_stream stream, struct tarn__span *out);
struct tarn__span tarn__segments_removable(const struct tarn__pages *pages,
                                           struct tarn__span idle);
tarn_status tarn__segments_remove(struct tarn__pages *pages, struct tarn__span span);

#endif
