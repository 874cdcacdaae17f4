/* cancellation.h -- calls that no pthread_cancel() ends.
 *
 * A thread that is cancelled in write(), poll() or pthread_cond_wait() ends there: it keeps
 * the locks that it holds, and its descriptors stay open. So cancellation is off while a
 * function with such a call holds something.
 */
#ifndef TARN_BASE_CANCELLATION_H
#define TARN_BASE_CANCELLATION_H

#include <pthread.h>

static inline int tarn__cancellation_off(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void tarn__cancellation_restore(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* A declaration: until its block ends, cancellation is off. */
#define TARN__NOT_CANCELLED                                      \
    __attribute__((cleanup(tarn__cancellation_restore), unused)) \
    const int tarn__cancellation = tarn__cancellation_off()

#endif
