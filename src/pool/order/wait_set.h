/* wait_set.h -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees; and the waits that it has made.
 *
 * A stream that waited for an event fence needs no other wait for the frees that the
 * fence covers. So the stream state of the consumer remembers the epoch of the last fence
 * of each source. A wait is noted after the driver has accepted it, never while the
 * stream captures. Frees after that epoch need another wait. */
#ifndef TARN_POOL_WAIT_SET_H
#define TARN_POOL_WAIT_SET_H

#include "pool/blocks/runs.h"
#include "pool/order/caller.h"

/* An event fence that covers all the memory taken from one stream state. */
struct tarn__fence_wait {
    struct tarn__stream_state *stream_state;
    uint64_t epoch; /* the youngest of the taken memory; once pinned, the fence's */
    CUevent_ event; /* pinned */
};

/* Return the youngest epoch of `source` for which the stream of `consumer` has waited; 0:
 * it remembers none. */
static inline uint64_t tarn__wait_set_waited(const struct tarn__stream_state *consumer,
                                             tarn__index source) TARN__REQUIRES(pool_lock)
{
    const struct tarn__wait *wait = &consumer->waits[source % TARN__WAITS];

    return wait->source == source ? wait->epoch : 0;
}

/* Note that the caller's stream has waited for the event fence of `epoch` of `source`. */
void tarn__wait_set_note(const struct tarn__caller *caller, tarn__index source,
                         uint64_t epoch) TARN__REQUIRES(pool_lock);

/* Have the caller's stream wait for `event`, which is pinned and covers `epoch` of
 * `source`, unless it has waited for that epoch already. Returns false if the driver
 * rejected the wait. `lock` not held. */
bool tarn__wait_set_wait_once(const struct tarn__caller *caller, tarn__index source,
                              uint64_t epoch, CUevent_ event);

struct tarn__wait_set {
    struct tarn__fence_wait all[TARN__RUN_MAX];
    unsigned count;
};

/* Add the pieces of a run that belong to other stream states and need a wait. There is
 * capacity, because a run has at most TARN__RUN_MAX pieces. `lock` held, as for the next
 * function. */
void tarn__wait_set_add(struct tarn__wait_set *wait_set,
                        const struct tarn__caller *caller, const struct tarn__run *run)
    TARN__REQUIRES(pool_lock);
/* Pin the event fences of the pieces added, before another thread gets the lock. */
void tarn__wait_set_pin(struct tarn__wait_set *wait_set, struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Have the caller's stream wait. Returns false if the driver rejected a wait. */
bool tarn__wait_set_wait(const struct tarn__wait_set *wait_set,
                         const struct tarn__caller *caller);
/* Release the event fences and count the waits. `waited`: the caller's stream has waited
 * for all of them, and its stream state remembers that. `lock` held. */
void tarn__wait_set_release(const struct tarn__wait_set *wait_set,
                            const struct tarn__caller *caller, bool waited)
    TARN__REQUIRES(pool_lock);

#endif
