/* explain.h -- explain why an incref stayed, after a function is done. */
#ifndef TARN_PRUNE_EXPLAIN_H
#define TARN_PRUNE_EXPLAIN_H

#include "prune/verdict.h"

/* Returns the reason why an incref stays. */
typedef struct tarn__verdict (*tarn__explain_fn)(void *search, uint32_t incref);

/* Count and report each incref that stayed beside a decref of its value. False: no host
 * memory. */
bool tarn__explain(struct tarn__function_index *function_index, tarn__explain_fn ask,
                   void *search);
/* The same for a function that was skipped because of its attribute. */
bool tarn__explain_optnone(struct tarn__function_index *function_index);

#endif
