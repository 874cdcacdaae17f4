/* idle.h -- memory of a pool that is ready and makes whole handles, or a whole segment: it
 * can be moved to where it is needed, or given back.
 *
 * Also what the files about growth share. `growth` is held around all of it; `lock`, where
 * it says so.
 */
#ifndef TARN_POOL_IDLE_H
#define TARN_POOL_IDLE_H

#include "resource/pool/pool.h"

enum { TARN__IDLE_MAX = 256 };

struct tarn__idle {
    struct tarn__pool *pool;
    tarn__index nodes[TARN__IDLE_MAX];
    struct tarn__span spans[TARN__IDLE_MAX]; /* what of each can go */
    unsigned count;
    uint64_t bytes;           /* of the spans */
    uint64_t wanted;          /* enough */
    struct tarn__span not_in; /* addresses that are not to be touched */
};

/* Find idle memory of about `wanted` bytes: the first spans that together are as much, of
 * the last one no more handles than it takes; less where there is less. `lock` held. */
void tarn__idle_find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span not_in,
                     struct tarn__idle *out);
/* Take the spans out of their blocks; `nodes` are then exactly these, MOVING. Where host
 * memory ends, fewer. `lock` held. */
void tarn__idle_carve(struct tarn__idle *idle);
/* They are ready again, but for the first ones. `lock` held. */
void tarn__idle_put_back(const struct tarn__idle *idle, unsigned first);
/* The first `count` have no memory any more. `lock` held. */
void tarn__idle_retire(const struct tarn__idle *idle, unsigned count);

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
