/* registry.h -- the list of instances, by index. */
#ifndef TARN_NRT_REGISTRY_H
#define TARN_NRT_REGISTRY_H

#include "nrt/runtime.h"

extern tarn_runtime tarn__default_runtime;
extern _Atomic(tarn_runtime *) tarn__runtimes[TARN__RUNTIMES];

/* The lock of the list of instances, and of the lists of their shards. */
extern pthread_mutex_t tarn__registry_mutex;
void tarn__registry_lock(void);
void tarn__registry_unlock(void);

/* Add a new instance, and set its index. False: the registry is full. */
bool tarn__registry_add(tarn_runtime *runtime);

/* Return the instance with that index, which the header of a block has. */
static inline tarn_runtime *tarn__registry_at(unsigned index)
{
    return atomic_load_explicit(&tarn__runtimes[index % TARN__RUNTIMES],
                                memory_order_acquire);
}

#endif
