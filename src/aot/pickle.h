/* pickle.h -- reads what compiled code pickles: an exception, or a value. */
#ifndef TARN_AOT_PICKLE_H
#define TARN_AOT_PICKLE_H

#include "aot/value.h"

enum { TARN__PICKLE_VALUES = 192 }; /* an exception of some arguments has 30 */

/* What the instructions of a pickle have made so far. */
struct tarn__pickle {
    const unsigned char *at; /* the next byte */
    size_t left;             /* bytes from there on */
    struct tarn__value values[TARN__PICKLE_VALUES];
    const struct tarn__value *items[TARN__PICKLE_VALUES]; /* of all tuples */
    const struct tarn__value *stack[TARN__PICKLE_VALUES]; /* NULL: a mark */
    const struct tarn__value *memo[TARN__PICKLE_VALUES];
    size_t value_count, item_count, depth, memo_count;
};

/* Read a pickle. Its texts stay in `bytes`. Return the value, or NULL if the pickle has an
 * instruction that is unknown here, or is damaged or too long. An object is a value of
 * kind TARN__VALUE_LATER, a class a value of kind TARN__VALUE_SHOWN. */
const struct tarn__value *tarn__pickle_read(struct tarn__pickle *pickle,
                                            const void *bytes, size_t count);

#endif
