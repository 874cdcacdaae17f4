/* error.h -- the last failure from the inside: whether a call has recorded one, and keeping
 * it over calls that may fail.
 */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include <tarn/status.h>

/* How many failures this thread has recorded. Note it before a call of a user's code. If the
 * call fails and the number is the same, it left no message: the last one is older. */
extern _Thread_local unsigned tarn__error_count
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Did a call that returned `status` leave a message of its own? `before` is the count before
 * the call. */
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
