/* mutex.h -- locks that are free in a forked child.
 *
 * A fork copies one thread. A lock that another thread held at that moment is held in the
 * child forever. So each lock of the library follows one of two rules:
 *
 * 1. A lock that guards host memory alone is a struct tarn__mutex. The forking thread
 *    holds all of these over the fork. In the child they are free, and the guarded data
 *    is consistent. While a thread holds one, it makes no driver call, does not block,
 *    calls no user's code and takes no other lock.
 * 2. A child never takes a lock that is held across driver calls or a user's code.
 *    Functions that need one return before: tarn__driver_gone() is true, or the object
 *    belongs to the parent.
 *
 * Three groups of locks have an order among each other or with locks of others, and
 * therefore handlers of their own: the tables of host memory (resource/host.c), the runtime's
 * (nrt/fork.c) and the lock of descriptors (ipc/descriptor.c). The list of open logs (trace/open_logs.c) and
 * the lock of hooks (base/hook.c), which a thread may take while it holds others, are
 * reset in a child.
 *
 * trace/native_stack.c holds a struct tarn__mutex over calls that take the loader's lock.
 */
#ifndef TARN_BASE_MUTEX_H
#define TARN_BASE_MUTEX_H

#include "base/mutex_assert.h"
#include <pthread.h>
#include <sys/queue.h>

struct tarn__mutex {
    pthread_mutex_t mutex;
    /* Called in a child while the lock is held: drop the state of threads that do not
     * exist there. May be NULL. */
    void (*in_child)(struct tarn__mutex *self);
    LIST_ENTRY(tarn__mutex) link; /* in the list of all */
};

/* Initialize and destroy a lock. `in_child` may be NULL. */
void tarn__mutex_init(struct tarn__mutex *self,
                      void (*in_child)(struct tarn__mutex *self));
void tarn__mutex_destroy(struct tarn__mutex *self);

/* Define a static lock, which is initialized when the library is loaded. */
#define TARN__STATIC_MUTEX(name)                               \
    static struct tarn__mutex name;                            \
    __attribute__((constructor)) static void name##_init(void) \
    {                                                          \
        tarn__mutex_init(&name, NULL);                         \
    }                                                          \
    static struct tarn__mutex name

static inline void tarn__mutex_lock(struct tarn__mutex *self)
{
    pthread_mutex_lock(&self->mutex);
}

static inline void tarn__mutex_unlock(struct tarn__mutex *self)
{
    tarn__assert_mutex_held(&self->mutex);
    pthread_mutex_unlock(&self->mutex);
}

#endif
