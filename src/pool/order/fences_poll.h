/* fences_poll.h -- queries of event fences: which are complete. */
#ifndef TARN_POOL_FENCES_POLL_H
#define TARN_POOL_FENCES_POLL_H

#include "driver/driver.h"
#include "pool/pool.h"

/* Query the driver which event fences are complete, up to `most` of them, and make the
 * frees they cover completed. The queries are repeated while they find complete event
 * fences. Returns true if any became completed. Takes and releases `lock`. */
bool tarn__fences_poll(struct tarn__pool *pool, unsigned most);
/* Query every stream state, in place of `most`, until the oldest event fence of each is
 * not complete. */
bool tarn__fences_poll_all(struct tarn__pool *pool);
/* Mark the blocks of finished epochs as completed, which makes them available to every
 * stream. `lock` held, and released in between. */
void tarn__fences_poll_sweep(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* --- the two halves of tarn__fences_poll(), for a call that holds the lock already --- */

/* The most queries between two holds of the lock. */
enum { TARN__FENCES_POLL_MAX = 32 };

/* A query whether a pinned event is complete; `done`: it is. */
struct tarn__fences_query {
    struct tarn__stream_state *stream_state;
    CUevent_ event;
    uint64_t epoch;
    bool done;
};

/* Which stream states to query. DUE: those that their back-off (`done` of the stream
 * state) does not skip. The back-off skips more rounds after each query that found an
 * event fence incomplete. ALL: each of them. */
enum tarn__fences_which { TARN__FENCES_DUE, TARN__FENCES_ALL };

/* Some queries of a round. A stream state whose event fence was complete may be queried
 * for its next one in the same round. */
struct tarn__fences_poll {
    enum tarn__fences_which which;
    unsigned most;  /* DUE: the number of complete event fences yet to find */
    uint64_t round; /* its number */
    unsigned count; /* the chosen queries */
    struct tarn__fences_query query[TARN__FENCES_POLL_MAX];
};

/* Choose the first queries, to find up to `most` complete event fences. The call continues
 * the present round where the last one ended, and begins a new round if that one has no
 * more queries. `lock` held, and released in between. */
void tarn__fences_poll_begin(struct tarn__pool *pool, struct tarn__fences_poll *poll,
                             unsigned most) TARN__REQUIRES(pool_lock);
/* Make the chosen queries, and further ones while they find complete event fences, until
 * there are so many. Returns true if any was complete. Takes and releases
 * `lock`. */
bool tarn__fences_poll_end(struct tarn__pool *pool, struct tarn__fences_poll *poll);

#endif
