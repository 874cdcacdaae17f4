/* export_table.c -- the export table: pointers with a served handle, and leases on them.
 *
 * An entry holds a reference to its pointer, so that a lease can begin at any moment. But
 * it must not keep the memory alive on its own. So it handles the pointer's releases.
 * When only its own reference and those of leases are left, the owner has freed the
 * block. Then the entry ends, new leases are rejected, and the block returns with the
 * last lease, or at once where there is none.
 *
 * All releases of a shared pointer come here, under one lock, except those that began
 * before the entry existed. Such a release counts down without checking what is left. It
 * can be the owner's last release only while it overtakes no other. A sweep finds the
 * entry that it leaves over. Each handle and each request sweeps some of the
 * entries, in turn, so that the cost does not depend on their number.
 */
#include "ipc/export_table.h"
#include "base/mutex_assert.h"
#include "ipc/owner.h"
#include "ipc/slots.h"
#include "pointer/pointer.h"
#include <stdlib.h>

enum { SWEPT_AT_ONCE = 64 };

struct entry {
    tarn_pointer *pointer; /* with a reference; no view */
    size_t leases;         /* references of leases */
    uint32_t slot;
    uint64_t generation;
    struct tarn__export_memory memory;
    struct entry *next, *previous; /* in the order of the sweeps */
};

static struct tarn__slots entries; /* under tarn__owner_lock() */
static struct entry order = {.next = &order, .previous = &order}; /* the same in a ring */

size_t tarn__export_table_count(void)
{
    tarn__owner_lock();
    size_t count = entries.count;
    tarn__owner_unlock();
    return count;
}

/* Return true if the owner has freed the block. `tarn__owner_mutex` held. */
static bool is_freed(const struct entry *entry)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    return tarn_pointer_use_count(entry->pointer) == 1 + entry->leases;
}

static void insert_after(struct entry *entry, struct entry *previous)
{
    entry->previous = previous;
    entry->next = previous->next;
    entry->next->previous = previous->next = entry;
}

static void unlink_entry(struct entry *entry)
{
    entry->previous->next = entry->next;
    entry->next->previous = entry->previous;
}

/* Remove the entry; the caller gets its reference. `tarn__owner_mutex` held. */
static tarn_pointer *withdraw(struct entry *entry)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    tarn_pointer *pointer = entry->pointer;

    unlink_entry(entry);
    tarn__slots_take(&entries, entry->slot);
    pointer->release_data = NULL;
    free(entry);
    return pointer;
}

/* Drop one reference, of the owner or of a lease. */
static void release(tarn_pointer *pointer, bool is_lease)
{
    tarn_pointer *freed = NULL;

    tarn__owner_lock();
    struct entry *entry = pointer->release_data;
    if (entry) {
        tarn__pointer_release_plain(pointer); /* not the last: the entry has one */
        entry->leases -= is_lease;
        if (is_freed(entry))
            freed = withdraw(entry);
    }
    tarn__owner_unlock();
    if (!entry || freed)
        tarn__pointer_release_plain(pointer);
}

static void release_shared(tarn_pointer *pointer)
{
    release(pointer, false);
}

void tarn__export_table_end_lease(tarn_pointer *pointer)
{
    release(pointer, true);
}

/* Find the first left-over entry among the next `*looks`, withdraw it, and return its
 * pointer or NULL. */
static tarn_pointer *take_freed(unsigned *looks)
{
    tarn_pointer *freed = NULL;

    tarn__owner_lock();
    for (; *looks > 0 && order.next != &order && !freed; --*looks) {
        struct entry *entry = order.next;
        if (is_freed(entry)) {
            freed = withdraw(entry);
        } else {
            unlink_entry(entry);
            insert_after(entry, order.previous);
        }
    }
    tarn__owner_unlock();
    return freed;
}

void tarn__export_table_sweep(void)
{
    unsigned looks = SWEPT_AT_ONCE;
    tarn_pointer *freed;

    while ((freed = take_freed(&looks)))
        tarn__pointer_release_plain(freed);
}

/* Make an entry; NULL: no host memory. `tarn__owner_mutex` held. */
static struct entry *entry_new(tarn_pointer *pointer,
                               const struct tarn__export_memory *memory)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    struct entry *entry;

    if (!tarn__slots_reserve(&entries) || !(entry = calloc(1, sizeof *entry)))
        return NULL;
    entry->pointer = tarn_pointer_retain(pointer);
    entry->memory = *memory;
    tarn__slots_put(&entries, entry, &entry->slot, &entry->generation);
    insert_after(entry, &order); /* a left-over entry is most often a new one */
    pointer->release_data = entry;
    atomic_store_explicit(&pointer->release, release_shared, memory_order_release);
    return entry;
}

tarn_status tarn__export_table_find_or_add(tarn_pointer *pointer,
                                           const struct tarn__export_memory *memory,
                                           uint32_t *slot_out, uint64_t *generation_out)
{
    tarn__owner_lock();
    struct entry *entry = pointer->release_data;
    if (!entry)
        entry = entry_new(pointer, memory);
    if (entry) {
        *slot_out = entry->slot;
        *generation_out = entry->generation;
    }
    tarn__owner_unlock();
    return entry ? TARN_OK
                 : tarn_error_set(TARN_OUT_OF_MEMORY,
                                  "ipc: no host memory for a served handle");
}

tarn_status tarn__export_table_begin_lease(uint32_t slot, uint64_t generation,
                                           struct tarn__export_memory *memory_out,
                                           tarn_pointer **pointer_out)
{
    tarn__owner_lock();
    struct entry *entry = tarn__slots_find(&entries, slot, generation);
    if (entry) {
        entry->leases++;
        *memory_out = entry->memory;
        *pointer_out = tarn_pointer_retain(entry->pointer);
    }
    tarn__owner_unlock();
    return entry ? TARN_OK
                 : tarn_error_set(
                       TARN_NOT_FOUND,
                       "ipc: the block was freed: export %u has no generation %llu", slot,
                       (unsigned long long)generation);
}
