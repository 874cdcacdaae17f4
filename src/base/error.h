/* error.h -- the last failure from the inside: whether a call has recorded one, and
 * keeping it across calls that may fail.
 */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include <tarn/status.h>

/* Number of failures that this thread has recorded. Read it before a call of a user's
 * code. If the call fails and the number is the same, it left no message: the last one is
 * older. */
extern _Thread_local unsigned tarn__error_count __attribute__((visibility("hidden")));

/* Return true if a call that returned `status` left a message of its own. `before` is the
 * count before the call. */
static inline bool tarn__error_has_message(unsigned before, tarn_status status)
{
    return tarn__error_count != before && tarn_error_last()->status == status;
}

/* A kept failure of a thread. */
struct tarn__kept_error {
    tarn_error error;
    unsigned count; /* tarn__error_count at that time */
};

struct tarn__kept_error tarn__error_keep(void);

/* Make it the last failure again, as if no other had come since. Returns its status. */
tarn_status tarn__error_restore(const struct tarn__kept_error *kept);

#endif
