/* unreturned.c -- memory whose last reference is gone and that is not back yet.
 *
 * A release cannot report that the driver or a resource refused. Forgetting the block
 * would lose it, and for good: nobody else knows it. So the pointer itself becomes an
 * entry of a list, which needs no memory that could be missing, and later releases and
 * allocations try again, one failure at most each: a device that is lost for good costs
 * every call one vain try, not one for each block.
 *
 * The second list is for managers. While cleanup is deferred on a device, blocks whose
 * return would wait for it stay here; the last end, or running out of memory, gives them
 * back.
 *
 * After exit has begun and in a forked child no lock is taken (its holder may not exist
 * there): what cannot be given back at once is dropped.
 */
#include "pointer/pointer.h"
#include "driver/driver.h"
#include <pthread.h>
#include <stdlib.h>

enum { DEVICES_MAX = 128 };

struct list {
    tarn_pointer *first; /* oldest */
    tarn_pointer *last;  /* valid while there is a first */
};

static struct {
    pthread_mutex_t lock;              /* for the lists; never held during a give_back */
    struct list failed;                /* to be tried again at any time */
    struct list put_off;               /* not before the last end on their device */
    atomic_size_t count;               /* entries of both; read without the lock */
    atomic_int deferring[DEVICES_MAX]; /* depth; changed under the lock */
} unreturned = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void append(struct list *list, tarn_pointer *pointer)
{
    pointer->next = NULL;
    if (list->first)
        list->last->next = pointer;
    else
        list->first = pointer;
    list->last = pointer;
}

static tarn_pointer *take_first(struct list *list)
{
    tarn_pointer *pointer = list->first;

    if (pointer)
        list->first = pointer->next;
    return pointer;
}

static void keep(struct list *list, tarn_pointer *pointer)
{
    pthread_mutex_lock(&unreturned.lock);
    append(list, pointer);
    atomic_fetch_add(&unreturned.count, 1);
    pthread_mutex_unlock(&unreturned.lock);
}

static tarn_pointer *take_failed(void)
{
    pthread_mutex_lock(&unreturned.lock);
    tarn_pointer *pointer = take_first(&unreturned.failed);
    if (pointer)
        atomic_fetch_sub(&unreturned.count, 1);
    pthread_mutex_unlock(&unreturned.lock);
    return pointer;
}

/* Make what was put off on `device` (TARN_DEVICE_NONE: on any) due. Under the lock. */
static void make_due(int device)
{
    struct list rest = {NULL, NULL};
    tarn_pointer *pointer;

    while ((pointer = take_first(&unreturned.put_off)))
        append(device == TARN_DEVICE_NONE || pointer->device == device
                   ? &unreturned.failed
                   : &rest,
               pointer);
    unreturned.put_off = rest;
}

/* Its memory is back: what the pointer kept goes, and then the pointer. */
static void finish(tarn_pointer *pointer)
{
    if (pointer->owner_release)
        pointer->owner_release(pointer->owner);
    free(pointer);
}

static bool is_put_off(const tarn_pointer *pointer)
{
    if (!pointer->deferrable || pointer->device < 0 || pointer->device >= DEVICES_MAX ||
        atomic_load_explicit(&unreturned.deferring[pointer->device],
                             memory_order_relaxed) == 0)
        return false;
    return !pointer->resource || atomic_load(&pointer->stream) == TARN_STREAM_NONE ||
           tarn_resource_free_waits(pointer->resource);
}

/* Give the memory of one back, or keep it as failed. */
static tarn_status try_one(tarn_pointer *pointer)
{
    tarn_status status = pointer->give_back(pointer);

    if (status != TARN_OK && !tarn__driver_gone())
        keep(&unreturned.failed, pointer);
    else
        finish(pointer);
    return status;
}

void tarn__pointer_return(tarn_pointer *pointer)
{
    if (!pointer->give_back)
        finish(pointer);
    else if (is_put_off(pointer) && !tarn__driver_gone())
        keep(&unreturned.put_off, pointer);
    else if (try_one(pointer) == TARN_OK)
        tarn__pointer_retry();
}

void tarn__pointer_retry(void)
{
    tarn_pointer *pointer;
    size_t tries = tarn_pointer_unreturned();

    if (tries == 0 || tarn__driver_gone())
        return;
    tarn_error before = *tarn_error_last();
    while (tries-- && (pointer = take_failed()))
        if (try_one(pointer) != TARN_OK)
            break;
    tarn_error_set_native(before.status, before.native, "%s", before.message);
}

/* Try every entry that is due, once each. */
static tarn_status try_all(void)
{
    tarn_status first = TARN_OK;
    tarn_error why = {.status = TARN_OK};
    tarn_pointer *pointer;

    for (size_t tries = tarn_pointer_unreturned(); tries && (pointer = take_failed());
         tries--) {
        tarn_status status = try_one(pointer);
        if (status != TARN_OK && first == TARN_OK) {
            first = status;
            why = *tarn_error_last();
        }
    }
    if (first != TARN_OK)
        tarn_error_set_native(first, why.native, "%s", why.message);
    return first;
}

tarn_status tarn_pointer_reclaim(void)
{
    if (tarn_pointer_unreturned() == 0 || tarn__driver_gone())
        return TARN_OK;
    pthread_mutex_lock(&unreturned.lock);
    make_due(TARN_DEVICE_NONE);
    pthread_mutex_unlock(&unreturned.lock);
    return try_all();
}

bool tarn__pointer_reclaimed(tarn_status status)
{
    if (status != TARN_OUT_OF_MEMORY || tarn_pointer_unreturned() == 0)
        return false;
    tarn_error why = *tarn_error_last();
    tarn_pointer_reclaim();
    tarn_error_set_native(why.status, why.native, "%s", why.message);
    return true;
}

size_t tarn_pointer_unreturned(void)
{
    return atomic_load(&unreturned.count);
}

void tarn__pointer_defer_begin(int device)
{
    if (tarn__driver_gone())
        return;
    pthread_mutex_lock(&unreturned.lock);
    atomic_fetch_add(&unreturned.deferring[device], 1);
    pthread_mutex_unlock(&unreturned.lock);
}

void tarn__pointer_defer_end(int device)
{
    if (tarn__driver_gone())
        return;
    pthread_mutex_lock(&unreturned.lock);
    bool last = atomic_fetch_sub(&unreturned.deferring[device], 1) == 1;
    if (last)
        make_due(device);
    pthread_mutex_unlock(&unreturned.lock);
    if (!last)
        return;
    tarn_error before = *tarn_error_last();
    try_all();
    tarn_error_set_native(before.status, before.native, "%s", before.message);
}
