/* shared_pool.c -- the driver pools that Tarn created for export, by number.
 *
 * In a child of fork() a thread that does not exist there may hold the lock, so the child
 * does not take it. No driver call is started there, nothing is exported and no pool
 * ends.
 */
#include "resource/shared_pool.h"
#include "base/mutex_assert.h"
#include <pthread.h>
#include <stdlib.h>

struct shared_pool {
    struct shared_pool *next;
    CUmemoryPool_ pool;
    uint64_t number;
};

static struct {
    pthread_mutex_t lock;
    struct shared_pool *first;
    uint64_t last_number;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tarn__shared_pool_lock(void)
{
    pthread_mutex_lock(&shared.lock);
}

void tarn__shared_pool_unlock(void)
{
    pthread_mutex_unlock(&shared.lock);
}

bool tarn__shared_pool_add(CUmemoryPool_ pool)
{
    struct shared_pool *one = malloc(sizeof *one);

    if (!one)
        return false;
    tarn__shared_pool_lock();
    *one = (struct shared_pool){shared.first, pool, ++shared.last_number};
    shared.first = one;
    tarn__shared_pool_unlock();
    return true;
}

void tarn__shared_pool_remove(CUmemoryPool_ pool)
{
    struct shared_pool **link = &shared.first;

    if (tarn__driver_gone())
        return;
    tarn__shared_pool_lock();
    while (*link && (*link)->pool != pool)
        link = &(*link)->next;
    struct shared_pool *one = *link;
    if (one)
        *link = one->next;
    tarn__shared_pool_unlock();
    free(one);
}

uint64_t tarn__shared_pool_number(CUmemoryPool_ pool)
{
    tarn__assert_mutex_held(&shared.lock);

    for (const struct shared_pool *one = shared.first; one; one = one->next)
        if (one->pool == pool)
            return one->number;
    return (uint64_t)(uintptr_t)pool;
}
