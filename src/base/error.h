/* error.h -- the message of the last failure, from the inside: was it set since a moment,
 * and keeping it over calls that may fail.
 */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include <tarn/status.h>

/* How many failures this thread has recorded. Note it before a user's code is called: where
 * that returns a failure and the number is the same, it has left no message, and the last
 * one is of another failure. */
extern _Thread_local unsigned tarn__error_count
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Did a call that returned `status` leave a message of its own? `before` is the count of
 * before it. */
static inline bool tarn__error_is_told(unsigned before, tarn_status status)
{
    return tarn__error_count != before && tarn_error_last()->status == status;
}

/* The last failure of a thread, kept. */
struct tarn__kept_error {
    tarn_error error;
    unsigned count; /* tarn__error_count then */
};

struct tarn__kept_error tarn__error_keep(void);

/* Make it the last failure again, as if none had come since. Returns its status. */
tarn_status tarn__error_restore(const struct tarn__kept_error *kept);

#endif
