/* mutex.c -- the list of locks that the forking thread holds over a fork.
 *
 * No thread takes two of them at a time, so the order in which a fork takes them does not
 * matter. A fork takes the lock of the list before all of them.
 */
#include "base/mutex.h"
#include <stddef.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, tarn__mutex) all = LIST_HEAD_INITIALIZER(all);

static void before_fork(void)
{
    struct tarn__mutex *i;

    pthread_mutex_lock(&list_lock);
    LIST_FOREACH (i, &all, link)
        pthread_mutex_lock(&i->mutex);
}

static void after_fork(void)
{
    struct tarn__mutex *i;

    LIST_FOREACH (i, &all, link)
        pthread_mutex_unlock(&i->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    struct tarn__mutex *i;

    LIST_FOREACH (i, &all, link)
        if (i->in_child)
            i->in_child(i);
    after_fork();
}

/* Runs when the library is loaded, when no other thread uses it yet. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void tarn__mutex_init(struct tarn__mutex *self,
                      void (*in_child_of)(struct tarn__mutex *self))
{
    pthread_mutex_init(&self->mutex, NULL);
    self->in_child = in_child_of;
    pthread_mutex_lock(&list_lock);
    LIST_INSERT_HEAD(&all, self, link);
    pthread_mutex_unlock(&list_lock);
}

void tarn__mutex_destroy(struct tarn__mutex *self)
{
    pthread_mutex_lock(&list_lock);
    LIST_REMOVE(self, link);
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&self->mutex);
}
