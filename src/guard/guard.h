/* guard.h -- a guard: its blocks, its quarantine and its checks.
 *
 * A guarded block is larger than requested:
 *
 *     base                address            address + bytes        base + base_bytes
 *      | filler | red zone | the caller's bytes | red zone            |
 *                 front                           back
 *
 * The filler is there for large alignments alone. `front` is 256 more than a multiple of
 * 512, so that the address of a sample has TARN__INTERCEPT_MARK.
 *
 * Life of a block:
 *
 *   1. Allocation. The red zones are filled on the stream of the allocation, and an event
 *      is recorded behind that. Without a stream they are filled on a stream that has no
 *      other work, and the call waits for it. The block is in `blocks`.
 *   2. Free. The stream of the free waits for that event, copies the red zones to pinned
 *      memory, and fills the block with poison. Without a quarantine the resource gets the
 *      block now, on the same stream.
 *   3. Quarantine. The block is in `freed`, by its address, and in `quarantine`, by its
 *      age. An event on the stream of the free covers the poison.
 *   4. End of the quarantine, when younger blocks need its bytes. The guard's own stream
 *      waits for that event and copies the red zones and the poison. The resource gets the
 *      block on the guard's own stream.
 *
 * A free without a stream is ordered by no event. Such blocks are in `freed` and in
 * `unordered`. When there are many, one wait for the device covers all of them; then the
 * guard's own stream does the work of step 2.
 *
 * With samples, small blocks are slots: blocks of the resource that the guard keeps. The red
 * zones of a free slot are filled, and the fill is complete. So steps 1 and 2 need no call
 * of the driver:
 *
 *   1. Allocation. The block is a free slot (slot_sets.h). Without one it is a block as above.
 *      Slots are in neither of the two tables.
 *   2. Free. The slot joins the open batch of its stream (slot_frees.h). An event covers a
 *      batch of 64 frees. Poison is filled at each free.
 *   3. When the event is complete, and the quarantine is over, the guard's own stream
 *      copies the slots of the batch and fills them. Adjacent slots need one copy and one
 *      fill.
 *   4. When these are complete, the copies are compared, and the slots are free again.
 *
 * A copy of red zones is a check. It waits in `checks` for its event. Calls of the guard
 * query a few events and compare what has arrived. Nothing else waits.
 *
 * Invariants:
 *
 *   - The fill is always before the copy: by one stream, or by an event. So a byte that
 *     differs was written by the program.
 *   - The guard writes a caller's bytes only after the work that may use them, in the
 *     order of the stream of the free.
 *   - A handle of a program's stream is used in the calls that pass it, and not later.
 *   - A free slot has no work under way, so any stream may use it.
 *   - No call of the driver and of a resource is made with `lock` held. `live_lock` is
 *     held while live blocks are checked, so that none of them is freed meanwhile.
 *   - A failing call of the driver costs the check, and never the allocation or the free.
 *   - A stream that captures gets no work of the guard.
 *   - Events, streams and pinned memory of a context that was reset are not touched.
 */
#ifndef TARN_GUARD_GUARD_H
#define TARN_GUARD_GUARD_H

#include "base/map.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include <tarn/guard.h>

/* What a report about a block has. */
struct tarn__guard_site {
    tarn_device_ptr address;
    size_t bytes;         /* as requested */
    const char *resource; /* static storage */
    int device;
    uint64_t allocated_on, freed_on; /* numbers of streams */
    tarn_stack allocation, free;
    bool is_freed;
};

struct tarn__guard_block {
    struct tarn__guard_block *next; /* in a list */
    struct tarn__guard_site site;
    tarn_resource *resource; /* borrowed: it has the block */
    tarn_device_ptr base;
    size_t base_bytes, alignment; /* as the resource knows them */
    size_t front, back;           /* bytes of the red zones; 0: none */
    uint64_t context_generation;
    uint64_t discards;          /* tarn__discards() before the bytes were filled */
    CUevent_ event;             /* behind the last work on the block; NULL: none */
    bool is_filled;             /* the red zones are */
    bool is_poisoned;           /* the caller's bytes are */
    bool is_reported;           /* a check of the live block has reported it */
    struct tarn__slot_set *set; /* of which the block is a slot; NULL: it is none */
    bool is_live;               /* a slot: the program has it */
};

/* A list of blocks, the oldest first. */
struct tarn__guard_list {
    struct tarn__guard_block *first, **end;
    size_t count;
    uint64_t bytes; /* sum of base_bytes */
};

struct tarn__workspace; /* workspace.h */
struct tarn__check;     /* checks.h */
struct tarn__slots;     /* slot_sets.h */

struct tarn__guard {
    struct tarn__guard *next;   /* in process.c's list */
    tarn_guard_options options; /* complete; never changes */
    bool has_marks;             /* its blocks without the mark are counted */
    pthread_mutex_t live_lock;
    struct tarn__mutex lock; /* guards what follows */
    struct tarn__map blocks; /* address -> live struct tarn__guard_block * */
    struct tarn__map freed;  /* address -> one that the guard keeps */
    size_t pending;          /* entries reserved in `blocks` and `freed` */
    size_t in_hand; /* freed blocks and batches of slots that threads have taken */
    pthread_cond_t hand_is_empty;
    struct tarn__guard_list quarantine, unordered;
    struct tarn__slots *slots; /* for samples; NULL: each block is guarded */
    struct tarn__check *first_check, **check_end;
    tarn_guard_counts counts;
    struct tarn__workspace *workspaces[TARN__DEVICES_MAX]; /* NULL: not used yet */
};

/* --- guard.c --- */

/* Create a guard. `options` are complete. NULL: no host memory. */
struct tarn__guard *tarn__guard_create(const tarn_guard_options *options, bool has_marks);

/* End a guard without live blocks. Waits for its checks and returns all blocks. */
void tarn__guard_destroy(struct tarn__guard *guard);

/* Capture the call stack of an allocation or a free. */
tarn_stack tarn__guard_capture_site(const struct tarn__guard *guard);

/* Find the requested bytes of a live block. False: the guard does not have it. */
bool tarn__guard_requested_bytes(struct tarn__guard *guard, tarn_device_ptr block,
                                 size_t *out);

/* Return all freed blocks of `resource` (NULL: of all) to it. Waits for the device if some
 * were freed without a stream. */
void tarn__guard_flush(struct tarn__guard *guard, tarn_resource *resource);

/* Wait until no thread is returning freed blocks. */
void tarn__guard_wait_for_hands(struct tarn__guard *guard);

/* Check all blocks now. Waits for the device. */
tarn_status tarn__guard_check(struct tarn__guard *guard);

void tarn__guard_counts(struct tarn__guard *guard, tarn_guard_counts *out);

#endif
