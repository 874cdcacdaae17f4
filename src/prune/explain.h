/* explain.h -- why an incref stayed, told once a function is done. */
#ifndef TARN_PRUNE_EXPLAIN_H
#define TARN_PRUNE_EXPLAIN_H

#include "prune/shapes.h"

/* Says why an incref that is still there stays. */
typedef struct tarn__verdict (*tarn__ask_fn)(void *search, uint32_t incref);

/* Count, and tell of, each incref that stayed beside a decref of its value. False: no host
 * memory. */
bool tarn__explain(struct tarn__view *view, tarn__ask_fn ask, void *search);
/* The same for a function that was not looked at because of its attribute. */
bool tarn__explain_optnone(struct tarn__view *view);

#endif
