/* backoff.h -- exponential back-off of queries whose answer is often no. */
#ifndef TARN_BASE_BACKOFF_H
#define TARN_BASE_BACKOFF_H

#include <stdbool.h>

/* Exponential back-off. After the answer no, the caller skips the same query once, then
 * three, seven and fifteen times. After the answer yes, it queries each time. */
struct tarn__backoff {
    unsigned chosen, left; /* number of queries to skip; how many remain */
};

/* Count one query that is due. Returns true if the pool is to make it. */
static inline bool tarn__backoff_next(struct tarn__backoff *backoff)
{
    bool allows = backoff->left == 0;

    backoff->left -= !allows;
    return allows;
}

/* Note the answer of a query. */
static inline void tarn__backoff_note(struct tarn__backoff *backoff, bool yes)
{
    backoff->chosen = yes ? 0 : (2 * backoff->chosen + 1) & 15;
    backoff->left = backoff->chosen;
}

#endif
