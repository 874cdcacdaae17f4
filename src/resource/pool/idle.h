/* idle.h -- free memory of a pool that makes whole handles, or a whole segment: where it is
 * ready it can be moved to where it is needed, or given back. Where queued work may still use
 * it, it can be moved for a stream whose work is ordered behind that.
 *
 * Also what the files about growth share. `growth` is held around all of it; `lock`, where
 * it says so.
 */
#ifndef TARN_POOL_IDLE_H
#define TARN_POOL_IDLE_H

#include "resource/pool/pool.h"

enum { TARN__IDLE_MAX = 256 };

/* Of a free block, what can go. */
struct tarn__idle_part {
    tarn__index node;
    unsigned handles;
    struct tarn__span span;
    struct tarn__lane *lane; /* whose it is; NULL: ready */
    uint64_t epoch;          /* of the lane */
    CUevent_ event;          /* the fence that covers that, pinned; once it is carved */
};

static inline uint64_t tarn__idle_mean_handle(const struct tarn__idle_part *part)
{
    return part->span.bytes / part->handles;
}

struct tarn__idle {
    struct tarn__pool *pool;
    struct tarn__idle_part parts[TARN__IDLE_MAX];
    unsigned count;
    unsigned ready;           /* the first ones */
    uint64_t bytes;           /* of their spans */
    uint64_t wanted;          /* enough */
    struct tarn__span not_in; /* addresses that are not to be touched */
};

/* Find idle memory of about `wanted` bytes: the parts with the largest handles that together
 * are as much, of the last one no more handles than it takes; less where there is less. (To
 * move a handle costs 26 us on an H200, of whatever size it is: see docs/pool.md.) `lock`
 * held. */
void tarn__idle_find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span not_in,
                     struct tarn__idle *out);
/* What is still wanted, of memory behind fences: the caller's stream's, and then other
 * streams', where the options do not rather have the pool grow. `lock` held. */
void tarn__idle_find_fenced(const struct tarn__caller *caller, struct tarn__idle *idle);
/* Have the caller's stream wait for what others queued before they freed theirs. False: the
 * driver refused. */
bool tarn__idle_wait(const struct tarn__caller *caller, const struct tarn__idle *idle);
/* Take the spans out of their blocks; the nodes are then exactly these, MOVING. Where host
 * memory ends, fewer. `lock` held. */
void tarn__idle_carve(struct tarn__idle *idle);
/* They are free again, but for the first ones. `lock` held. */
void tarn__idle_put_back(const struct tarn__idle *idle, unsigned first);
/* The first `count` have no memory any more, or it moved and their place is old. `lock`
 * held. */
void tarn__idle_retire(const struct tarn__idle *idle, unsigned count);

/* --- old.c: places whose memory moved while queued work still used them --- */

/* Room for `count` more. False: no host memory, or there are too many. */
bool tarn__old_reserve(struct tarn__pool *pool, unsigned count);
/* A node that is MOVING; `event` covers its last use and is pinned. `lock` held. */
void tarn__old_add(struct tarn__pool *pool, tarn__index node, struct tarn__lane *lane,
                   uint64_t epoch, CUevent_ event);

/* --- gap.c --- */

/* A hole, or its beginning or end, that is to be filled. */
struct tarn__gap {
    uint64_t at, bytes;    /* idle memory goes there */
    uint64_t fresh, least; /* and new memory behind it, so much, or this if need be */
};

/* The place where the fewest idle handles make a block for the request, together with what
 * the caller's stream may use beside it; those handles in `idle_out`. Where all that is idle
 * is not enough anywhere, a place where little new memory is needed. False: there is none
 * that is better than the end of the range. `lock` held. */
bool tarn__gap_find(const struct tarn__caller *caller,
                    const struct tarn__request *request, struct tarn__idle *idle_out,
                    struct tarn__gap *out);

/* --- grow.c --- */

/* What the limit leaves. `lock` held. */
uint64_t tarn__allowance(const struct tarn__pool *pool);
tarn_status tarn__over_limit(const struct tarn__pool *pool, uint64_t bytes);
/* Take the request out of what just came. `lock` held. */
tarn__index tarn__take_fresh(struct tarn__caller *caller,
                             const struct tarn__request *request);

/* --- grow_vmm.c --- */
tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *out);

#endif
