/* mutex.c -- the list of locks that the forking thread holds over a fork.
 *
 * No thread takes two of them at a time, so the order in which a fork takes them does not
 * matter. A fork takes the lock of the list before all of them.
 */
#include "base/mutex.h"
#include <stddef.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn__mutex *all;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct tarn__mutex *i = all; i; i = i->next)
        pthread_mutex_lock(&i->mutex);
}

static void after_fork(void)
{
    for (struct tarn__mutex *i = all; i; i = i->next)
        pthread_mutex_unlock(&i->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    for (struct tarn__mutex *i = all; i; i = i->next)
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
    self->previous = NULL;
    pthread_mutex_lock(&list_lock);
    self->next = all;
    if (all)
        all->previous = self;
    all = self;
    pthread_mutex_unlock(&list_lock);
}

void tarn__mutex_destroy(struct tarn__mutex *self)
{
    pthread_mutex_lock(&list_lock);
    if (self->previous)
        self->previous->next = self->next;
    else
        all = self->next;
    if (self->next)
        self->next->previous = self->previous;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&self->mutex);
}
