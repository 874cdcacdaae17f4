/* argument.h -- arguments of an exception that are known at run time alone.
 *
 * For them compiled code has a function that makes a tuple of Python objects. tarn.nrt.aot
 * replaces the calls of Python in it by calls of these functions. Each returns a value of
 * its own (struct tarn__value), NULL without memory.
 */
#ifndef TARN_AOT_ARGUMENT_H
#define TARN_AOT_ARGUMENT_H

#include "aot/value.h"

/* Free a value and its items; NULL is allowed. */
void tarn__argument_free(struct tarn__value *value);

struct tarn__value *tarn__argument_signed(int64_t whole);
struct tarn__value *tarn__argument_unsigned(uint64_t natural);
struct tarn__value *tarn__argument_float(double real);
struct tarn__value *tarn__argument_boolean(int64_t is_true);
/* Copy a text whose characters have `kind` bytes: 1, 2 or 4. */
struct tarn__value *tarn__argument_text(int32_t kind, const void *characters,
                                        int64_t length);
/* Return 0: compiled code asks for the hash of a text and does not use it. */
int64_t tarn__argument_hash(const struct tarn__value *value);
/* Make a value of a pickle; the third parameter is a digest of its bytes. */
struct tarn__value *tarn__argument_pickled(const void *bytes, int32_t count,
                                           const void *digest);
/* Make a tuple whose items are unknown. */
struct tarn__value *tarn__argument_tuple(int64_t count);
/* Set an item, which belongs to the tuple then. Return 0. */
int32_t tarn__argument_set(struct tarn__value *tuple, int64_t index,
                           struct tarn__value *item);
/* Make a tuple of `count` values, which belong to it. */
struct tarn__value *tarn__argument_pack(int64_t count, ...);

#endif
