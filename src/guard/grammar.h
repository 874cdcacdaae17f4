/* grammar.h -- the options of guard mode: their text and their ranges. */
#ifndef TARN_GUARD_GRAMMAR_H
#define TARN_GUARD_GRAMMAR_H

#include <tarn/guard.h>

/* Return the options of `guard,poison,quarantine`. */
tarn_guard_options tarn__grammar_default(void);

/* Copy the options of a caller (NULL: the default) with defaults in place of zeros.
 * TARN_INVALID_ARGUMENT with a message: one is out of its range. */
tarn_status tarn__grammar_complete(const tarn_guard_options *options,
                                   tarn_guard_options *out);

#endif
