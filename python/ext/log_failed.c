/* log_failed.c -- frees that failed: their rows are written once a retry has succeeded.
 *
 * That is known before the address is reused, or once no failed free is left
 * (tarn_pointer_deferred_frees()).
 */
#include "log_failed.h"
#include "log_rows.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A free that failed. */
struct failed {
    struct tarn__log_call call;
    uint64_t number; /* from 1 on, in the order in which they failed */
    struct failed *next;
};

/* Those that are still not freed; under the lock of the rows. */
static struct {
    struct failed *first; /* the newest */
    uint64_t last;        /* number of the newest one so far */
    atomic_size_t count;  /* length of the list; read without the lock */
} the_failed;

/* Append the row of a free that failed and succeeded since. Lock held. */
static void append_late(struct failed *failed)
{
    uint64_t now = tarn__log_call_now();

    failed->call.start_ns = failed->call.end_ns = now;
    tarn__log_rows_append(&failed->call, true);
    free(failed);
    atomic_fetch_sub(&the_failed.count, 1);
}

void tarn__log_failed_settle_address(const struct tarn__log_call *call)
{
    struct failed **link = &the_failed.first;

    while (*link && ((*link)->call.address != call->address ||
                     (*link)->call.device != call->device))
        link = &(*link)->next;
    struct failed *found = *link;
    if (!found)
        return;
    *link = found->next;
    append_late(found);
}

/* The number of the newest failed free, if all failed frees have succeeded since; else 0.
 * Failures after this check have a higher number. */
static uint64_t find_settled(void)
{
    tarn_deferred_frees frees = {.size = sizeof frees};

    if (atomic_load(&the_failed.count) == 0)
        return 0;
    pthread_mutex_lock(&tarn__log_rows.lock);
    uint64_t newest = the_failed.last;
    pthread_mutex_unlock(&tarn__log_rows.lock);
    if (tarn_pointer_deferred_frees(&frees) != TARN_OK || frees.failed_count > 0)
        return 0;
    return newest;
}

/* Append the rows of the failed frees up to number `newest`, the oldest first. Lock
 * held. */
static void settle(uint64_t newest)
{
    struct failed **link = &the_failed.first, *oldest_first = NULL;

    while (*link && (*link)->number > newest)
        link = &(*link)->next;
    for (struct failed *next, *at = *link; at; at = next) {
        next = at->next;
        at->next = oldest_first;
        oldest_first = at;
    }
    *link = NULL;
    for (struct failed *next; oldest_first; oldest_first = next) {
        next = oldest_first->next;
        append_late(oldest_first);
    }
}

void tarn__log_failed_settle_all(void)
{
    uint64_t newest = find_settled();

    if (newest == 0)
        return;
    pthread_mutex_lock(&tarn__log_rows.lock);
    settle(newest);
    tarn__log_rows_drain();
    pthread_mutex_unlock(&tarn__log_rows.lock);
}

void tarn__log_failed_keep(const struct tarn__log_call *call)
{
    struct failed *failed = malloc(sizeof *failed);

    if (!failed) {
        tarn__log_rows.lost++;
        return;
    }
    *failed = (struct failed){*call, ++the_failed.last, the_failed.first};
    the_failed.first = failed;
    atomic_fetch_add(&the_failed.count, 1);
}

void tarn__log_failed_forget(void)
{
    struct failed *failed = the_failed.first;

    the_failed.first = NULL;
    atomic_store(&the_failed.count, 0);
    for (struct failed *next; failed; failed = next) {
        next = failed->next;
        free(failed);
    }
}
