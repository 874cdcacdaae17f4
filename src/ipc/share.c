/* share.c -- the export table: pointers with a served handle, and leases on them.
 *
 * A share holds a reference to its pointer, so that a lease can begin at any moment. But
 * it must not keep the memory alive on its own. So it handles the pointer's releases.
 * When only its own reference and those of leases are left, the owner has freed the
 * block. Then the share ends, new leases are rejected, and the block returns with the
 * last lease, or at once where there is none.
 *
 * All releases of a shared pointer come here, under one lock, except those that began
 * before the share existed. Such a release counts down without checking what is left. It
 * can be the owner's last release only while it overtakes no other. A sweep finds the
 * share that it leaves over. Each handle and each request sweeps some of the
 * shares, in turn, so that the cost does not depend on their number.
 */
#include "ipc/owner.h"
#include "ipc/slots.h"
#include "pointer/pointer.h"
#include <stdlib.h>

enum { SWEPT_AT_ONCE = 64 };

struct share {
    tarn_pointer *pointer; /* with a reference; no view */
    size_t leases;         /* references of leases */
    uint32_t slot;
    uint64_t generation;
    struct tarn__share_memory memory;
    struct share *next, *previous; /* in the order of the sweeps */
};

static struct tarn__slots shares; /* under tarn__owner_lock() */
static struct share order = {.next = &order, .previous = &order}; /* the same in a ring */

size_t tarn__share_count(void)
{
    tarn__owner_lock();
    size_t count = shares.count;
    tarn__owner_unlock();
    return count;
}

/* Under the lock: has the owner freed the block? */
static bool is_freed(const struct share *share)
{
    return tarn_pointer_use_count(share->pointer) == 1 + share->leases;
}

static void put_behind(struct share *share, struct share *previous)
{
    share->previous = previous;
    share->next = previous->next;
    share->next->previous = previous->next = share;
}

static void take_out(struct share *share)
{
    share->previous->next = share->next;
    share->next->previous = share->previous;
}

/* Under the lock: remove the share. The caller gets its reference. */
static tarn_pointer *withdraw(struct share *share)
{
    tarn_pointer *pointer = share->pointer;

    take_out(share);
    tarn__slots_take(&shares, share->slot);
    pointer->release_data = NULL;
    free(share);
    return pointer;
}

/* Drop one reference, of the owner or of a lease. */
static void release(tarn_pointer *pointer, bool is_lease)
{
    tarn_pointer *freed = NULL;

    tarn__owner_lock();
    struct share *share = pointer->release_data;
    if (share) {
        tarn__pointer_release_plain(pointer); /* not the last: the share has one */
        share->leases -= is_lease;
        if (is_freed(share))
            freed = withdraw(share);
    }
    tarn__owner_unlock();
    if (!share || freed)
        tarn__pointer_release_plain(pointer);
}

static void release_shared(tarn_pointer *pointer)
{
    release(pointer, false);
}

void tarn__share_end_lease(tarn_pointer *pointer)
{
    release(pointer, true);
}

/* Find the first left-over share among the next `*looks`, withdraw it, and return its
 * pointer or NULL. */
static tarn_pointer *take_freed(unsigned *looks)
{
    tarn_pointer *freed = NULL;

    tarn__owner_lock();
    for (; *looks > 0 && order.next != &order && !freed; --*looks) {
        struct share *share = order.next;
        if (is_freed(share)) {
            freed = withdraw(share);
        } else {
            take_out(share);
            put_behind(share, order.previous);
        }
    }
    tarn__owner_unlock();
    return freed;
}

void tarn__share_sweep(void)
{
    unsigned looks = SWEPT_AT_ONCE;
    tarn_pointer *freed;

    while ((freed = take_freed(&looks)))
        tarn__pointer_release_plain(freed);
}

/* Under the lock. NULL: no host memory. */
static struct share *share_new(tarn_pointer *pointer,
                               const struct tarn__share_memory *memory)
{
    struct share *share;

    if (!tarn__slots_reserve(&shares) || !(share = calloc(1, sizeof *share)))
        return NULL;
    share->pointer = tarn_pointer_retain(pointer);
    share->memory = *memory;
    tarn__slots_put(&shares, share, &share->slot, &share->generation);
    put_behind(share, &order); /* a left-over share is most often a new one */
    pointer->release_data = share;
    atomic_store_explicit(&pointer->release, release_shared, memory_order_release);
    return share;
}

tarn_status tarn__share_of(tarn_pointer *pointer, const struct tarn__share_memory *memory,
                           uint32_t *slot_out, uint64_t *generation_out)
{
    tarn__owner_lock();
    struct share *share = pointer->release_data;
    if (!share)
        share = share_new(pointer, memory);
    if (share) {
        *slot_out = share->slot;
        *generation_out = share->generation;
    }
    tarn__owner_unlock();
    return share ? TARN_OK
                 : tarn_error_set(TARN_OUT_OF_MEMORY,
                                  "ipc: no host memory for a served handle");
}

tarn_status tarn__share_lease(uint32_t slot, uint64_t generation,
                              struct tarn__share_memory *memory_out,
                              tarn_pointer **pointer_out)
{
    tarn__owner_lock();
    struct share *share = tarn__slots_find(&shares, slot, generation);
    if (share) {
        share->leases++;
        *memory_out = share->memory;
        *pointer_out = tarn_pointer_retain(share->pointer);
    }
    tarn__owner_unlock();
    return share ? TARN_OK
                 : tarn_error_set(
                       TARN_NOT_FOUND,
                       "ipc: the block was freed: export %u has no generation %llu", slot,
                       (unsigned long long)generation);
}
