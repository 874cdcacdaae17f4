/* deferred_frees.c -- deferred frees: memory whose last reference is gone and that is not
 * returned yet.
 *
 * A release returns no status. If the driver or a resource fails to free a block,
 * forgetting the block would leak it for good, since no other module knows it. So the
 * pointer itself becomes an entry of a list, which needs no memory that could be missing.
 * Later releases and allocations retry. Each of them stops at the first failure. So on a
 * device that is permanently lost, every call costs one vain retry, and not one for each
 * block.
 *
 * The second list is for managers. While cleanup is deferred on a device, blocks whose
 * return would wait for the device stay here. The last end, or running out of memory,
 * returns them. Lazy blocks stay here at any time, until there are enough of them. Each
 * cuMemFree waits for the device, so ten at one moment cost about as much as one.
 *
 * The first failure of each pointer is reported. A call that returns a status watches for
 * it (tarn_pointer_release_checked()) and reports it to its caller; otherwise it is a
 * warning. Retries report nothing.
 *
 * After exit has begun and in a forked child, memory that cannot be returned at once is
 * dropped.
 */
#include "pointer/deferred_frees.h"
#include "driver/driver.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "base/blocking_hook.h"
#include "base/warn.h"
#include <stdlib.h>

struct list {
    tarn_pointer *first; /* oldest */
    tarn_pointer *last;  /* valid while there is a first */
};

/* The deferred frees of one device. All fields but `deferring` are under the lock. */
struct defer {
    atomic_int deferring; /* depth of deferred cleanup; changed under the lock */
    size_t count;         /* entries in the list */
    size_t bytes;         /* that they have on the device */
    size_t capacity;      /* bytes of the device; 0: not known */
};

TARN__STATIC_MUTEX(lock); /* for the lists; never held during a return_memory */
static struct {
    struct list failed;  /* to be retried at any time */
    struct list defer;   /* kept until there are enough, or until the last end */
    atomic_size_t count; /* entries of both; read without the lock */
    atomic_size_t failed_count,
        failed_bytes; /* bytes whose free failed: in the list, or taken out for a retry */
    size_t most;      /* lazy entries that one device keeps at most */
    double ratio;     /* share of its capacity that they may have */
    struct defer devices[TARN__DEVICES_MAX];
} deferred_frees = {.most = 10, .ratio = 0.2};

static _Thread_local struct tarn__deferred_frees_record *failure_target;

void tarn__deferred_frees_record_begin(struct tarn__deferred_frees_record *record)
{
    record->outer = failure_target;
    record->why.status = TARN_OK;
    failure_target = record;
}

tarn_status tarn__deferred_frees_record_end(
    const struct tarn__deferred_frees_record *record)
{
    failure_target = record->outer;
    if (record->why.status == TARN_OK)
        return TARN_OK;
    return tarn_error_set_native(record->why.status, record->why.native, "%s",
                                 record->why.message);
}

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

static void add_to_list(struct list *list, tarn_pointer *pointer)
{
    tarn__mutex_lock(&lock);
    append(list, pointer);
    atomic_fetch_add(&deferred_frees.count, 1);
    tarn__mutex_unlock(&lock);
}

static tarn_pointer *take_failed(void)
{
    tarn__mutex_lock(&lock);
    tarn_pointer *pointer = take_first(&deferred_frees.failed);
    if (pointer)
        atomic_fetch_sub(&deferred_frees.count, 1);
    tarn__mutex_unlock(&lock);
    return pointer;
}

static size_t device_bytes(const tarn_pointer *pointer)
{
    return pointer->kind == TARN_POINTER_PINNED ? 0 : pointer->bytes;
}

/* Make the deferred frees of `device` (TARN_DEVICE_NONE: of all devices) due. `lock`
 * held. */
static void make_due(int device)
{
    tarn__assert_mutex_held(&lock.mutex);

    struct list rest = {NULL, NULL};
    tarn_pointer *pointer;

    while ((pointer = take_first(&deferred_frees.defer))) {
        if (device != TARN_DEVICE_NONE && pointer->device != device) {
            append(&rest, pointer);
            continue;
        }
        deferred_frees.devices[pointer->device].count--;
        deferred_frees.devices[pointer->device].bytes -= device_bytes(pointer);
        append(&deferred_frees.failed, pointer);
    }
    deferred_frees.defer = rest;
}

