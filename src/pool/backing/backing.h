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

/* State of a mapped handle. From TARN__PAGE_RETIRING on, the caller takes its addresses
 * for an unmapped range. */
enum tarn__page_state {
    TARN__PAGE_IN_USE = 0,
    /* The pool is suspended, and the driver failed to unmap the handle. */
    TARN__PAGE_UNMAP_FAILED,
    /* Its memory moved; the handle is unmapped once the work that uses it is done. */
    TARN__PAGE_RETIRING,
    /* Its memory moved and no work uses it; the handle is unmapped when necessary. */
    TARN__PAGE_RETIRED,
    /* It should be unmapped, and the driver failed to do that. */
    TARN__PAGE_ABANDONED
};

/* State of one page of the range. All fields are zero where no memory ever was. A handle
 * is an allocation of cuMemCreate, a physical handle range of whole pages. The pool does
 * not keep its number: it releases the handle once it is mapped, so that unmapping frees
 * the memory. */
struct tarn__page {
    uint32_t first; /* number of the handle's first page, plus 1; 0: an unmapped range */
    /* All other fields are set in the first page of a handle alone. */
    /* number of another first page where the same memory is mapped, plus 1, in a ring
     * (vmm_alias.c); 0: there is no other mapping */
    uint32_t next;
    uint8_t count; /* its pages */
    uint8_t state; /* enum tarn__page_state */
};
static_assert(TARN__HANDLE_BYTES_MAX / TARN__PAGE_BYTES <= UINT8_MAX, "count");

/* Return true if the caller takes the addresses for an unmapped range. */
static inline bool tarn__backing_is_hidden(const struct tarn__page *page)
{
    return page->state >= TARN__PAGE_RETIRING;
}

/* Return true if the driver failed to unmap it. */
static inline bool tarn__backing_unmap_failed(const struct tarn__page *page)
{
    return page->state == TARN__PAGE_UNMAP_FAILED || page->state == TARN__PAGE_ABANDONED;
}

/* Bytes of live blocks while the pool is suspended. */
struct tarn__kept {
    void *memory; /* page-locked; NULL: nothing is kept */
    struct tarn__span *spans;
    size_t count;
    uint64_t context_generation; /* generation of the context; `memory` ends with it */
};

struct tarn__vmm {
    atomic_ullong *driver_calls; /* the count of its pages */
    struct tarn__span range;
    struct tarn__page *table; /* one a page of the range; reserved, used where touched */
    size_t page_count;
    size_t low, high;          /* every page that was ever mapped lies in [low, high) */
    size_t unmap_failed_count; /* handles that tarn__backing_unmap_failed() */
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
    uint64_t opened_ns;    /* time at which it was opened (base/clock.h) */
    size_t growth_bytes;   /* 0: by the pool's size */
    atomic_bool is_tight;  /* new handles are small */
    size_t block_bytes;    /* of the block that memory is obtained for; 0: none */
    bool is_large;         /* new handles are large */
    atomic_bool is_single; /* new handles are pages */
    atomic_size_t reserved, suspended, metadata;
    atomic_size_t most; /* that the pool may have; 0: not set */
    atomic_bool is_suspended;
    /* driver calls that obtain, map and release memory; those of tarn__pages_note_call() */
    atomic_ullong own_calls, noted_calls;
    /* generation of the device's context at the start; 0: no device */
    uint64_t context_generation;
    /* 256 bytes of cuMemAlloc for a device-wide wait when memory is exhausted */
    CUdeviceptr_ reserve_block;
    struct tarn__vmm vmm;
    struct tarn__segments segments;
};

/* Evaluate to a driver call, and count it. */
#define TARN__COUNTED(vmm, call) \
    (atomic_fetch_add_explicit((vmm)->driver_calls, 1, memory_order_relaxed), (call))

/* Enter a scope in which calls invalidate no capture. Fails where the process ends or was
 * forked, and where the context was destroyed: the pool ends with it. */
tarn_status tarn__backing_enter(const struct tarn__pages *pages, struct tarn__scope *out);

#endif