/* Is it time to return the deferred frees of a device? `lock` held. */
static bool limits_exceeded(const struct defer *device)
{
    tarn__assert_mutex_held(&lock.mutex);

    if (atomic_load(&device->deferring) > 0)
        return false;
    return device->count > deferred_frees.most ||
           (device->capacity &&
            (double)device->bytes > deferred_frees.ratio * (double)device->capacity);
}

/* Defer `pointer`; true where that made all deferred frees of its device due. */
static bool defer(tarn_pointer *pointer)
{
    struct defer *device = &deferred_frees.devices[pointer->device];

    tarn__mutex_lock(&lock);
    append(&deferred_frees.defer, pointer);
    atomic_fetch_add(&deferred_frees.count, 1);
    device->count++;
    device->bytes += device_bytes(pointer);
    bool is_due = limits_exceeded(device);
    if (is_due)
        make_due((int)(device - deferred_frees.devices));
    tarn__mutex_unlock(&lock);
    return is_due;
}

/* --- returning memory --- */

/* Its memory is returned: release what the pointer kept, and then free the pointer. */
static void finish(tarn_pointer *pointer)
{
    if (pointer->owner_release)
        pointer->owner_release(pointer->owner);
    free(pointer);
}

/* Only pointers of a device are lazy or deferrable. */
static bool must_defer(const tarn_pointer *pointer)
{
    if (pointer->lazy)
        return true;
    if (!pointer->deferrable ||
        atomic_load_explicit(&deferred_frees.devices[pointer->device].deferring,
                             memory_order_relaxed) == 0)
        return false;
    tarn__blocking_hook_call();
    if (!pointer->resource || tarn_resource_deallocate_synchronizes(pointer->resource))
        return true;
    return atomic_load(&pointer->stream) == TARN_STREAM_NONE &&
           !tarn_resource_supports_no_stream(pointer->resource);
}

/* Was the block returned, so that only the reference to its resource is left? */
static bool is_returned(const tarn_pointer *pointer)
{
    return pointer->resource && pointer->bytes && !pointer->address;
}

/* Its return_memory failed with `status`: count it, and report it once. */
static void note_failure(tarn_pointer *pointer, tarn_status status)
{
    if (pointer->failed || is_returned(pointer))
        return;
    pointer->failed = true;
    atomic_fetch_add(&deferred_frees.failed_bytes, pointer->bytes);
    atomic_fetch_add(&deferred_frees.failed_count, 1);
    if (failure_target && failure_target->why.status == TARN_OK) {
        failure_target->why = *tarn_error_last();
        failure_target->why.status = status;
    } else {
        tarn__warn(
            "pointer: freeing %zu bytes at 0x%llx failed, later calls try again: %s",
            pointer->bytes, pointer->address, tarn_error_last()->message);
    }
}

static void note_return(tarn_pointer *pointer)
{
    if (!pointer->failed)
        return;
    pointer->failed = false;
    atomic_fetch_sub(&deferred_frees.failed_bytes, pointer->bytes);
    atomic_fetch_sub(&deferred_frees.failed_count, 1);
}

/* Return the memory of one pointer, or keep the pointer as failed. */
static tarn_status try_one(tarn_pointer *pointer)
{
    if (!pointer->resource) /* the resource reports for itself */
        tarn__blocking_hook_call();
    tarn_status status = pointer->return_memory(pointer);
    if (status == TARN_OK || tarn__driver_gone() || is_returned(pointer))
        note_return(pointer);
    if (status == TARN_OK || tarn__driver_gone()) {
        finish(pointer);
        return status;
    }
    note_failure(pointer, status); /* before other threads can take it from the list */
    add_to_list(&deferred_frees.failed, pointer);
    return status;
}

void tarn__deferred_frees_return(tarn_pointer *pointer)
{
    if (!pointer->return_memory)
        finish(pointer);
    else if (must_defer(pointer) && !tarn__driver_gone()) {
        if (defer(pointer))
            tarn__deferred_frees_retry();
    } else if (try_one(pointer) == TARN_OK)
        tarn__deferred_frees_retry();
}

void tarn__deferred_frees_retry(void)
{
    tarn_pointer *pointer;
    size_t tries = tarn_pointer_deferred_count();

    if (tries == 0 || tarn__driver_gone())
        return;
    tarn__blocking_hook_call();
    struct tarn__kept_error before = tarn__error_keep();
    while (tries-- && (pointer = take_failed()))
        if (try_one(pointer) != TARN_OK)
            break;
    tarn__error_restore(&before);
}

/* Try every entry that is due, once each. */
static tarn_status try_all(void)
{
    tarn_status first = TARN_OK;
    tarn_error why = {.status = TARN_OK};
    tarn_pointer *pointer;

    for (size_t tries = tarn_pointer_deferred_count(); tries && (pointer = take_failed());
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

static tarn_status flush(int device)
{
    if (tarn_pointer_deferred_count() == 0 || tarn__driver_gone())
        return TARN_OK;
    tarn__mutex_lock(&lock);
    make_due(device);
    tarn__mutex_unlock(&lock);
    return try_all();
}

/* The status reports the first failure to the caller. */
tarn_status tarn__deferred_frees_flush(int device)
{
    struct tarn__deferred_frees_record record;

    tarn__deferred_frees_record_begin(&record);
    tarn_status status = flush(device);
    failure_target = record.outer;
    return status;
}

tarn_status tarn_pointer_reclaim_deferred(void)
{
    return tarn__deferred_frees_flush(TARN_DEVICE_NONE);
}

bool tarn__deferred_frees_reclaimed(tarn_status status)
{
    if (status != TARN_OUT_OF_MEMORY || tarn_pointer_deferred_count() == 0)
        return false;
    flush(TARN_DEVICE_NONE);
    return true;
}

size_t tarn_pointer_deferred_count(void)
{
    return atomic_load(&deferred_frees.count);
}

/* Count the entries of a list that wait and have not failed. `lock` held. */
static void add_waiting(const struct list *list, tarn_deferred_frees *out)
{
    tarn__assert_mutex_held(&lock.mutex);

    for (const tarn_pointer *pointer = list->first; pointer; pointer = pointer->next)
        if (!pointer->failed && !is_returned(pointer)) {
            out->waiting_count++;
            out->waiting_bytes += pointer->bytes;
        }
}

tarn_status tarn_pointer_deferred_frees(tarn_deferred_frees *out)
{
    if (!out || out->size != sizeof *out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pointer: deferred_frees: out.size is %zu, it has to be %zu",
            out ? out->size : 0, sizeof *out);
    *out =
        (tarn_deferred_frees){.size = sizeof *out,
                              .failed_count = atomic_load(&deferred_frees.failed_count),
                              .failed_bytes = atomic_load(&deferred_frees.failed_bytes)};
    if (tarn__driver_gone())
        return TARN_OK;
    tarn__mutex_lock(&lock);
    add_waiting(&deferred_frees.defer, out);
    add_waiting(&deferred_frees.failed, out);
    tarn__mutex_unlock(&lock);
    return TARN_OK;
}

void tarn__deferred_frees_set_limits(size_t count, double ratio)
{
    tarn__mutex_lock(&lock);
    deferred_frees.most = count;
    deferred_frees.ratio = ratio;
    tarn__mutex_unlock(&lock);
}

void tarn__deferred_frees_limits(size_t *count_out, double *ratio_out)
{
    tarn__mutex_lock(&lock);
    *count_out = deferred_frees.most;
    *ratio_out = deferred_frees.ratio;
    tarn__mutex_unlock(&lock);
}

void tarn__deferred_frees_set_capacity(int device, size_t bytes)
{
    tarn__mutex_lock(&lock);
    deferred_frees.devices[device].capacity = bytes;
    tarn__mutex_unlock(&lock);
}

void tarn__deferred_frees_on(int device, size_t *count_out, size_t *bytes_out)
{
    tarn__mutex_lock(&lock);
    *count_out = deferred_frees.devices[device].count;
    *bytes_out = deferred_frees.devices[device].bytes;
    tarn__mutex_unlock(&lock);
}

void tarn__deferred_frees_begin(int device)
{
    if (tarn__driver_gone())
        return;
    tarn__mutex_lock(&lock);
    atomic_fetch_add(&deferred_frees.devices[device].deferring, 1);
    tarn__mutex_unlock(&lock);
}

tarn_status tarn__deferred_frees_end(int device)
{
    struct tarn__deferred_frees_record record;

    if (tarn__driver_gone())
        return TARN_OK;
    tarn__mutex_lock(&lock);
    bool last = atomic_fetch_sub(&deferred_frees.devices[device].deferring, 1) == 1;
    if (last)
        make_due(device);
    tarn__mutex_unlock(&lock);
    if (!last)
        return TARN_OK;
    struct tarn__kept_error before = tarn__error_keep();
    tarn__deferred_frees_record_begin(&record);
    try_all();
    tarn__error_restore(&before);
    return tarn__deferred_frees_record_end(&record);
}
